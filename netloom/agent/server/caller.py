"""Who called, and about what: the runtime that ran the plugin, and the subject of a log line."""

from __future__ import annotations

import os
from contextvars import ContextVar

from ...cni import AttachmentKey


def caller_of(plugin: int) -> str:
    """`containerd[812]`, which runs the plugin. Nothing if it is not known, as in another PID namespace.

    Both have to be there, so it is asked before the plugin has its answer: cnitool, for one, ends with it.
    A plugin whose runtime has ended is a child of process 1, which knows nothing of it.
    """
    try:
        if plugin <= 0:
            return ""
        # 4711 (a name (of any kind)) S 812 …
        runtime = int(_read(f"/proc/{plugin}/stat").rpartition(b")")[2].split(None, 2)[1])
        name = _read(f"/proc/{runtime}/comm").decode("utf-8", "replace").strip() if runtime > 1 else ""
    except (OSError, ValueError, IndexError):
        return ""
    return f"{name}[{runtime}]" if runtime > 1 else ""


def _read(path: str) -> bytes:
    """Half of what a file object costs, on the way of every answer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 512)
    finally:
        os.close(descriptor)


_NOTHING = AttachmentKey("", "", "")


class LogSubject:
    """The network of a request is known when its configuration was read: `key` is set anew then."""

    __slots__ = ("key", "trace", "verb")

    def __init__(self, key: AttachmentKey = _NOTHING, trace: str = "", verb: str = "") -> None:
        self.key = key
        self.trace = trace
        self.verb = verb


_current: ContextVar[LogSubject | None] = ContextVar("subject", default=None)


def begin(verb: str, key: AttachmentKey, trace: str) -> LogSubject:
    """For the rest of this task."""
    subject = LogSubject(key, trace, verb)
    _current.set(subject)
    return subject


def current() -> LogSubject | None:
    return _current.get()


def about(key: AttachmentKey, trace: str = "") -> dict[str, LogSubject]:
    """The `extra` of a line that is about an attachment, and said on nobody's behalf."""
    return {"subject": LogSubject(key, trace)}
