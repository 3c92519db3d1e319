"""The files of container runtimes, in the order in which they count: the later over the earlier.

Others write them. Whatever is in a file's place is read in bounds, or named with what is wrong with it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..cni.files import read_document

# Nobody writes more; and what takes minutes to parse, nobody waits for.
_LARGEST = 1 << 20
_MOST = 500


class Unreadable(Struct, frozen=True):
    """A file that its runtime would read, and that nobody can."""

    path: Annotated[str, Meta(description="the file")]
    why: Annotated[str, Meta(description="what is wrong with it")]


class Said(Struct, frozen=True):
    """What one file says."""

    path: str
    document: Mapping[str, Any]


class RuntimeFiles(Struct, frozen=True):
    said: tuple[Said, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.said or self.unreadable)


def matching(patterns: Iterable[str]) -> RuntimeFiles:
    """Of a runtime that goes by names."""
    return _sorted_out(
        _read(path) for pattern in patterns for path in sorted(glob.glob(pattern, include_hidden=True))
    )


def with_imports(path: str) -> RuntimeFiles:
    """Of containerd: a file, then what it imports, and then what those do. It, too, reads each once.

    It is known by where it is in the end: by links, a file can import itself under ever longer names.
    """
    found: list[Said | Unreadable] = []
    waiting = [path] if os.path.lexists(path) else []
    seen: set[str] = set()
    while waiting and len(found) < _MOST:
        path = waiting.pop(0)
        place = os.path.realpath(path)
        if place in seen:
            continue
        seen.add(place)
        read = _read(path)
        found.append(read)
        if isinstance(read, Said):
            waiting += _imported(path, read.document.get("imports"))
    return _sorted_out(found)


def _imported(parent: str, imports: object) -> list[str]:
    """Only an asterisk makes a pattern, and that matches hidden files, too."""
    paths = []
    for it in imports if isinstance(imports, list) else ():
        if not isinstance(it, str) or "\0" in it:
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(parent), it))
        paths += sorted(glob.glob(path, include_hidden=True)) if "*" in path else [path]
    return paths


def _read(path: str) -> Said | Unreadable:
    import tomllib

    try:
        return Said(path, tomllib.loads(read_document(path, limit=_LARGEST).decode()))
    except OSError as error:
        return Unreadable(path, error.strerror or str(error))
    except UnicodeDecodeError:
        return Unreadable(path, "it is not UTF-8")
    except ValueError as error:  # also of a number that is too long
        return Unreadable(path, f"it is no TOML: {error}")
    except RecursionError:
        return Unreadable(path, "it is nested too deep")


def _sorted_out(found: Iterable[Said | Unreadable]) -> RuntimeFiles:
    every = list(found)
    return RuntimeFiles(
        tuple(it for it in every if isinstance(it, Said)),
        tuple(it for it in every if isinstance(it, Unreadable)),
    )
