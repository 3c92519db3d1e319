"""Reads the log of operations as it grows.

The journal is opened anew for every look: so none keeps the agent from folding its WAL, and a file that was
replaced, or is of another version by now, is read as what it is.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from math import inf
from typing import NamedTuple

import msgspec

from ..journal import Ledger, Operation
from . import moments
from .event import Event, event_of, outcome_of, pod_of, took
from .failure import CommandFailed
from .journal import journal_path, ledger
from .output import printable_line, say, write_bytes
from .settling import settle
from .short_id import short_id

# Of operations that are read at a time.
_BATCH = 1000


class Wanted(NamedTuple):
    """Which operations; no verbs are all."""

    verbs: frozenset[str] = frozenset()
    failed: bool = False
    since: float | None = None

    def has(self, it: Operation) -> bool:
        return (
            (not self.verbs or it.verb in self.verbs)
            and (not self.failed or it.code != 0)
            and (self.since is None or it.started >= self.since)
        )


class Stream:
    def __init__(self, args: argparse.Namespace, tell: Callable[[str], None]) -> None:
        """`tell` is told what keeps it from reading, once, in words that may be of others."""
        self._args = args
        self._tell = tell
        self._last = 0
        self._file: tuple[int, int] | None = None
        # What was said of it already, while it could not be read.
        self._trouble = ""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing at all at the first look."""
        return self._last == 0

    def before(self, wanted: Wanted, limit: int | None) -> list[Event]:
        """Those that were: the last so many of them, or all, also those that were just answered."""
        behind = settle(self._args.socket)
        if behind:
            self._tell(behind)
        with ledger(self._args) as journal:
            self._file = self._identity()
            if journal is None:  # for who follows, it may come
                return []
            self._last = journal.last_operation()
            return [event_of(it) for it in _backwards(journal, self._last, wanted, limit)][::-1]

    def since(self, wanted: Wanted) -> Iterator[Event]:
        """Those that came since the last look."""
        try:
            for it in self._news():
                if wanted.has(it):
                    yield event_of(it)
        except CommandFailed as error:
            # An agent that starts anew, or somebody who puts a backup back, will end it.
            if str(error) != self._trouble:
                self._tell(f"waiting: {error}")
            self._trouble = str(error)

    def _news(self) -> Iterator[Operation]:
        with ledger(self._args) as journal:
            file = self._identity()
            if journal is None:
                return
            if file != self._file or journal.last_operation() < self._last:
                # Another journal is in its place, whose numbers begin anew.
                if self._file is not None:
                    self._tell("the journal was replaced: another log begins")
                self._file, self._last = file, 0
            self._trouble = ""
            while some := journal.operations_after(self._last, _BATCH):
                lost = some[0].id - self._last - 1
                if self._last and lost > 0:
                    self._tell(f"{lost} events were dropped from the log before they could be read")
                self._last = some[-1].id
                yield from some

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(journal_path(self._args.state_dir))
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _backwards(journal: Ledger, last: int, wanted: Wanted, limit: int | None) -> Iterator[Operation]:
    """The latest first, and no further than needed: to read all of a full log takes a quarter of a second."""
    left = inf if limit is None else limit
    while last > 0 and left > 0:
        first = max(last - _BATCH, 0)
        some = [it for it in journal.operations_after(first, _BATCH) if it.id <= last]
        for it in reversed(some):
            if left > 0 and wanted.has(it):
                left -= 1
                yield it
        if not some or (wanted.since is not None and all(it.started < wanted.since for it in some)):
            return
        last = first


class Printer:
    """Each as soon as it is known."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def show(self, it: Event) -> None:
        if not self._as_json:
            say(printable_line(line_of(it)))
        else:
            write_bytes(_encoded(it) + b"\n")


def _encoded(it: Event) -> bytes:
    try:
        return msgspec.json.encode(it)
    except UnicodeEncodeError:  # names of files may hold bytes that are no text
        from .output import encodable

        return msgspec.json.encode(encodable(msgspec.to_builtins(it)))


def line_of(it: Event) -> str:
    """For people: when, what, of whom, how it went."""
    key = "/".join(filter(None, (it.network, short_id(it.container_id), it.ifname)))
    parts = [
        moments.shown(it.started, precise=True),
        f"{it.verb:7}",
        key,
        pod_of(it),
        took(it.duration) if it.duration else "",
        f"by {it.caller}" if it.caller else "",
        f"FAILED {outcome_of(it)}" if it.failed else outcome_of(it),
    ]
    return "  ".join(filter(None, parts))
