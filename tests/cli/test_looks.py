"""The looks of `netloom doctor`: what each may find has a page, and can be asked for by its code."""

from __future__ import annotations

import ast
from importlib import import_module

import pytest

from netloom.api.catalogue import entry
from netloom.cli.doctor.fixes import FIXABLE
from netloom.cli.doctor.look import FAILED, LOOKS, Look

from ..lanes import ROOT

pytestmark = pytest.mark.unit

DIRECTORY = ROOT / "netloom" / "cli" / "doctor"
CODES = {code for look in LOOKS for code in look.codes}


@pytest.mark.parametrize("code", sorted(CODES | {FAILED}))
def test_what_may_be_found_has_a_page(code: str) -> None:
    assert entry(code) is not None


@pytest.mark.parametrize("look", LOOKS, ids=[look.name for look in LOOKS])
def test_a_look_can_be_taken(look: Look) -> None:
    assert callable(import_module(f"netloom.cli.doctor.{look.name}").look)


def test_whatever_is_found_can_be_asked_for_by_its_code() -> None:
    given = {
        keyword.value.value
        for path in DIRECTORY.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert given <= CODES


def test_what_is_mended_is_what_may_be_found() -> None:
    assert CODES >= FIXABLE
