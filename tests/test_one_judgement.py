"""Every finding has one home: one module makes it, in one set of words, whoever tells of it."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from netloom.api.catalogue import ENTRIES

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[1] / "netloom"


def trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in sorted(ROOT.rglob("*.py"))
        if path.parent.name != "catalogue"
    }


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [it for it in ast.walk(tree) if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)]


def constants(tree: ast.Module) -> dict[str, str]:
    return {
        it.targets[0].id: it.value.value
        for it in tree.body
        if isinstance(it, ast.Assign)
        and isinstance(it.targets[0], ast.Name)
        and isinstance(it.value, ast.Constant)
        and isinstance(it.value.value, str)
    }


def name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def code_of(call: ast.Call, known: dict[str, str]) -> str | None:
    """The code that a call of `Finding` has, if the source says it."""
    for it in call.keywords:
        if it.arg == "code":
            match it.value:
                case ast.Constant(value=str(value)):
                    return value
                case ast.Name(id=name):
                    return known.get(name)
    return None


@cache
def homes() -> dict[str, set[str]]:
    """By code, the modules that make it.

    A function that is handed the code makes each that it is called with.
    """
    found: dict[str, set[str]] = defaultdict(set)
    factories: dict[str, str] = {}
    listed = trees()
    for name, tree in listed.items():
        known = constants(tree)
        for function in functions(tree):
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and name_of(call) == "Finding"):
                    continue
                code = code_of(call, known)
                if code is not None:
                    found[code].add(name)
                elif function.args.args and function.args.args[0].arg == "code":
                    factories[function.name] = name
    for tree in listed.values():
        known = constants(tree)
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            made_by = factories.get(name_of(call))
            match call.args[0]:
                case ast.Constant(value=str(code)) if made_by and code in ENTRIES:
                    found[code].add(made_by)
                case ast.Name(id=constant) if made_by and known.get(constant) in ENTRIES:
                    found[known[constant]].add(made_by)
    return found


def test_each_finding_is_made_in_one_place() -> None:
    several = {code: sorted(places) for code, places in homes().items() if len(places) > 1}
    assert several == {}


def test_findings_are_seen() -> None:
    """That the rule above is about something."""
    found = homes()
    assert len(found) > 60
    assert found["table-broken"] == {"ops/findings/kernel.py"}
    assert found["journal-gone"] == {"ops/findings/node.py"}
