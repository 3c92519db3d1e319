"""What requests need of modules, loaded before the first one comes.

Commands load what they need when they need it, since each starts anew. An agent starts once, and who asks it
first is not to wait longer than who asks next.
"""

from __future__ import annotations

from importlib import import_module

from ..cni.lazy import load

_PACKAGES = ("netloom.cni", "netloom.kernel", "netloom.kernel.objects")
# Which functions import on their way.
_MODULES = ("ctypes", "hashlib", "netloom.kernel.nft")


def load_all() -> None:
    for package in _PACKAGES:
        load(package)
    for module in _MODULES:
        import_module(module)
