"""The log of operations: each as programs and people get it, and the log as it grows.

A stream opens the journal for every read. So it never keeps the agent from checkpointing the WAL, and reads a
file that was replaced, or has another version, as what it is now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from math import inf
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from ...api.paths import Place
from ...api.times import shown
from ...journal import Ledger, Operation
from ..control.asking import settle
from ..errors import OperationFailed
from ..journals.reading import journal_path, ledger

# Of operations that are read at a time.
_BATCH = 1000


class Event(Struct, frozen=True, kw_only=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """One operation: a verb that a runtime asked for, or what the agent did by itself."""

    id: Annotated[int, Meta(description="its number; later ones have higher numbers")]
    verb: Annotated[
        str,
        Meta(
            description="of CNI: `ADD`, `DEL`, `CHECK`, `GC`, `STATUS`; of the agent itself: `START`, "
            "`STOP`, `REPAIR`, `TABLE`, `RELEASE`, `REPLAY`, `UNDO`, `RESTORE`"
        ),
    ]
    network: Annotated[str, Meta(description="the network's name; empty if it is about none")]
    container_id: Annotated[str, Meta(description="the container; empty if it is about none")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    namespace: Annotated[str, Meta(description="the pod's namespace, if the runtime said it")]
    pod: Annotated[str, Meta(description="the pod's name, if the runtime said it")]
    netns: Annotated[str, Meta(description="path of the container's network namespace")]
    addresses: Annotated[list[str], Meta(description="addresses that the attachment has, or had")]
    attached: Annotated[
        float | None,
        Meta(
            description="since when the attachment was there, in seconds since 1970; null: not known, or none"
        ),
    ] = None
    started: Annotated[float, Meta(description="when it began, in seconds since 1970")]
    duration: Annotated[float, Meta(description="milliseconds that it took")]
    phases: Annotated[dict[str, float], Meta(description="milliseconds of each part of it, in their order")]
    code: Annotated[int, Meta(description="0, or the code of the error that it ended with")]
    error: Annotated[str, Meta(description="that error in words; empty if it went well")]
    caller: Annotated[str, Meta(description="the process that ran the plugin, as in `containerd[812]`")]
    details: Annotated[str, Meta(description="what the agent did, if it did it by itself")]
    heartbeat: Annotated[
        float | None,
        Meta(
            description="of a `START`: when the previous agent was last alive, in seconds since 1970, if it "
            "did not shut down cleanly; else null"
        ),
    ] = None
    reason: Annotated[
        str,
        Meta(
            description="of a `STOP`: `handover` if another agent took over; of a `START`: `reboot` if "
            "attachments of another boot were released; else empty"
        ),
    ] = ""
    trace: Annotated[str, Meta(description="the caller's W3C trace context, if it gave one")]

    @property
    def failed(self) -> bool:
        return self.code != 0


def event_of(it: Operation) -> Event:
    return Event(
        id=it.id,
        verb=it.verb,
        network=it.network,
        container_id=it.container_id,
        ifname=it.ifname,
        namespace=it.namespace,
        pod=it.pod,
        netns=it.netns,
        addresses=list(it.addresses),
        attached=it.attached,
        started=it.started,
        duration=it.duration,
        phases=dict(it.phases),
        code=it.code,
        error=it.error,
        caller=it.caller,
        details=it.details,
        heartbeat=it.heartbeat,
        reason=it.reason,
        trace=it.trace,
    )


def pod_of(it: Event) -> str:
    """podman has pods without namespaces."""
    return "/".join(filter(None, (it.namespace, it.pod)))


def outcome_of(it: Event) -> str:
    if it.failed:
        return f"code {it.code}: {it.error}"
    return details_of(it) or ", ".join(it.addresses) or "done"


def details_of(it: Event) -> str:
    """For people, with times in the zone of this machine."""
    if it.heartbeat is None:
        return it.details
    last = shown(it.heartbeat, precise=True)
    return f"{it.details}; the previous agent did not shut down cleanly; last heartbeat {last}"


def took(milliseconds: float) -> str:
    """As people say it.

    >>> took(0.042), took(2.349), took(151.2), took(2500.0)
    ('0.04 ms', '2.3 ms', '151 ms', '2.5 s')
    """
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    if milliseconds >= 100:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 1 else f"{milliseconds:.2f} ms"


class EventFilter(NamedTuple):
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
    def __init__(self, place: Place, tell: Callable[[str], None]) -> None:
        """`tell` is told what keeps it from reading, once, in words that may be of others."""
        self._place = place
        self._tell = tell
        self._last = 0
        self._file: tuple[int, int] | None = None
        # What was said of it already, while it could not be read.
        self._trouble = ""

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing at all at the first look."""
        return self._last == 0

    def before(self, wanted: EventFilter, limit: int | None) -> list[Event]:
        """Those that were: the last so many of them, or all, also those that were just answered."""
        behind = settle(self._place.socket)
        if behind:
            self._tell(behind)
        with ledger(self._place) as journal:
            self._file = self._identity()
            if journal is None:  # for who follows, it may come
                return []
            self._last = journal.last_operation()
            return [event_of(it) for it in _backwards(journal, self._last, wanted, limit)][::-1]

    def since(self, wanted: EventFilter) -> Iterator[Event]:
        """Those that came since the last look."""
        try:
            for it in self._news():
                if wanted.has(it):
                    yield event_of(it)
        except OperationFailed as error:
            # An agent that starts anew, or somebody who puts a backup back, will end it.
            if str(error) != self._trouble:
                self._tell(f"waiting: {error}")
            self._trouble = str(error)

    def _news(self) -> Iterator[Operation]:
        with ledger(self._place) as journal:
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
            status = os.stat(journal_path(self._place.state_dir))
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _backwards(journal: Ledger, last: int, wanted: EventFilter, limit: int | None) -> Iterator[Operation]:
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
