"""Standard output and error: either may be closed, full, or read by somebody who has seen enough."""

from __future__ import annotations

import os
import sys


class ReaderGone(Exception):
    """Whoever read our output has seen enough. Nothing is wrong."""


class OutputFailed(Exception):
    """The output could not be written."""


def write(text: str) -> None:
    """To standard output, at once. What the terminal cannot show is escaped, not an error."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write_bytes(text.encode(encoding, "backslashreplace"))


def require_output() -> None:
    """For commands that change something before they print: better to fail now."""
    if sys.stdout is None:
        raise OutputFailed("standard output is closed")


def write_bytes(data: bytes) -> None:
    require_output()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as cause:
        # Keep the interpreter from trying once more, and complaining, when it exits.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        if isinstance(cause, BrokenPipeError):
            raise ReaderGone from None
        raise OutputFailed(f"cannot write to standard output: {cause.strerror}") from None


def say(*lines: str) -> None:
    write("".join(f"{line}\n" for line in lines))


def complain(*lines: str) -> None:
    """To standard error. If nobody can hear it there, there is nobody left to tell."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except OSError:
        return


def printable(text: str) -> str:
    """Somebody else's text without what would steer a terminal; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() or it in "\n\t" else ascii(it)[1:-1] for it in text)


def printable_line(text: str) -> str:
    """The same on one line: a file's name may have line breaks in it."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def encodable(value: object) -> object:
    """A document whose strings can be JSON: file names may hold bytes that are no text."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    return value
