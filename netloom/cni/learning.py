"""Types that msgspec has to know before two threads decode to them.

msgspec takes a type apart when it first meets it, and what it has found so far is there for all to use
meanwhile: a second thread that comes then reads what is not written yet, and ends the interpreter (a
segmentation fault, 0.22). So whoever comes first learns a type alone.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_known: set[Any] = set()
_learning = threading.Lock()


def learned(kind: T) -> T:
    """The same type, which any thread may decode to from now on."""
    if kind not in _known:
        with _learning:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return kind
