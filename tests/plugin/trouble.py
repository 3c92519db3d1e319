"""Every way in which an agent can fail to answer, for ADD, STATUS and DEL alike."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from ..fixtures.plugin import FarEnd, Plugin, receive, reply

Trouble = Callable[[Plugin], AbstractContextManager[None]]


@contextmanager
def absent(_: Plugin) -> Iterator[None]:
    yield


@contextmanager
def without_directory(plugin: Plugin) -> Iterator[None]:
    plugin.socket = plugin.socket.parent / "run" / plugin.socket.name
    plugin.intents = plugin.socket.parent / "intents"
    yield


@contextmanager
def refusing(plugin: Plugin) -> Iterator[None]:
    """A socket that an agent left behind."""
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(plugin.socket))
    yield


@contextmanager
def no_socket(plugin: Plugin) -> Iterator[None]:
    plugin.socket.write_bytes(b"")
    yield


@contextmanager
def of_another_type(plugin: Plugin) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(str(plugin.socket))
        yield


@contextmanager
def crowded(plugin: Plugin) -> Iterator[None]:
    """An agent that does not accept, and whose queue is full."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(plugin.socket))
        listener.listen(0)
        with ExitStack() as waiting:
            fill(plugin.socket, waiting)
            yield


def fill(path: Path, waiting: ExitStack) -> int:
    """Connects until there is no more room in the queue. How many connections were made."""
    for count in itertools.count():
        connection = waiting.enter_context(
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        )
        try:
            connection.connect(str(path))
        except BlockingIOError:
            return count
    raise AssertionError("not reached")


@contextmanager
def stopped(plugin: Plugin) -> Iterator[None]:
    """A process that listens and is stopped, as by a debugger or by a full disk under its log."""
    source = (
        "import os, signal, socket, sys; listener = socket.socket(socket.AF_UNIX); "
        "listener.bind(sys.argv[1]); listener.listen(); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", source, plugin.socket]) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


def _answering(behave: Callable[[socket.socket, threading.Event], None]) -> Trouble:
    """An agent that reads the request, and then behaves like this."""

    @contextmanager
    def trouble(plugin: Plugin) -> Iterator[None]:
        def answer(connection: socket.socket) -> None:
            receive(connection)
            behave(connection, far_end.closing)

        with FarEnd(plugin.socket, answer) as far_end:
            yield

    return trouble


def _sending(data: bytes) -> Trouble:
    return _answering(lambda connection, _: connection.sendall(data))


def _stay_silent(_: socket.socket, closing: threading.Event) -> None:
    closing.wait()


def _trickle(connection: socket.socket, closing: threading.Event) -> None:
    for byte in reply(bytes(1000)):
        connection.sendall(bytes((byte,)))
        if closing.wait(0.02):
            return


@contextmanager
def closing_at_once(plugin: Plugin) -> Iterator[None]:
    with FarEnd(plugin.socket, lambda _: None):
        yield


GONE: dict[str, Trouble] = {
    "absent": absent,
    "without a directory": without_directory,
    "refusing": refusing,
    "no socket": no_socket,
    "of another type": of_another_type,
}
SILENT: dict[str, Trouble] = {
    "silent": _answering(_stay_silent),
    "trickling": _answering(_trickle),
    "stopped": stopped,
    "crowded": crowded,
}
BROKEN: dict[str, Trouble] = {
    "closing at once": closing_at_once,
    "closing after the request": _sending(b""),
    "half a length": _sending(b"\0\0"),
    "half an answer": _sending(reply(b"half of it")[:-5]),
}
FOREIGN: dict[str, Trouble] = {
    "an answer of no bytes": _sending(b"\0\0\0\0"),
    "a huge answer": _sending(b"\xff\xff\xff\xff\0"),
    "an answer just too large": _sending((2 + (16 << 20)).to_bytes(4, "big") + b"\0"),
    "another protocol": _sending(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}
TROUBLES = {**GONE, **SILENT, **BROKEN, **FOREIGN}
