"""The record of an operation in the journal: outcome, duration, and time of each phase."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ...api.protocol import Message
from ...cni import AttachmentKey, CNIError
from ...ipam import Exhausted
from ...journal import Operation
from ...networks.attachment import addresses_of

if TYPE_CHECKING:
    from ...journal import Attachment


class Timer:
    def __init__(self) -> None:
        self.started = time.time()
        self._began = self._last = time.perf_counter()
        self.phases: dict[str, float] = {}
        # The operation's attachment, once it is known.
        self.attachment: Attachment | None = None

    def lap(self, phase: str) -> None:
        """Adds the time since the last lap to this phase."""
        now = time.perf_counter()
        self.phases[phase] = round(self.phases.get(phase, 0.0) + (now - self._last) * 1000, 3)
        self._last = now

    @property
    def total(self) -> float:
        """Milliseconds from the start to the last lap."""
        return round((self._last - self._began) * 1000, 3)


LONGEST_ERROR = 2000
_LONGEST_NAME = 253
# W3C Trace Context: version ff and all-zero IDs are invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(message: Message) -> str:
    """Returns the caller's trace context; empty if it is missing or invalid."""
    given = message.head.environment.get("TRACEPARENT", "")
    return given if _TRACEPARENT.fullmatch(given) else ""


def operation_of(
    verb: str, key: AttachmentKey, message: Message, caller: str, timer: Timer, error: CNIError | None
) -> Operation:
    namespace, pod, addresses = _known_of(timer, message)
    return Operation(
        verb=verb[:16],
        network=key.network[:200],
        container_id=key.container_id[:200],
        ifname=key.ifname[:40],
        started=timer.started,
        duration=timer.total,
        phases=timer.phases,
        code=0 if error is None else error.code or 999,
        error="" if error is None else error.reason[:LONGEST_ERROR],
        caller=caller,
        netns=message.head.environment.get("CNI_NETNS", "")[:400],
        namespace=namespace,
        pod=pod,
        addresses=addresses,
        trace=trace_of(message),
        attached=_attached(verb, timer, error),
        reason="pool-exhausted" if isinstance(error, Exhausted) else "",
    )


def _attached(verb: str, timer: Timer, error: CNIError | None) -> float | None:
    """Returns when the attachment was created, since older records may be dropped; None for a failed ADD."""
    found = timer.attachment
    was_attached = found is not None and not (verb == "ADD" and error is not None)
    return found.created_at if found is not None and was_attached else None


def _known_of(timer: Timer, message: Message) -> tuple[str, str, tuple[str, ...]]:
    """Returns namespace, pod and addresses of the attachment, or what the request has of them."""
    found = timer.attachment
    if found is not None:
        return found.namespace, found.pod, addresses_of(found.result)
    # Not validated: even in an invalid request, they name the pod that fails.
    pairs = (it.partition("=") for it in message.head.environment.get("CNI_ARGS", "").split(";"))
    given = {name: value[:_LONGEST_NAME] for name, _, value in pairs}
    return given.get("K8S_POD_NAMESPACE", ""), given.get("K8S_POD_NAME", ""), ()
