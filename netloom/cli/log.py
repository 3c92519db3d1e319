"""The agent's log: lines for people, or with `--json` an object a line for programs."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

_LINE = "%(asctime)s %(levelname)s %(message)s"


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(*, quiet: bool, json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json else logging.Formatter(_LINE))
    logging.basicConfig(level=logging.WARNING if quiet else logging.INFO, handlers=[handler])
