"""Commands as people and programs run them: a whole process each, on a terminal or into a pipe."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Took(NamedTuple):
    """Milliseconds: from spawn to end, and the processor time of the process."""

    elapsed: float
    processor: float


def into_a_pipe(command: Sequence[str], env: Mapping[str, str]) -> Took:
    """Runs it with a pipe whose other end is read."""
    return _run(command, env, *os.pipe())


def on_a_terminal(command: Sequence[str], env: Mapping[str, str]) -> Took:
    """Runs it on a terminal that accepts every line at once. A real one takes longer to draw them."""
    return _run(command, env, *os.openpty())


def _run(command: Sequence[str], env: Mapping[str, str], reading: int, writing: int) -> Took:
    shown: list[bytes] = []
    began = time.perf_counter()
    try:
        actions = [(os.POSIX_SPAWN_DUP2, writing, 1)]
        process = os.posix_spawn(command[0], list(command), env, file_actions=actions)
    finally:
        os.close(writing)
    while chunk := _read(reading):
        shown.append(chunk)
    _, status, used = os.wait4(process, 0)
    elapsed = time.perf_counter() - began
    os.close(reading)
    if status != 0 or not shown:
        said = b"".join(shown).decode("utf-8", "replace").strip()[-500:]
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}: {said}")
    return Took(elapsed * 1000, (used.ru_utime + used.ru_stime) * 1000)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError as error:
        if error.errno == errno.EIO:  # no process has the terminal open any more
            return b""
        raise
