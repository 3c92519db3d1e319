"""Current conditions of the node, and events, which are rows of the journal's log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ..api.findings import Finding
from ..cni import CNIError
from ..journal import Attachment, Journal, Operation
from ..journal.records import Reason
from ..networks.attachment import addresses_of


class Condition(Struct, frozen=True):
    """A finding that holds until it is cleared.

    `family` is 4 or 6 if it concerns networks with pools of that family, else 0. With `blocks`, containers on
    these networks have no connectivity: the networks are not ready.
    """

    finding: Finding
    family: int = 0
    blocks: bool = False


class Conditions:
    def __init__(self) -> None:
        self._failures: dict[str, str] = {}
        self._others: dict[str, Condition] = {}

    # Failures: reasons why an ADD would fail now, by name.

    @property
    def failures(self) -> dict[str, str]:
        """A copy, oldest first."""
        return dict(self._failures)

    def failure(self, *names: str) -> str:
        """Returns the text of the first of these failures that is set, or an empty string."""
        return next((self._failures[name] for name in names if name in self._failures), "")

    def fail(self, name: str, text: str) -> bool:
        """Sets a failure. Returns whether it is new."""
        is_new = self._failures.get(name) != text
        self._failures[name] = text
        return is_new

    def recover(self, name: str) -> str:
        """Clears a failure. Returns its text, or an empty string if it was not set."""
        return self._failures.pop(name, "")

    # Others, by their keys.

    def findings(self) -> list[Finding]:
        return [it.finding for it in dict(self._others).values()]

    def set(self, key: str, condition: Condition) -> bool:
        """Sets a condition. Returns whether it is new."""
        is_new = self._others.get(key) != condition
        self._others[key] = condition
        return is_new

    def clear(self, key: str) -> None:
        self._others.pop(key, None)

    def replace(self, prefix: str, conditions: Mapping[str, Condition]) -> list[Condition]:
        """Replaces all conditions whose keys begin with `prefix`. Returns those with a new key."""
        for key in [it for it in self._others if it.startswith(prefix) and it not in conditions]:
            del self._others[key]
        new = [it for key, it in conditions.items() if key not in self._others]
        self._others.update(conditions)
        return new

    def blocking(self, families: Iterable[int]) -> list[Finding]:
        """Returns the findings that make a network with pools of these families not ready."""
        wanted = set(families)
        return [it.finding for it in dict(self._others).values() if it.blocks and it.family in wanted]


# Longest text of an event, in characters.
_LONGEST = 2000


class EventLog:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def record(
        self,
        event: str,
        details: str,
        attachment: Attachment | None = None,
        *,
        network: str = "",
        trace: str = "",
        error: CNIError | None = None,
        heartbeat: float | None = None,
        reason: Reason = "",
    ) -> None:
        """`event` is one of the journal's `EVENTS`."""
        self._journal.log(
            Operation(
                verb=event,
                network=network if attachment is None else attachment.network,
                container_id="" if attachment is None else attachment.container_id,
                ifname="" if attachment is None else attachment.ifname,
                started=time.time(),
                duration=0.0,
                phases={},
                code=0 if error is None else error.code,
                error="" if error is None else error.reason[:_LONGEST],
                details=details[:_LONGEST],
                trace=trace,
                netns="" if attachment is None else attachment.netns,
                namespace="" if attachment is None else attachment.namespace,
                pod="" if attachment is None else attachment.pod,
                addresses=() if attachment is None else addresses_of(attachment.result),
                attached=None if attachment is None else attachment.created_at,
                heartbeat=heartbeat,
                reason=reason,
            )
        )
