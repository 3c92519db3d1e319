"""Handover without a lost call: the agent passes its listening sockets to its successor.

The successor is a second process. It loads and checks everything it can before it requests the handover. The
agent then stops accepting clients, finishes its requests, closes the journal and sends its listening sockets;
new clients wait at them. The successor opens the journal, recovers, begins to serve and reports that at the
same time. The agent waits for this report, and serves again if the connection ends without it. So a successor
that fails changes nothing; and if the agent fails, the successor has the sockets.

    successor → agent   the RPC `handover`, with a `Claim`
    agent → successor   an `Offer`, with the descriptors of the sockets
    successor → agent   AT_WORK, every half second; SERVING, once
    agent → successor   WITHDRAWN, if it resumes or stops instead of waiting

This module is the agent's side; `successor` is the other one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from ... import __version__
from ...api.protocol import Reply
from ..server.listener import Listener
from ..settings import Settings

log = logging.getLogger(__name__)

AT_WORK, SERVING, WITHDRAWN = b".", b"!", b"-"

# How long the agent waits for its requests before it refuses: no verb that can fail has less time.
PATIENCE = 3.0
# Most sockets in one message.
MOST = 8
# How long a successor, which reports twice a second, may be silent before it is killed.
_SILENCE = 4.0
_CREDENTIALS = struct.Struct("3i")
_NETNS = "/proc/thread-self/ns/net"


class Claim(Struct, frozen=True, kw_only=True):
    """The successor's identity. It must have the agent's network namespace and journal."""

    version: str
    process: int
    netns: tuple[int, int]
    journal: tuple[int, int]


class Offer(Struct, frozen=True, kw_only=True):
    """The answer. `refused` is the reason of a refusal; `busy`: try again. `paused` is in seconds since boot.

    The field `handover` distinguishes it from the answer of an agent that does not know the RPC.
    """

    handover: int
    refused: str = ""
    busy: bool = False
    version: str = ""
    paused: float = 0.0
    inodes: tuple[int, ...] = ()


def claim_of(settings: Settings) -> Claim:
    return Claim(
        version=__version__,
        process=os.getpid(),
        netns=_identity(_NETNS),
        journal=_identity(settings.journal),
    )


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


class Departure:
    """The agent's side of a handover, with the connection of the successor."""

    def __init__(self, connection: socket.socket, body: bytes, settings: Settings) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._settings = settings
        self._process = _peer(connection)
        # When clients began to wait, in seconds since boot.
        self.paused = 0.0
        self.claim: Claim | None = None
        with suppress(msgspec.MsgspecError):
            self.claim = msgspec.json.decode(body, type=Claim)

    def objection(self) -> str:
        """Returns why this process must not take over, or an empty string."""
        ours = claim_of(self._settings)
        if self.claim is None:
            return "its request is invalid"
        if self.claim.netns != ours.netns:
            return "it is in another network namespace: run it where this agent runs"
        if self.claim.journal != ours.journal:
            return f"it uses another journal than {self._settings.journal}: start it with this --state-dir"
        return ""

    def refuse(self, why: str, *, busy: bool = False) -> None:
        self._send(Offer(handover=1, refused=why, busy=busy, version=__version__), status=1)
        self.close()

    def offer(self, listeners: Sequence[Listener]) -> None:
        offered = listeners[:MOST]
        inodes = tuple(it.inode for it in offered)
        self._send(
            Offer(handover=1, version=__version__, paused=self.paused, inodes=inodes),
            [it.fileno() for it in offered],
        )

    def _send(self, offer: Offer, descriptors: Sequence[int] = (), *, status: int = 0) -> None:
        reply = Reply(status, msgspec.json.encode(offer)).encode()
        with suppress(OSError):  # it has exited, which `is_followed` notices
            socket.send_fds(self._connection, [reply], list(descriptors))

    async def is_followed(self) -> bool:
        """Waits for the successor. Returns whether it serves; if not, it never will. Kills a stuck one."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                said = await asyncio.wait_for(loop.sock_recv(self._connection, 64), _SILENCE)
            except TimeoutError:
                return await asyncio.to_thread(self._end)
            except OSError:
                return False
            if SERVING in said:
                return True
            if not said:
                return False

    def withdraw(self) -> bool:
        """Makes a report of the successor impossible from now on. Returns whether it had reported already."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)
            while said := self._connection.recv(64):
                if SERVING in said:
                    return True
        with suppress(OSError):
            self._connection.send(WITHDRAWN, socket.MSG_NOSIGNAL)
        return False

    def _end(self) -> bool:
        if self.withdraw():
            return True
        log.error("the new agent (process %d) is stuck; killing it", self._process)
        if self._process:
            with suppress(OSError):
                handle = os.pidfd_open(self._process)
                try:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    select.select([handle], [], [], _SILENCE)
                finally:
                    os.close(handle)
        return False

    def close(self) -> None:
        self._connection.close()


def _peer(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])
