"""The agent's log: lines for people, or one JSON object per line. Both name the attachment and the trace.

The log never contains a request's standard input, because a configuration may hold secrets. Repeated lines
are counted instead of written: a disk that fails repeatedly must not be filled by the log.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from ..api.text import encodable, printable
from .server.caller import LogSubject, current

# Within `_WINDOW` seconds, an equal line is written once and lines of one format `_ALIKE` times; the rest are
# counted.
_WINDOW = 60.0
_ALIKE = 50


class _Window:
    """The lines of one format that were written since a time. `held` counts those that were not."""

    __slots__ = ("held", "last", "since", "written")

    def __init__(self, since: float) -> None:
        self.since = since
        self.written: set[str] = set()
        self.held = 0
        self.last: logging.LogRecord | None = None


class RateLimitedHandler(logging.StreamHandler[TextIO]):
    """Writes equal lines once, and lines of one format a few times; then it writes how many it left out."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        window: float = _WINDOW,
        alike: int = _ALIKE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._length = window
        self._alike = alike
        self._clock = clock
        self._windows: dict[tuple[str, int, str], _Window] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the handler's lock held."""
        self._write_summaries()
        if self._is_allowed(record):
            super().emit(record)

    def close(self) -> None:
        with self.lock or threading.RLock():
            self._write_summaries(at_the_end=True)
            if self._timer is not None:
                self._timer.cancel()
        super().close()

    def _is_allowed(self, record: logging.LogRecord) -> bool:
        form = (record.name, record.levelno, str(record.msg))
        window = self._windows.setdefault(form, _Window(self._clock()))
        text = record.getMessage()
        if record.exc_info:
            text += f" {record.exc_info[1]!r}"
        if text not in window.written and len(window.written) < self._alike:
            window.written.add(text)
            return True
        window.held += 1
        window.last = record
        self._start_timer()
        return False

    def _write_summaries(self, *, at_the_end: bool = False) -> None:
        now = self._clock()
        for form, window in list(self._windows.items()):
            if at_the_end or now - window.since >= self._length:
                del self._windows[form]
                if window.last is not None:
                    super().emit(self._summary(window, window.last, now))

    def _summary(self, window: _Window, last: logging.LogRecord, now: float) -> logging.LogRecord:
        text = f"{window.held} more lines like this within {now - window.since:.0f} s: {last.getMessage()}"
        summary = logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None)
        summary.subject = LogSubject()
        return summary

    def _start_timer(self) -> None:
        """Starts a timer for the summary, because no other line may be logged for hours."""
        if self._timer is None:
            self._timer = threading.Timer(self._length, self._on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _on_timer(self) -> None:
        with self.lock or threading.RLock():
            self._timer = None
            self._write_summaries()
            if any(window.held for window in self._windows.values()):
                self._start_timer()


_LINE = "%(asctime)s %(levelname)s %(message)s"
# Longest name, in characters: it was not validated yet.
_LONGEST = 200

# Modules whose errors never quote a request.
_PLAIN = ("netloom.kernel", "netloom.journal", "sqlite3")


def log_to_stderr(*, level: int, json: bool) -> None:
    # A write that fails, on a full disk, must not cause more writes.
    logging.raiseExceptions = False
    handler = RateLimitedHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json else HumanLines(_LINE))
    logging.basicConfig(level=level, handlers=[handler])


def _subject_of(record: logging.LogRecord) -> LogSubject | None:
    subject = getattr(record, "subject", None)
    return subject if isinstance(subject, LogSubject) else current()


class HumanLines(logging.Formatter):
    """Appends the attachment's key, unless the message names it, and the trace."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        subject = _subject_of(record)
        if subject is not None:
            key = "/".join(it[:_LONGEST] for it in subject.key if it)
            if key and subject.key not in (record.args or ()):
                record.message += f" [{key}]"
            if subject.trace:
                record.message += f" trace={subject.trace}"
        record.message = printable(record.message).replace("\n", "\\n")
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = _traceback(record) or None
        return super().format(record)


class JsonLines(logging.Formatter):
    """Writes JSON objects with the field names of `netloom ls` and `netloom events`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        subject = _subject_of(record)
        if subject is not None:
            key = subject.key
            fields = {
                "verb": subject.verb[:16],
                "network": key.network,
                "container_id": key.container_id[:_LONGEST],
                "ifname": key.ifname[:_LONGEST],
                "trace": subject.trace,
            }
            line |= {name: value for name, value in fields.items() if value}
        if record.exc_info:
            line["traceback"] = _traceback(record)
        return msgspec.json.encode(encodable(line)).decode()


def _traceback(record: logging.LogRecord) -> str:
    """Formats the chain of errors. An error's text is included only if it cannot quote a request."""
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    is_of_request = current() is not None or record.name == "asyncio"
    lines: list[str] = []
    for error in _chain(record.exc_info[1]):
        lines += ["Traceback (most recent call last):"]
        lines += "".join(traceback.format_tb(error.__traceback__)).splitlines()
        lines.append(_named(error, discreet=is_of_request))
    return "\n".join(map(printable, lines))


def _chain(error: BaseException) -> Iterator[BaseException]:
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _chain(before)
    yield error


def _named(error: BaseException, *, discreet: bool) -> str:
    kind = type(error)
    is_plain = isinstance(error, OSError) or (
        kind.__module__.startswith(_PLAIN) and not isinstance(error, ValueError)
    )
    text = getattr(error, "discreet", "") if discreet and not is_plain else str(error)
    return f"{kind.__module__}.{kind.__qualname__}" + (f": {text}" if text else "")
