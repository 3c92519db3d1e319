"""A class's name means one thing in the whole of netloom."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

_ROOT = Path(__file__).parent.parent / "netloom"

# Names that two modules may share, and why.
_SHARED = {
    "Route": "a route in a CNI result, named by the specification, and a route of the kernel",
}


@cache
def classes() -> dict[str, set[str]]:
    """The modules that define a class of each name, by their paths below netloom/."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in _ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(path.relative_to(_ROOT).as_posix())
    return found


def test_no_two_modules_define_a_class_of_the_same_name() -> None:
    settled = {name: sorted(modules) for name, modules in classes().items() if name not in _SHARED}

    assert {name: modules for name, modules in settled.items() if len(modules) > 1} == {}


def test_every_exception_is_still_needed() -> None:
    found = classes()

    assert [name for name in _SHARED if len(found[name]) < 2] == []
