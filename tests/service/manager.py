"""A service manager, as an agent sees one: hands sockets in, hears what it is told, keeps descriptors."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from ..fixtures.node import NETLOOM, PATIENCE, Node

# Descriptors get the numbers that the protocol wants, and the process that it becomes has this one's number.
_START = 'n=3; for it in $FDS; do eval "exec $n<&$it"; n=$((n + 1)); done; export LISTEN_PID=$$; exec "$@"'


class Told(NamedTuple):
    """One message of an agent."""

    lines: tuple[str, ...]
    descriptors: tuple[int, ...]


class ServiceManager:
    def __init__(self, node: Node) -> None:
        self.node = node
        self._ears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._path = node.directory / "notify"
        self._ears.bind(str(self._path))
        self.told: list[Told] = []
        self.sockets: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ears.close()
        for kept in self.sockets:
            os.close(kept[1])

    def listen(self, name: str = "netloom.socket") -> None:
        """Makes the agent's socket, as its unit would."""
        self.node.socket.parent.mkdir(exist_ok=True, mode=0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            with suppress(FileNotFoundError):
                self.node.socket.unlink()
            listening.bind(str(self.node.socket))
            listening.listen(128)
            self.keep(name, listening.fileno())

    def keep(self, name: str, descriptor: int) -> None:
        self.sockets.append((name, fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100)))

    def start(
        self,
        *options: str,
        environment: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        descriptors = [descriptor for _, descriptor in self.sockets]
        given = {
            "NOTIFY_SOCKET": str(self._path),
            "FDS": " ".join(map(str, descriptors)),
            "LISTEN_FDS": str(len(descriptors)),
            "LISTEN_FDNAMES": ":".join(name for name, _ in self.sockets),
        }
        with open(self.node.directory / "agent.log", "ab") as log:
            self.node.agent = subprocess.Popen(
                ["bash", "-c", _START, "bash", *self.node.command(*through, str(NETLOOM), "agent", *options)],
                env={**self.node.environment(given), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=descriptors,
            )
        return self.node.agent

    def hear(self) -> None:
        """All that was said until now."""
        with suppress(BlockingIOError):
            while True:
                data, ancillary, _, _ = self._ears.recvmsg(4096, socket.CMSG_SPACE(16))
                descriptors = array.array("i")
                for level, kind, content in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        descriptors.frombytes(content)
                self.told.append(Told(tuple(data.decode().splitlines()), tuple(descriptors)))

    def heard(self, line: str, patience: float = PATIENCE) -> Told | None:
        """The first message with such a line; it is waited for."""
        deadline = time.monotonic() + patience
        while True:
            self.hear()
            for told in self.told:
                if line in told.lines:
                    return told
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01)

    def ready(self) -> Told:
        told = self.heard("READY=1")
        assert told is not None, self.node.log()[-2000:]
        return told


def names_in(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))
