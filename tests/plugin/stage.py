"""The plugin's executable as a runtime starts it, and the far end of its wire."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..lanes import ROOT
from ..stdin import ready

CONFIG = b'{"cniVersion":"1.0.0","name":"net","type":"netloom"}'
ENVIRONMENT = {"CNI_CONTAINERID": "web-1", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin"}
HEAD_MAX = 1 << 20
BODY_MAX = 16 << 20
DEADLINE = {"NETLOOM_DEADLINE": "0.2"}  # for tests that wait until there is no more waiting

# A run takes a millisecond beside what it waits for; the rest is for a machine that is busy. An ADD that
# waits for its deadline takes thirty seconds.
SLACK = 10.0

Reply = bytes
Behaviour = Callable[[socket.socket], None]


def build(output: Path, *linking: str, cflags: str = "") -> Path:
    subprocess.run(
        [ROOT / "plugin" / "build", output, *linking],
        check=True,
        env={**os.environ, "CFLAGS": f"-Werror {cflags}"},
    )
    return output


class Answer:
    def __init__(self, done: subprocess.CompletedProcess[bytes], seconds: float) -> None:
        self.status = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr
        self.seconds = seconds

    @property
    def error(self) -> dict[str, Any]:
        """The error as the specification wants it, with a next step for whoever reads it."""
        assert self.status == 1
        document = json.loads(self.stdout)
        assert list(document) == ["cniVersion", "code", "msg", "details"]
        assert all(document.values())
        assert self.stderr == b""
        return dict(document)

    @property
    def is_silent_success(self) -> bool:
        return (self.status, self.stdout, self.stderr) == (0, b"", b"")


class Plugin:
    """The executable with a directory of its own, in which its agent's socket is or would be."""

    def __init__(self, path: Path, directory: Path, *wrapper: str) -> None:
        self.command = [*wrapper, str(path)]
        self.socket = directory / "agent.sock"
        self.intents = directory / "intents"

    def environment(self, command: str | None, **changes: str | bytes | None) -> dict[str, str | bytes]:
        """What the plugin gets; of ours, only the mark by which a process that is left behind is found."""
        wanted: dict[str, str | bytes | None] = {
            "NETLOOM_TEST_RUN": os.environ.get("NETLOOM_TEST_RUN"),
            "NETLOOM_SOCKET": str(self.socket),
            **ENVIRONMENT,
            "CNI_COMMAND": command,
            **changes,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def __call__(
        self, command: str | None, stdin: bytes = CONFIG, /, **changes: str | bytes | None
    ) -> Answer:
        with ready(stdin) as file:
            started = time.monotonic()
            done = subprocess.run(
                self.command,
                stdin=file,
                env=self.environment(command, **changes),
                capture_output=True,
                check=False,
                timeout=30,
            )
            return Answer(done, time.monotonic() - started)

    def start(
        self, command: str, stdin: int | IO[bytes] = subprocess.PIPE, /, **changes: str | bytes | None
    ) -> subprocess.Popen[bytes]:
        """Runs, with pipes that the test holds."""
        return subprocess.Popen(
            self.command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(command, **changes),
        )

    @property
    def queued(self) -> list[Path]:
        """The intents; files that a run has not finished are none."""
        return sorted(self.intents.glob("[!.]*.del"))

    @property
    def unfinished(self) -> list[Path]:
        return sorted(self.intents.glob(".*"))


class Request:
    """What came over the wire, taken apart. The descriptors are those that came with the first byte."""

    def __init__(self, frame: bytes, descriptors: list[int]) -> None:
        (size,) = struct.unpack_from("!I", frame)
        self.head: dict[str, Any] = json.loads(frame[4 : 4 + size].decode("utf-8", "strict"))
        self.body = frame[4 + size :]
        self.descriptors = descriptors

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.head["environment"])


def reply(output: bytes = b"", status: int = 0) -> Reply:
    return struct.pack("!IB", 1 + len(output), status) + output


SUCCESS = reply()


class FarEnd:
    """Listens where the plugin looks for its agent: notes each request, and answers as it is told."""

    def __init__(self, path: Path, answer: Reply | Behaviour = SUCCESS) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._path = path
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def request(self) -> Request:
        (request,) = self.requests
        return request

    def __enter__(self) -> FarEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()
        self._path.unlink()
        for request in self.requests:
            for descriptor in request.descriptors:
                os.close(descriptor)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionError, EOFError):  # the plugin may be killed
            if callable(self.answer):
                self.answer(connection)
                return
            self.requests.append(receive(connection))
            connection.sendall(self.answer)


def receive(connection: socket.socket) -> Request:
    """One request. The first byte is read alone: what comes with it came with the first byte."""
    first, descriptors, _, _ = socket.recv_fds(connection, 1, 16)
    (size,) = struct.unpack("!I", first + _exactly(connection, 4 - len(first)))
    return Request(_exactly(connection, size), descriptors)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk, late, _, _ = socket.recv_fds(connection, min(size - len(received), 1 << 20), 16)
        assert not late, "a descriptor came after the first byte"
        if not chunk:
            raise EOFError
        received += chunk
    return bytes(received)
