from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import netloom.ipam

pytestmark = pytest.mark.unit

MODULES = sorted(Path(netloom.ipam.__path__[0]).glob("[!_]*.py"))


def test_the_examples_in_docstrings_do_what_they_show() -> None:
    results = [doctest.testmod(import_module(f"netloom.ipam.{path.stem}")) for path in MODULES]
    assert sum(result.attempted for result in results) > 5
    assert not any(result.failed for result in results)
