"""The checks of `netloom doctor`: what each may find has a page, and can be asked for by its code."""

from __future__ import annotations

import ast

import pytest

from netloom.api.catalogue import entry
from netloom.ops.doctor.checks import CHECKS, FAILED, NodeCheck
from netloom.ops.doctor.fixes import FIXABLE

from ..lanes import ROOT

pytestmark = pytest.mark.unit

DIRECTORY = ROOT / "netloom" / "ops" / "doctor"
CODES = {code for check in CHECKS for code in check.codes}


def functions() -> set[str]:
    """Every function in the room whose name says that it is a check, as `where` has it."""
    return {
        f"{path.stem}:{node.name}"
        for path in DIRECTORY.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    }


@pytest.mark.parametrize("code", sorted(CODES | {FAILED}))
def test_what_may_be_found_has_a_page(code: str) -> None:
    assert entry(code) is not None


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_a_check_can_run(check: NodeCheck) -> None:
    assert callable(check.function())


def test_every_check_is_in_the_table_once() -> None:
    assert sorted(check.where for check in CHECKS) == sorted(functions())


def test_whatever_is_found_can_be_asked_for_by_its_code() -> None:
    given = {
        keyword.value.value
        for path in DIRECTORY.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert given
    assert given <= CODES


def test_what_is_mended_is_what_may_be_found() -> None:
    assert CODES >= FIXABLE
