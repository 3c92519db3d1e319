"""The command line's end of the agent's socket, and what may be at the other."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from netloom.api.client import AgentError, Connection, NotRunning, Silent
from netloom.api.protocol import LENGTH, Reply

from ..fixtures.node import Node

Answer = Callable[[socket.socket], object]


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        yield os.path.join(directory, "s")


@pytest.fixture
def listen(path: str) -> Iterator[Callable[[Answer], str]]:
    """Somebody who listens, and answers the first who comes in a way of the test's choice."""
    threads: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:

        def begin(answer: Answer) -> str:
            listener.bind(path)
            listener.listen()

            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    answer(connection)

            threads.append(threading.Thread(target=serve))
            threads[0].start()
            return path

        yield begin
        for thread in threads:
            thread.join()


def info(path: str, timeout: float = 5) -> object:
    with Connection(path, timeout) as connection:
        return connection.info()


@pytest.mark.kernel
def test_an_agent_says_who_it_is(running: Node) -> None:
    assert running.agent is not None
    with Connection(str(running.socket), 5) as connection:
        said = connection.info()
    assert connection.process == said.process == running.agent.pid
    assert (said.state_dir, said.socket) == (str(running.state_dir), str(running.socket))


@pytest.mark.unit
@pytest.mark.parametrize("what", ["nothing", "left", "file"])
def test_where_nobody_listens_nobody_runs(path: str, what: str) -> None:
    if what == "left":
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(path)
    elif what == "file":
        Path(path).touch()
    with pytest.raises(NotRunning):
        info(path)


@pytest.mark.unit
@pytest.mark.parametrize(
    "answer",
    [
        lambda it: it.recv(1000),
        lambda it: (it.recv(1000), it.send(b"\0\0")),
        lambda it: (it.recv(1000), it.send(LENGTH.pack(0))),
        lambda it: (it.recv(1000), it.send(LENGTH.pack(1 << 30))),
        lambda it: (it.recv(1000), it.send(Reply(0, b"{}").encode())),
        lambda it: (it.recv(1000), it.send(Reply(0, b"nonsense").encode())),
        lambda it: (it.recv(1000), it.send(Reply(1, b"nonsense").encode())),
        lambda it: (it.recv(1000), it.send(Reply(1, b'{"msg":"only root may use the agent"}').encode())),
    ],
    ids=["hangs-up", "breaks-off", "empty", "too-large", "lacks-keys", "no-json", "refuses-oddly", "refuses"],
)
def test_an_answer_of_no_agent_is_an_error_with_the_path(
    listen: Callable[[Answer], str], answer: Answer
) -> None:
    path = listen(answer)
    with pytest.raises(AgentError, match=path):
        info(path)


@pytest.mark.unit
@pytest.mark.parametrize("parts", [0, 20])
def test_nobody_waits_longer_than_the_deadline(listen: Callable[[Answer], str], parts: int) -> None:
    """Not even if something comes now and then."""
    ended = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with suppress(OSError):  # whoever asked may be gone at any time
            connection.recv(1000)
            connection.send(LENGTH.pack(1000))
            for _ in range(parts):
                connection.send(b"\0")
                ended.wait(0.05)
        ended.wait(10)

    path = listen(trickle)
    begin = time.monotonic()
    with pytest.raises(Silent) as caught:
        info(path, timeout=0.3)
    ended.set()
    assert time.monotonic() - begin < 5
    assert caught.value.process == os.getpid()
