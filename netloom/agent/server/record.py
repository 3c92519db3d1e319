"""What the journal keeps of an operation: its outcome, its duration, and how long each phase took."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ...api.protocol import Message
from ...cni import AttachmentKey, CNIError
from ...journal import Operation
from ...networks.attachment import addresses_of

if TYPE_CHECKING:
    from ...journal import Attachment


class Timer:
    def __init__(self) -> None:
        self.started = time.time()
        self._began = self._last = time.perf_counter()
        self.phases: dict[str, float] = {}
        # Which attachment it is about, once that is known.
        self.attachment: Attachment | None = None

    def lap(self, phase: str) -> None:
        """The time since the last lap was this phase's."""
        now = time.perf_counter()
        self.phases[phase] = round(self.phases.get(phase, 0.0) + (now - self._last) * 1000, 3)
        self._last = now

    @property
    def total(self) -> float:
        """From its beginning to its last lap."""
        return round((self._last - self._began) * 1000, 3)


LONGEST_ERROR = 2000
_LONGEST_NAME = 253
# As W3C has it: no version ff, and no ID of zeros.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(message: Message) -> str:
    """The caller's trace context, if it is one."""
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
    )


def _attached(verb: str, timer: Timer, error: CNIError | None) -> float | None:
    """Since when: the lines before this one may be lost. What an ADD could not attach never was."""
    found = timer.attachment
    was_attached = found is not None and not (verb == "ADD" and error is not None)
    return found.created_at if found is not None and was_attached else None


def _known_of(timer: Timer, message: Message) -> tuple[str, str, tuple[str, ...]]:
    """Namespace, pod and addresses: of the attachment, or as far as the request itself tells."""
    found = timer.attachment
    if found is not None:
        return found.namespace, found.pod, addresses_of(found.result)
    # Whatever else is wrong with them: these two say whose failure it is.
    pairs = (it.partition("=") for it in message.head.environment.get("CNI_ARGS", "").split(";"))
    given = {name: value[:_LONGEST_NAME] for name, _, value in pairs}
    return given.get("K8S_POD_NAMESPACE", ""), given.get("K8S_POD_NAME", ""), ()
