"""Packages that load a module when one of its names is first used (PEP 562).

Imports dominate the start time of a command, and importing one module of a package runs its `__init__`. So
the `__init__` holds a table of names by module, and loads none of the modules. Type checkers read the imports
below `TYPE_CHECKING`; a test keeps both equal.

An agent must not wait for imports during a request, so it loads everything at its start (`load`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a package's `__getattr__` and `__dir__`, from the names of each of its modules.

    Threads may ask at once: the interpreter lets one of them load a module, and the others wait for it.
    """
    where = {name: module for module, listed in names.items() for name in listed}

    def find(name: str) -> Any:
        module = where.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{module}"), name)
        setattr(sys.modules[package], name, found)  # later uses do not come here
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return find, listed


def load(package: str) -> None:
    """Loads all names of a package, and with them its modules."""
    loaded = import_module(package)
    for name in loaded.__all__:
        getattr(loaded, name)
