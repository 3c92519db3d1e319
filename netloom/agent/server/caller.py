"""The runtime that ran the plugin, and the subject of a log line."""

from __future__ import annotations

import os
from contextvars import ContextVar

from ...cni import AttachmentKey


def caller_of(plugin: int) -> str:
    """Returns the runtime that runs the plugin, as `containerd[812]`; empty if unknown.

    It is unknown in another PID namespace, or if the runtime has exited and process 1 is the plugin's parent.
    Must be called before the plugin gets its answer, because some runtimes, as cnitool, exit with it.
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
    """Costs half as much as a file object; every request pays for it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 512)
    finally:
        os.close(descriptor)


_NOTHING = AttachmentKey("", "", "")


class LogSubject:
    """The attachment of a log line. `key` changes when the configuration was read and names the network."""

    __slots__ = ("key", "trace", "verb")

    def __init__(self, key: AttachmentKey = _NOTHING, trace: str = "", verb: str = "") -> None:
        self.key = key
        self.trace = trace
        self.verb = verb


_current: ContextVar[LogSubject | None] = ContextVar("subject", default=None)


def begin(verb: str, key: AttachmentKey, trace: str) -> LogSubject:
    """Sets the subject for the rest of this task."""
    subject = LogSubject(key, trace, verb)
    _current.set(subject)
    return subject


def current() -> LogSubject | None:
    return _current.get()


def about(key: AttachmentKey, trace: str = "") -> dict[str, LogSubject]:
    """Returns the `extra` of a log line about an attachment, outside of a request."""
    return {"subject": LogSubject(key, trace)}
