"""The log of operations: events for programs and people, and a stream of new ones.

A stream opens the journal for every read. So it never keeps the agent from checkpointing the WAL, and notices
when the file was replaced or migrated.
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

# Number of operations in one read.
_BATCH = 1000


class Event(Struct, frozen=True, kw_only=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """One operation: a verb that a runtime asked for, or what the agent did by itself."""

    id: Annotated[int, Meta(description="its number; later operations have higher numbers")]
    verb: Annotated[
        str,
        Meta(
            description="a CNI verb: `ADD`, `DEL`, `CHECK`, `GC`, `STATUS`; or of the agent itself: `START`, "
            "`STOP`, `REPAIR`, `TABLE`, `RELEASE`, `REPLAY`, `UNDO`, `RESTORE`"
        ),
    ]
    network: Annotated[str, Meta(description="the network's name; empty if it concerns none")]
    container_id: Annotated[str, Meta(description="the container; empty if it concerns none")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    namespace: Annotated[str, Meta(description="the pod's namespace, if the runtime sent it")]
    pod: Annotated[str, Meta(description="the pod's name, if the runtime sent it")]
    netns: Annotated[str, Meta(description="path of the container's network namespace")]
    addresses: Annotated[list[str], Meta(description="addresses that the attachment has, or had")]
    attached: Annotated[
        float | None,
        Meta(
            description="when the attachment was made, in seconds since 1970; null: unknown, or no attachment"
        ),
    ] = None
    started: Annotated[float, Meta(description="when it began, in seconds since 1970")]
    duration: Annotated[float, Meta(description="duration in milliseconds")]
    phases: Annotated[dict[str, float], Meta(description="milliseconds of each phase, in their order")]
    code: Annotated[int, Meta(description="0, or the code of the error that it ended with")]
    error: Annotated[str, Meta(description="text of that error; empty if it succeeded")]
    caller: Annotated[str, Meta(description="the process that ran the plugin, as in `containerd[812]`")]
    details: Annotated[str, Meta(description="what the agent did, if it acted by itself")]
    heartbeat: Annotated[
        float | None,
        Meta(
            description="of a `START`: when the previous agent was last alive, in seconds since 1970, if it "
            "did not shut down cleanly; otherwise null"
        ),
    ] = None
    reason: Annotated[
        str,
        Meta(
            description="of a `STOP`: `handover` if another agent took over; of a `START`: `reboot` if "
            "attachments of another boot were released; of an `ADD`: `pool-exhausted` if no address was "
            "free; otherwise empty"
        ),
    ] = ""
    trace: Annotated[str, Meta(description="the caller's W3C trace context, if it sent one")]

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
    """Returns the pod's name with its namespace, if it has one; podman's pods have none."""
    return "/".join(filter(None, (it.namespace, it.pod)))


def outcome_of(it: Event) -> str:
    if it.failed:
        return f"code {it.code}: {it.error}"
    return details_of(it) or ", ".join(it.addresses) or "done"


def details_of(it: Event) -> str:
    """Returns details for people, with times in this machine's time zone."""
    if it.heartbeat is None:
        return it.details
    last = shown(it.heartbeat, precise=True)
    return f"{it.details}; the previous agent did not shut down cleanly; last heartbeat {last}"


def took(milliseconds: float) -> str:
    """Returns a duration for people.

    >>> took(0.042), took(2.349), took(151.2), took(2500.0)
    ('0.04 ms', '2.3 ms', '151 ms', '2.5 s')
    """
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    if milliseconds >= 100:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds:.1f} ms" if milliseconds >= 1 else f"{milliseconds:.2f} ms"


class EventFilter(NamedTuple):
    """Selects operations; an empty `verbs` selects all verbs."""

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
    def __init__(self, place: Place, notify: Callable[[str], None]) -> None:
        """`notify` receives each reason why the journal cannot be read once; it may have text of others."""
        self._place = place
        self._notify = notify
        self._last = 0
        self._file: tuple[int, int] | None = None
        # The last reason that was passed to `notify`.
        self._reported = ""

    @property
    def is_empty(self) -> bool:
        """Whether the journal had no operation when it was first read."""
        return self._last == 0

    def before(self, wanted: EventFilter, limit: int | None) -> list[Event]:
        """Returns past operations: the last `limit`, or all, including those that were just answered."""
        behind = settle(self._place.socket)
        if behind:
            self._notify(behind)
        with ledger(self._place) as journal:
            self._file = self._identity()
            if journal is None:  # it may appear while the log is followed
                return []
            self._last = journal.last_operation()
            return [event_of(it) for it in _backwards(journal, self._last, wanted, limit)][::-1]

    def since(self, wanted: EventFilter) -> Iterator[Event]:
        """Yields operations that are newer than the last read."""
        try:
            for it in self._news():
                if wanted.has(it):
                    yield event_of(it)
        except OperationFailed as error:
            # It ends when an agent starts, or a backup is restored.
            if str(error) != self._reported:
                self._notify(f"waiting: {error}")
            self._reported = str(error)

    def _news(self) -> Iterator[Operation]:
        with ledger(self._place) as journal:
            file = self._identity()
            if journal is None:
                return
            if file != self._file or journal.last_operation() < self._last:
                # Another journal took its place, and numbers start again.
                if self._file is not None:
                    self._notify("the journal was replaced: another log begins")
                self._file, self._last = file, 0
            self._reported = ""
            while some := journal.operations_after(self._last, _BATCH):
                lost = some[0].id - self._last - 1
                if self._last and lost > 0:
                    self._notify(f"{lost} events were dropped from the log before they could be read")
                self._last = some[-1].id
                yield from some

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(journal_path(self._place.state_dir))
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _backwards(journal: Ledger, last: int, wanted: EventFilter, limit: int | None) -> Iterator[Operation]:
    """Yields operations, the latest first, and reads no more than needed: all of a full log take 0.25 s."""
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
