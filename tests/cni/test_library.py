"""What the library promises about itself: its dependencies, and the examples in its docstrings."""

from __future__ import annotations

import ast
import doctest
import sys
from importlib import import_module
from pathlib import Path

import pytest

import netloom.cni

pytestmark = pytest.mark.unit

MODULES = sorted(Path(netloom.cni.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_library_imports_the_standard_library_and_msgspec_and_nothing_else(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # One dot is the library itself; two would be the rest of netloom.
            assert node.level <= 1
            imported |= {(node.module or "").partition(".")[0]} if node.level == 0 else set()
    assert imported - set(sys.stdlib_module_names) <= {"msgspec"}
    assert path.stem == "aio" or "asyncio" not in imported


def test_the_examples_in_docstrings_are_true() -> None:
    results = [doctest.testmod(import_module(f"netloom.cni.{path.stem}")) for path in MODULES]
    assert sum(result.attempted for result in results) >= 5
    assert sum(result.failed for result in results) == 0
