"""Finds containers, pods and namespaces in the journal by name, including those of deleted attachments.

`Ledger` has what an ADD needs. These functions search whole tables, for commands only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..cni import AttachmentKey
from .ledger import Ledger
from .records import seconds, typed

_NAMES = "network, container_id, ifname, namespace, pod, netns"
# Each table has its own names for its subject; a row of either may be the only one.
_TABLES = ("attachment", "operation")
# What an agent may log before its START: that it finished unfinished work of the agent before.
_BEFORE_START = frozenset({"UNDO", "REPLAY"})
# The fact that holds the gaps of the log, and how many gaps it keeps.
_GAP = "operations_lost"
_GAPS = 10


class Named(NamedTuple):
    """An attachment that exists or existed, with every name that a user may give it."""

    network: str
    container_id: str
    ifname: str
    namespace: str
    pod: str
    netns: str

    @property
    def key(self) -> AttachmentKey:
        return AttachmentKey(self.network, self.container_id, self.ifname)


def named(ledger: Ledger, word: str, netns: Sequence[str] = (), *, log: bool = True) -> list[Named]:
    """Returns what matches a word by pod, namespace path or beginning of the container ID, the latest last.

    Without `log`, searches existing attachments only.
    """
    places = ", ".join("?" * len(netns))
    condition = f"pod = ? OR netns IN ({places}) OR substr(container_id, 1, ?) = ?"
    return _listed(ledger, condition, (word, *netns, len(word), word), log)


def of_pod(ledger: Ledger, namespace: str, pod: str, *, log: bool = True) -> list[Named]:
    return _listed(ledger, "namespace = ? AND pod = ?", (namespace, pod), log)


def of_key(ledger: Ledger, network: str, container: str, ifname: str, *, log: bool = True) -> list[Named]:
    """Returns what matches a key whose container ID may be cut short."""
    condition = "network = ? AND ifname = ? AND substr(container_id, 1, ?) = ?"
    return _listed(ledger, condition, (network, ifname, len(container), container), log)


def keys(ledger: Ledger) -> list[AttachmentKey]:
    """Returns every key in the log."""
    query = "SELECT DISTINCT network, container_id, ifname FROM operation WHERE container_id != ''"
    return typed(ledger.connection.execute(query).fetchall(), list[AttachmentKey])


def networks_attached(ledger: Ledger) -> Counter[str]:
    """Counts the attachments of each network; networks without attachments are left out."""
    rows = ledger.connection.execute("SELECT network, count(*) FROM attachment GROUP BY network").fetchall()
    return Counter(dict(typed(rows, list[tuple[str, int]])))


def alike(ledger: Ledger, word: str) -> list[Named]:
    """Returns what has a name that begins like a word, the latest first: the user may have meant one of
    these.
    """
    beginning = word.rpartition("/")[2]
    condition = "substr(container_id, 1, 4) = ? OR substr(pod, 1, 2) = ? OR namespace = ? OR instr(netns, ?)"
    values = (beginning[:4], beginning[:2], word.partition("/")[0], f"/{beginning[:2]}")
    return _listed(ledger, condition, values, True)[::-1] if beginning else []


def _listed(ledger: Ledger, condition: str, values: Sequence[object], log: bool) -> list[Named]:
    """Runs a search. A word with bytes that are not text matches nothing: the journal holds only text."""
    if not all(_is_text(it) for it in values):
        return []
    found: dict[Named, None] = {}
    for table in _TABLES if log else _TABLES[:1]:
        query = f"SELECT {_NAMES} FROM {table} WHERE container_id != '' AND ({condition}) ORDER BY id"
        for row in ledger.connection.execute(query, values):
            found[typed(row, Named)] = None
    return list(found)


def _is_text(value: object) -> bool:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def first_logged(ledger: Ledger) -> float | None:
    """Returns when the log begins; nothing is known of earlier operations."""
    row = ledger.connection.execute("SELECT started FROM operation ORDER BY id LIMIT 1").fetchone()
    return None if row is None else seconds(row[0])


class AgentOutage(NamedTuple):
    """A time without an agent. If `ended` is None, it may continue.

    `began` is when the agent stopped. For a killed agent, it is its last sign of life: the agent ended
    between that and `ended`.
    """

    began: float
    ended: float | None
    stopped: bool


def outages(ledger: Ledger, *, is_down: bool = False) -> list[AgentOutage]:
    """Returns the outages that the log covers, the oldest first. A killed agent has not logged its end.

    A handover is no outage: its requests waited and were answered. `is_down`: no agent runs now. The log
    cannot know that, so the caller says whether the last outage continues.
    """
    found: list[AgentOutage] = []
    stopped: float | None = None
    is_seamless = True  # so that no outage is reported for the time before the log
    for it in ledger.operations_of_node("START", "STOP"):
        if it.verb == "STOP":
            is_seamless = it.reason == "handover"
            stopped = None if is_seamless else it.started
            continue
        if not is_seamless and stopped is not None:
            found.append(AgentOutage(stopped, it.started, True))
        elif not is_seamless:
            signs = (_last_before(ledger, it.id), it.heartbeat)
            began = max((sign for sign in signs if sign is not None), default=it.started)
            found.append(AgentOutage(min(began, it.started), it.started, False))
        stopped, is_seamless = None, False
    if stopped is not None:
        return [*found, AgentOutage(stopped, None, True)]
    last = None if is_seamless or not is_down else _last_before(ledger, ledger.last_operation() + 1)
    return found if last is None else [*found, AgentOutage(last, None, False)]


class Gap(NamedTuple):
    """Operations that are missing from the log because the disk failed."""

    operations: int
    began: float
    ended: float


def note_gap(ledger: Ledger, count: int, began: float, ended: float) -> None:
    """Records a gap. Only the latest gaps are kept."""
    found = [*gaps(ledger), Gap(count, began, ended)][-_GAPS:]
    ledger.set_fact(_GAP, msgspec.json.encode(found).decode())


def gaps(ledger: Ledger) -> list[Gap]:
    try:
        return msgspec.json.decode(ledger.fact(_GAP) or "[]", type=list[Gap])
    except msgspec.MsgspecError:  # not written by netloom
        return []


def ended_uncleanly(ledger: Ledger) -> bool:
    """Says whether the last agent that started has not logged its end."""
    query = "SELECT verb FROM operation WHERE verb IN ('START', 'STOP') ORDER BY id DESC LIMIT 1"
    row = ledger.connection.execute(query).fetchone()
    return row is not None and row[0] == "START"


def _last_before(ledger: Ledger, number: int) -> float | None:
    """Returns the end of the last operation before a row that certainly belongs to an earlier agent."""
    query = "SELECT verb, started + duration / 1000 FROM operation WHERE id < ? ORDER BY id DESC"
    rows = ledger.connection.execute(query, (number,))
    return next((seconds(ended) for verb, ended in rows if verb not in _BEFORE_START), None)
