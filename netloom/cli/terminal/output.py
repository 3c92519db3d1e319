"""Standard output and error, which may be closed or full; and progress lines on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from ...api.text import printable


class ReaderGone(Exception):
    """The reader of a pipe has closed it. This is not an error."""


class OutputFailed(Exception):
    """The output could not be written."""


def write(text: str) -> None:
    """Writes to standard output without buffering, and escapes what the encoding lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    write_bytes(text.encode(encoding, "backslashreplace"))


def require_output() -> None:
    """Fails early, for commands that change something before they print."""
    if sys.stdout is None:
        raise OutputFailed("standard output is closed")


def write_bytes(data: bytes) -> None:
    require_output()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as cause:
        # Else the interpreter would try to flush again when it exits, and print an error.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        if isinstance(cause, BrokenPipeError):
            raise ReaderGone from None
        raise OutputFailed(f"cannot write to standard output: {cause.strerror}") from None


def say(*lines: str) -> None:
    write("".join(f"{line}\n" for line in lines))


def complain(*lines: str) -> None:
    """Writes to standard error, and ignores failures, since they cannot be reported."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except OSError:
        return


# Seconds before the first line, and between updates.
_SOON = 0.5
_EVERY = 0.1


class Progress:
    """A progress line on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _SOON
        self._is_shown = False
        self._is_wanted = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._write("\r\x1b[K")

    def update(self, what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if self._is_wanted and now >= self._next:
            self._write(f"\r\x1b[K{what}: {done} of {of} ")
            self._next = now + _EVERY
            self._is_shown = True

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def progress_line(*, shown: bool) -> Iterator[Callable[[str], None]]:
    """Yields a function that sets a line on standard error, if that is a terminal; clears it at the end."""
    on_terminal = shown and sys.stderr is not None and sys.stderr.isatty()

    is_shown = False

    def show(text: str) -> None:
        nonlocal is_shown
        if on_terminal:
            is_shown = True
            sys.stderr.write(f"\r\x1b[K{printable(text)}")
            sys.stderr.flush()

    try:
        yield show
    finally:
        if is_shown:
            show("")
