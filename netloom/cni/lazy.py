"""Packages that load a module when one of its names is first used (PEP 562).

A command's start is mostly imports, and importing one module of a package runs its `__init__`. So that holds
a table of its names, by the module that has them, and loads none. What type checkers read stands beside it,
below `TYPE_CHECKING`; a test holds both together.

An agent, which must not wait for imports during a request, loads everything before (`load`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`, from the names that each of its modules has for it.

    Threads may ask at once: the interpreter lets one of them load a module, and the others wait for it.
    """
    where = {name: module for module, listed in names.items() for name in listed}

    def find(name: str) -> Any:
        module = where.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, found)  # the next one does not come here
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return find, listed


def load(package: str) -> None:
    """All names that a package has, and with them its modules."""
    loaded = import_module(package)
    for name in loaded.__all__:
        getattr(loaded, name)
