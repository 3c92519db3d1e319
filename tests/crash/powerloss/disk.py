"""A disk that loses what it was not told to keep.

It is fed with the records of a process that made changes to files. At any record the power can be cut:
what was made durable before (`fsync`) is there, and of all that was not, some is, torn at sectors, in no
order. A file's name is durable when its directory was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from struct import Struct as Packing
from typing import NamedTuple

_HEAD = Packing("=IIQQ")
_WRITE, _TRUNCATE, _SYNC, _UNLINK = 1, 2, 3, 4
_SECTOR = 512


class Record(NamedTuple):
    """One change. `offset` is the new size, if it is a truncation. The directory itself has no name."""

    kind: int
    name: str
    offset: int
    data: bytes

    @property
    def is_sync(self) -> bool:
        return self.kind == _SYNC


def records(path: Path) -> Iterator[Record]:
    content = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        kind, name_size, offset, size = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        name = content[at : at + name_size].decode()
        at += name_size
        yield Record(kind, name, offset, content[at : at + size])
        at += size


class _File:
    def __init__(self) -> None:
        self.durable = bytearray()
        self.unsynced: list[Record] = []

    def sync(self) -> None:
        for record in self.unsynced:
            _change(self.durable, record)
        self.unsynced.clear()


class Disk:
    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}

    def take(self, record: Record) -> None:
        if record.is_sync and not record.name:
            self._durable = dict(self._files)
        elif record.is_sync:
            self._files[record.name].sync()
        elif record.kind == _UNLINK:
            self._files.pop(record.name, None)
        else:
            self._files.setdefault(record.name, _File()).unsynced.append(record)

    def cut(self, chance: random.Random, share: float) -> dict[str, bytes]:
        """The files after the power was cut. `share` of what was never made durable has reached the disk."""
        named = self._durable
        if chance.random() < share:  # nobody asked for it, and yet the directory was written
            named = self._files
        return {name: _after_cut(file, chance, share) for name, file in named.items()}


def _after_cut(file: _File, chance: random.Random, share: float) -> bytes:
    content = bytearray(file.durable)
    for record in file.unsynced:
        if record.kind == _TRUNCATE:
            if chance.random() < share:
                _change(content, record)
            continue
        for start in range(0, len(record.data), _SECTOR):
            if chance.random() < share:
                part = record.data[start : start + _SECTOR]
                _change(content, record._replace(offset=record.offset + start, data=part))
    return bytes(content)


def _change(content: bytearray, record: Record) -> None:
    if record.kind == _TRUNCATE:
        del content[record.offset :]
        content.extend(bytes(record.offset - len(content)))
        return
    content.extend(bytes(max(0, record.offset - len(content))))
    content[record.offset : record.offset + len(record.data)] = record.data
