"""The agent's log: lines for people, or an object a line for programs. Both name attachment and trace.

Nothing of a request's standard input is in it: a configuration may hold secrets.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from ..agent.server.subject import Subject, current
from .calm import CalmHandler
from .output import encodable, printable

_LINE = "%(asctime)s %(levelname)s %(message)s"
# Of a name, before anybody has judged it.
_LONGEST = 200

# Whose errors have texts of their own making, and never a request's.
_PLAIN = ("netloom.kernel", "netloom.journal", "sqlite3")


def log_to_stderr(*, level: int, json: bool) -> None:
    # A full disk is no reason to write more.
    logging.raiseExceptions = False
    handler = CalmHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json else HumanLines(_LINE))
    logging.basicConfig(level=level, handlers=[handler])


def _subject_of(record: logging.LogRecord) -> Subject | None:
    said = getattr(record, "subject", None)
    return said if isinstance(said, Subject) else current()


class HumanLines(logging.Formatter):
    """The key of the attachment is at the end, unless the line says it itself; then the trace."""

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
    """Names of fields are those of `netloom ls` and `netloom events`."""

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
    """Where it happened, of each error that led to it; its text only if that cannot be of a request."""
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
