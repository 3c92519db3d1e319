"""The new agent in a handover: its preflight check, and its takeover."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress

import msgspec

from ...api.protocol import LENGTH, VERSION, Head, encode
from ...failpoints import failpoint
from ...journal import JournalError, Ledger, Unwritable, boottime, read_only
from ...journal import schema as journal_schema
from ...journal.file import explained
from ...kernel import KernelError, Namespace, Scope
from ...networks import table
from ...ops.node.host import read_host
from ..server.listener import Listener, inode_at
from ..server.server import HANDOVER
from ..settings import Settings
from .handover import AT_WORK, MOST, SERVING, WITHDRAWN, Claim, Offer, claim_of

log = logging.getLogger(__name__)

# How long the kernel is asked for lists that change while it lists them, as on a node that has much to do.
_PATIENCE = 10.0
_RETRY_PAUSE = 0.1
# Beside a copy of the journal: what a migration itself, and the first calls after it, may need.
_SPACE = 16 << 20


def require_ready(settings: Settings, patience: float = _PATIENCE) -> None:
    """Reads journal and kernel as if it had begun; changes nothing. Raises `JournalError`, `KernelError`.

    Nobody waits for us yet, and calls go on meanwhile: a list that they interrupt is asked for again.
    """
    require_readable(settings.journal)
    deadline = time.monotonic() + patience
    told = False
    while True:
        try:
            with Namespace.own() as host:
                read_host(host)
                table.TABLE.check(Scope(host))
            return
        except KernelError as error:
            if error.errno != errno.EINTR or time.monotonic() >= deadline:
                raise
            if not told:
                log.info("not ready to follow yet, trying again: %s", error)
            told = True
        time.sleep(_RETRY_PAUSE)


def require_readable(path: str) -> None:
    """The whole journal, as we would have it. Raises `JournalError`; nothing is changed.

    One of an older version is migrated in a copy, in memory: so a migration that fails does it here.
    """
    if not os.path.exists(path):
        return
    try:
        with closing(read_only(path)) as connection:
            ledger = Ledger(connection)
            for _ in ledger.attachments():
                pass
            ledger.ports()
            ledger.operations(1)
            (wanted,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as cause:
        raise explained(path, cause) from None
    _require_space(path, int(wanted))


def _require_space(path: str, wanted: int) -> None:
    """A migration keeps a copy of the journal as it was."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= wanted:
        return
    try:
        free = os.statvfs(os.path.dirname(path))
        needed = os.stat(path).st_size * 2 + _SPACE
    except OSError as cause:
        raise JournalError(f"{path}: {cause.strerror}") from None
    if free.f_bavail * free.f_frsize < needed:
        raise Unwritable(
            f"the journal {path} has schema {version}, and becomes {journal_schema.VERSION}: that needs "
            f"{needed >> 20} MiB on its disk, which has {free.f_bavail * free.f_frsize >> 20}"
        )


_WORK_EVERY = 0.5
# How long we wait for the offer, and how long we ask one that is busy.
_OFFER = 30.0
_BUSY = 20.0
_PAUSE = 0.25
_LARGEST = 1 << 16


class HandoverRefused(Exception):
    """The agent that runs does not hand over, and goes on."""


class Withdrawn(Exception):
    """The agent that handed over has taken it back: we were too slow."""


class NotKnown(Exception):
    """The agent that runs knows no handover."""


class Takeover:
    """The sockets are ours, and the other one waits for our word.

    Without a connection, nobody does: it has ended.
    """

    def __init__(self, connection: socket.socket | None, listeners: list[Listener], offer: Offer) -> None:
        if connection is not None:
            connection.setblocking(False)
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        self.listeners = listeners
        self.offer = offer

    def begin(self) -> None:
        """Says that we are at work, until we say that we serve."""
        if self._connection is None:
            return
        with suppress(OSError):
            self._connection.send(AT_WORK, socket.MSG_NOSIGNAL)
        self._timer = asyncio.get_running_loop().call_later(_WORK_EVERY, self.begin)

    def complete(self) -> float:
        """Says that we serve. How long clients have waited, in seconds. Raises `Withdrawn`.

        One that has died says nothing, and needs no word: what it had is ours.
        """
        if self._connection is not None:
            try:
                self._connection.send(SERVING, socket.MSG_NOSIGNAL)
            except OSError:
                if self._is_withdrawn(self._connection):
                    raise Withdrawn(
                        "the agent that handed over goes on, or was stopped, and did not wait for this one"
                    ) from None
        return max(boottime() - self.offer.paused, 0.0)

    @staticmethod
    def _is_withdrawn(connection: socket.socket) -> bool:
        with suppress(OSError):
            return WITHDRAWN in connection.recv(64)
        return False

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.close()


def request_takeover(settings: Settings) -> Takeover | None:
    """Asks the agent that runs to hand over, and waits for its offer. None: there is none (any more).

    Raises `Refused` or `NotKnown`; then nothing has changed.
    """
    deadline = time.monotonic() + _BUSY
    while True:
        connection = _connected(settings.socket)
        if connection is None:
            return None
        try:
            offer, descriptors = _asked(connection, claim_of(settings))
        except BaseException:
            connection.close()
            raise
        if offer is None:  # it ended when it had been asked
            connection.close()
            return None
        if not offer.refused:
            failpoint("handover.received")
            return Takeover(connection, _adopted(settings.socket, offer, descriptors), offer)
        connection.close()
        if not offer.busy or time.monotonic() > deadline:
            raise HandoverRefused(
                f"the agent that runs (version {offer.version}) does not hand over: {offer.refused}"
            )
        time.sleep(_PAUSE)


def _connected(path: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(_OFFER)
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError as cause:
        connection.close()
        raise HandoverRefused(f"the agent at {path} cannot be asked: {cause.strerror or cause}") from None
    return connection


def _asked(connection: socket.socket, claim: Claim) -> tuple[Offer | None, list[int]]:
    """No offer: the agent ended before it had answered."""
    failpoint("handover.prepared")
    body = msgspec.json.encode(claim)
    try:
        connection.sendall(encode(Head(protocol=VERSION, question=HANDOVER), body))
        failpoint("handover.asked")
        reply, descriptors, _, _ = socket.recv_fds(connection, _LARGEST, MOST, socket.MSG_CMSG_CLOEXEC)
        while reply and (len(reply) < LENGTH.size or len(reply) < LENGTH.size + LENGTH.unpack_from(reply)[0]):
            more = connection.recv(_LARGEST)
            if not more:
                break
            reply += more
    except TimeoutError:
        raise HandoverRefused(f"the agent that runs did not answer within {_OFFER:g} s") from None
    except OSError:
        return None, []
    if len(reply) <= LENGTH.size:
        return None, []
    try:
        return msgspec.json.decode(reply[LENGTH.size + 1 :], type=Offer), descriptors
    except msgspec.MsgspecError:
        raise NotKnown("the agent that runs knows no handover") from None


def _adopted(path: str, offer: Offer, descriptors: Sequence[int]) -> list[Listener]:
    inodes = (*offer.inodes, *[0] * len(descriptors))
    listeners = [
        Listener(path, socket.socket(fileno=descriptor), inode)
        for descriptor, inode in zip(descriptors, inodes, strict=False)
    ]
    here = inode_at(path)
    return sorted(listeners, key=lambda it: it.inode != here)
