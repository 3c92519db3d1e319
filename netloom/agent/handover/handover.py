"""From one agent to the next without a lost call: the listening socket itself goes over.

The successor is a process beside the one that serves. It loads and checks all it can, and only then asks. The
one that serves takes no more clients, finishes what is under way, gives the journal back, and sends its
listening socket along the connection. Clients that come now wait at that socket. The successor takes the
journal, recovers, and says that it serves, in the same moment in which it begins to: until that word, the
other one waits, and goes on if the connection ends without it. So whatever happens to the successor, it is as
if nobody had asked; and whatever happens to the other one, the successor has the socket.

    successor → agent   the question `handover`, with a `Claim`
    agent → successor   an `Offer`, with the descriptors of the sockets
    successor → agent   AT_WORK, every half second; SERVING, once
    agent → successor   WITHDRAWN, if it goes on, or stops, instead of waiting

This is the side of the agent that serves; the other one is `successor`.
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

# How long the agent waits for what is under way before it refuses: no verb that can fail has less time.
PATIENCE = 3.0
# As many sockets as one message may bring.
MOST = 8
# How long a successor may be silent, which tells of itself twice a second, before it is ended.
_SILENCE = 4.0
_CREDENTIALS = struct.Struct("3i")
_NETNS = "/proc/thread-self/ns/net"


class Claim(Struct, frozen=True, kw_only=True):
    """Who wants to follow, and where it is: in another network, or with another journal, it must not."""

    version: str
    process: int
    netns: tuple[int, int]
    journal: tuple[int, int]


class Offer(Struct, frozen=True, kw_only=True):
    """The answer. `refused` says why not; `busy` that it may be asked again. `paused` is since boot.

    That it has `handover` tells it from the answer of an agent that does not know the question.
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
    """The side of the agent that serves: a successor has asked, and waits on its connection."""

    def __init__(self, connection: socket.socket, body: bytes, settings: Settings) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._settings = settings
        self._process = _peer(connection)
        # Since when clients wait, counted from boot.
        self.paused = 0.0
        self.claim: Claim | None = None
        with suppress(msgspec.MsgspecError):
            self.claim = msgspec.json.decode(body, type=Claim)

    def objection(self) -> str:
        """Why this one must not follow us; empty if it may."""
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
        with suppress(OSError):  # it is gone, which is seen when its word is awaited
            socket.send_fds(self._connection, [reply], list(descriptors))

    async def is_followed(self) -> bool:
        """Whether the successor serves. If not, it is gone, and never will: one that is stuck is ended."""
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
        """From here on it cannot say that it serves, and hears why. Whether it just had said so."""
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
