"""The parts of the agent that verbs and the reconciler use. Each part owns its state.

Code outside of a part calls its methods and never assigns to its attributes; a test checks that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from ..api.findings import Finding
from ..cni import AttachmentKey
from ..journal import Journal
from ..kernel.dataplane import Dataplane
from ..networks.host import Host
from ..ops.node.namespaces import boot_id
from ..ops.node.networks import NetworkFiles
from .conditions import Conditions, EventLog
from .host_view import HostView
from .journal_keeper import JournalKeeper
from .locks import KeyedLock
from .metrics.tally import Tally
from .orphan_keeper import OrphanKeeper
from .reconcile.firewalls import Firewalls
from .reconcile.flows import Flows
from .settings import Settings
from .table_keeper import TableKeeper


class AttachmentNotes:
    def __init__(self) -> None:
        # Attachments that differ from their plans and that the agent cannot or may not repair.
        self._findings: dict[int, Sequence[Finding]] = {}
        # To be checked soon after ADD, because a later plugin of the chain may have changed the link.
        self._recent: list[int] = []
        # Attachments whose paths lead to other namespaces, which reuse the inodes of theirs.
        self._replaced: set[int] = set()
        # Removed from the kernel, while the journal could not store that yet.
        self._departed: set[AttachmentKey] = set()

    def findings(self) -> list[Sequence[Finding]]:
        return list(self._findings.values())

    def with_findings(self) -> list[int]:
        return list(self._findings)

    def set_findings(self, number: int, findings: Sequence[Finding]) -> bool:
        """Sets or, with an empty list, clears findings. Returns whether they are new."""
        if not findings:
            self._findings.pop(number, None)
            return False
        is_new = self._findings.get(number) != findings
        self._findings[number] = findings
        return is_new

    def add_recent(self, *numbers: int) -> None:
        self._recent.extend(numbers)

    def take_recent(self, limit: int) -> list[int]:
        """Removes and returns the oldest ones."""
        taken, self._recent[:limit] = self._recent[:limit], []
        return taken

    def is_replaced(self, number: int) -> bool:
        return number in self._replaced

    def set_replaced(self, number: int, is_replaced: bool) -> None:
        if is_replaced:
            self._replaced.add(number)
        else:
            self._replaced.discard(number)

    def keep_replaced(self, numbers: Iterable[int]) -> None:
        """Clears the mark of all other attachments."""
        self._replaced.intersection_update(numbers)

    def has_departed(self, key: AttachmentKey) -> bool:
        return key in self._departed

    def add_departed(self, key: AttachmentKey) -> None:
        self._departed.add(key)

    def forget_departed(self, key: AttachmentKey) -> None:
        """Clears the mark once the journal has no row for the key, or a new one."""
        self._departed.discard(key)


class Node:
    """The agent's parts. `tally` is that of an earlier session of this process, and continues."""

    def __init__(
        self, settings: Settings, journal: Journal, dataplane: Dataplane, tally: Tally | None = None
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.dataplane = dataplane
        self.locks = KeyedLock()
        self.boot_id = boot_id()
        self.tally = Tally() if tally is None else tally
        journal.timed = self.tally.commit
        self.conditions = Conditions()
        self.attachments = AttachmentNotes()
        self.events = EventLog(journal)
        self.networks = NetworkFiles(settings.conf_dir)
        self.host_view = HostView()
        self.journal_keeper = JournalKeeper(journal, self.conditions)
        self.flows = Flows(self.tally)
        self.table = TableKeeper(
            settings.state_dir,
            journal,
            dataplane,
            self.flows,
            self.tally,
            self.events,
            orphaned=lambda: self.orphans.contents,
        )
        self.orphans = OrphanKeeper(
            settings.state_dir, self.boot_id, journal, self.host_view, self.table, self.events
        )
        self.firewalls = Firewalls(journal, self.networks)
        self._socket_check: Callable[[], None] = lambda: None
        self._ticked = time.monotonic()

    @property
    def host(self) -> Host:
        """The current snapshot of the host."""
        return self.host_view.current

    @property
    def ticked(self) -> float:
        """When the last round of the periodic work began."""
        return self._ticked

    def begin_tick(self) -> None:
        self._ticked = time.monotonic()

    def check_socket(self) -> None:
        """Sets a failure if plugins cannot reach the agent. Has no effect before the agent listens."""
        self._socket_check()

    def check_socket_by(self, check: Callable[[], None]) -> None:
        self._socket_check = check
