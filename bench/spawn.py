"""Processes with as little of Python around them as there can be: the floor to compare with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from .measure import milliseconds


def exchange(path: str, stdin: bytes, env: Mapping[str, str]) -> bytes:
    """Spawns a program, writes its stdin, reads its stdout to the end, waits for it. No more."""
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    pid = os.posix_spawn(
        path,
        [path],
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, stdin_read, 0), (os.POSIX_SPAWN_DUP2, stdout_write, 1)],
    )
    os.close(stdin_read)
    os.close(stdout_write)
    os.write(stdin_write, stdin)
    os.close(stdin_write)
    chunks = []
    while chunk := os.read(stdout_read, 65536):
        chunks.append(chunk)
    os.close(stdout_read)
    _require_success(pid, [path])
    return b"".join(chunks)


def process_milliseconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    """The time of a whole process, from its spawn to its end, with its stdout thrown away."""

    def run() -> None:
        opened = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        _require_success(os.posix_spawn(command[0], list(command), env, file_actions=[opened]), command)

    return milliseconds(run)


def _require_success(pid: int, command: Sequence[str]) -> None:
    _, status = os.waitpid(pid, 0)
    if status != 0:
        ending = os.waitstatus_to_exitcode(status)
        raise RuntimeError(f"{' '.join(command)} ended with status {ending}: nothing to measure")
