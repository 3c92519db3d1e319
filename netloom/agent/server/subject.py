"""What a line of the log is about: an attachment, the verb that was asked for, the caller's trace context.

A request has a task of its own, so that whatever is said on its way, by whomever, is about the same. What
the agent does by itself says it with each line.
"""

from __future__ import annotations

from contextvars import ContextVar

from ...cni import AttachmentKey

_NOTHING = AttachmentKey("", "", "")


class Subject:
    """The network of a request is known when its configuration was read: `key` is set anew then."""

    __slots__ = ("key", "trace", "verb")

    def __init__(self, key: AttachmentKey = _NOTHING, trace: str = "", verb: str = "") -> None:
        self.key = key
        self.trace = trace
        self.verb = verb


_current: ContextVar[Subject | None] = ContextVar("subject", default=None)


def begin(verb: str, key: AttachmentKey, trace: str) -> Subject:
    """For the rest of this task."""
    subject = Subject(key, trace, verb)
    _current.set(subject)
    return subject


def current() -> Subject | None:
    return _current.get()


def about(key: AttachmentKey, trace: str = "") -> dict[str, Subject]:
    """The `extra` of a line that is about an attachment, and said on nobody's behalf."""
    return {"subject": Subject(key, trace)}
