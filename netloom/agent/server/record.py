"""What is written down of an operation, when it is over: `netloom explain` and `netloom events` read it.

Nothing of a request's standard input goes there but names: a configuration may hold secrets.
"""

from __future__ import annotations

import re

from ...api.protocol import Message
from ...cni import AttachmentKey, CNIError
from ...journal import Operation
from ...networks.attachment import addresses_of
from .timer import Course

LONGEST_ERROR = 2000
_LONGEST_NAME = 253
# As W3C has it: no version ff, and no ID of zeros.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_of(message: Message) -> str:
    """The caller's trace context, if it is one."""
    given = message.head.environment.get("TRACEPARENT", "")
    return given if _TRACEPARENT.fullmatch(given) else ""


def operation_of(
    verb: str, key: AttachmentKey, message: Message, caller: str, course: Course, error: CNIError | None
) -> Operation:
    namespace, pod, addresses = _known_of(course, message)
    return Operation(
        verb=verb[:16],
        network=key.network[:200],
        container_id=key.container_id[:200],
        ifname=key.ifname[:40],
        started=course.started,
        duration=course.total,
        phases=course.phases,
        code=0 if error is None else error.code or 999,
        error="" if error is None else error.reason[:LONGEST_ERROR],
        caller=caller,
        netns=message.head.environment.get("CNI_NETNS", "")[:400],
        namespace=namespace,
        pod=pod,
        addresses=addresses,
        trace=trace_of(message),
        attached=_attached(verb, course, error),
    )


def _attached(verb: str, course: Course, error: CNIError | None) -> float | None:
    """Since when: the lines before this one may be lost. What an ADD could not attach never was."""
    found = course.attachment
    was_attached = found is not None and not (verb == "ADD" and error is not None)
    return found.created_at if found is not None and was_attached else None


def _known_of(course: Course, message: Message) -> tuple[str, str, tuple[str, ...]]:
    """Namespace, pod and addresses: of the attachment, or as far as the request itself tells."""
    found = course.attachment
    if found is not None:
        return found.namespace, found.pod, addresses_of(found.result)
    # Whatever else is wrong with them: these two say whose failure it is.
    pairs = (it.partition("=") for it in message.head.environment.get("CNI_ARGS", "").split(";"))
    given = {name: value[:_LONGEST_NAME] for name, _, value in pairs}
    return given.get("K8S_POD_NAMESPACE", ""), given.get("K8S_POD_NAME", ""), ()
