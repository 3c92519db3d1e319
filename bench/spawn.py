"""Processes with as little Python around them as possible: the floor to compare with."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Generator, Mapping, Sequence

from msgspec import Struct

from .measure import milliseconds


class Call(Struct, frozen=True):
    """One run of a program: its stdin, which fits a pipe, and its environment."""

    path: str
    stdin: bytes
    env: Mapping[str, str]


class _Running:
    """A program that was given its stdin. The caller reads its stdout."""

    def __init__(self, call: Call) -> None:
        self.path = call.path
        stdin_read, stdin_write = os.pipe()
        self.stdout, stdout_write = os.pipe()
        self.pid = os.posix_spawn(
            call.path,
            [call.path],
            call.env,
            file_actions=[(os.POSIX_SPAWN_DUP2, stdin_read, 0), (os.POSIX_SPAWN_DUP2, stdout_write, 1)],
        )
        os.close(stdin_read)
        os.close(stdout_write)
        os.write(stdin_write, call.stdin)
        os.close(stdin_write)
        self._chunks: list[bytes] = []

    def read(self) -> bool:
        """Reads its output; false at the end."""
        chunk = os.read(self.stdout, 65536)
        self._chunks.append(chunk)
        return bool(chunk)

    def ended(self) -> bytes:
        os.close(self.stdout)
        output = b"".join(self._chunks)
        _require_success(self.pid, [self.path], output)
        return output


def exchange(path: str, stdin: bytes, env: Mapping[str, str]) -> bytes:
    """Spawns a program, writes its stdin, reads its stdout to the end, waits for it."""
    running = _Running(Call(path, stdin, env))
    while running.read():
        pass
    return running.ended()


class Chain:
    """Programs one after the other, each of which may be given the output of the one before.

    The first is prepared at once, the others when their turn comes.
    """

    def __init__(self, calls: Generator[Call, bytes, None]) -> None:
        self._calls = calls
        self.first = next(calls)
        self.output = b""

    def after(self, output: bytes) -> Call | None:
        """Returns the next program; None after the last, whose output is that of the chain."""
        self.output = output
        try:
            return self._calls.send(output)
        except StopIteration:
            return None


def follow(chain: Chain) -> None:
    """Runs one chain alone to its end."""
    call: Call | None = chain.first
    while call is not None:
        call = chain.after(exchange(call.path, call.stdin, call.env))


def follow_all(chains: Sequence[Chain], at_once: int) -> None:
    """Runs many chains, a limited number at a time, in one thread: a new one starts when one has ended."""
    running: dict[int, tuple[Chain, _Running]] = {}
    poll = select.poll()
    waiting = deque(chains)

    def start(chain: Chain, call: Call) -> None:
        process = _Running(call)
        running[process.stdout] = chain, process
        poll.register(process.stdout, select.POLLIN)

    while waiting or running:
        while waiting and len(running) < at_once:
            chain = waiting.popleft()
            start(chain, chain.first)
        for descriptor, _ in poll.poll():
            chain, process = running[descriptor]
            if not process.read():
                del running[descriptor]
                poll.unregister(descriptor)
                following = chain.after(process.ended())
                if following is not None:
                    start(chain, following)


def process_milliseconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Returns the time of a whole process, from its spawn to its end, with its stdout discarded."""

    def run() -> None:
        opened = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        _require_success(os.posix_spawn(command[0], list(command), env, file_actions=[opened]), command)

    return milliseconds(run)


def _require_success(pid: int, command: Sequence[str], output: bytes = b"") -> None:
    _, status = os.waitpid(pid, 0)
    if status != 0:
        ending = os.waitstatus_to_exitcode(status)
        said = output.decode("utf-8", "replace").strip()
        raise RuntimeError(f"{' '.join(command)} ended with status {ending}: nothing to measure. {said}")
