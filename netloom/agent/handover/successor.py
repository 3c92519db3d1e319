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

# How long to retry kernel dumps that concurrent changes interrupt, as on a busy node.
_PATIENCE = 10.0
_RETRY_PAUSE = 0.1
# Space that a migration and the first calls after it may need, besides a copy of the journal.
_SPACE = 16 << 20


def require_ready(settings: Settings, patience: float = _PATIENCE) -> None:
    """Reads journal and kernel as a start does; changes nothing. Raises `JournalError`, `KernelError`.

    No client waits yet. The running agent still changes the kernel, so interrupted dumps are repeated.
    """
    require_readable(settings.journal)
    deadline = time.monotonic() + patience
    has_logged = False
    while True:
        try:
            with Namespace.own() as host:
                read_host(host)
                table.TABLE.check(Scope(host))
            return
        except KernelError as error:
            if error.errno != errno.EINTR or time.monotonic() >= deadline:
                raise
            if not has_logged:
                log.info("not ready to take over yet, trying again: %s", error)
            has_logged = True
        time.sleep(_RETRY_PAUSE)


def require_readable(path: str) -> None:
    """Reads the whole journal with this version's schema; changes nothing. Raises `JournalError`.

    An older journal is migrated in memory, so that a migration that would fail does so here.
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
            f"migrating the journal {path} from schema {version} to {journal_schema.VERSION} needs "
            f"{needed >> 20} MiB on its disk; {free.f_bavail * free.f_frsize >> 20} MiB are free"
        )


_WORK_EVERY = 0.5
# How long to wait for an offer, and how long to ask a busy agent again.
_OFFER = 30.0
_BUSY = 20.0
_PAUSE = 0.25
_LARGEST = 1 << 16


class HandoverRefused(Exception):
    """The running agent refuses the handover, and continues."""


class Withdrawn(Exception):
    """The predecessor resumed or stopped, because this agent was too slow."""


class NotKnown(Exception):
    """The running agent does not support handover."""


class Takeover:
    """The received sockets, and the connection to the predecessor, which waits for a report.

    Without a connection, the predecessor has exited.
    """

    def __init__(self, connection: socket.socket | None, listeners: list[Listener], offer: Offer) -> None:
        if connection is not None:
            connection.setblocking(False)
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        self.listeners = listeners
        self.offer = offer

    def begin(self) -> None:
        """Reports every half second that this agent is at work, until `complete`."""
        if self._connection is None:
            return
        with suppress(OSError):
            self._connection.send(AT_WORK, socket.MSG_NOSIGNAL)
        self._timer = asyncio.get_running_loop().call_later(_WORK_EVERY, self.begin)

    def complete(self) -> float:
        """Reports that this agent serves. Returns how many seconds clients waited. Raises `Withdrawn`.

        A predecessor that died without withdrawing is no error.
        """
        if self._connection is not None:
            try:
                self._connection.send(SERVING, socket.MSG_NOSIGNAL)
            except OSError:
                if self._is_withdrawn(self._connection):
                    raise Withdrawn(
                        "the old agent did not wait for this one: it resumed serving or was stopped"
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
    """Requests a handover and waits for the offer. Returns None if no agent runs (any more).

    Raises `HandoverRefused` or `NotKnown`; then nothing has changed.
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
        if offer is None:  # it exited after the request
            connection.close()
            return None
        if not offer.refused:
            failpoint("handover.received")
            return Takeover(connection, _adopted(settings.socket, offer, descriptors), offer)
        connection.close()
        if not offer.busy or time.monotonic() > deadline:
            raise HandoverRefused(
                f"the running agent (version {offer.version}) refused to hand over: {offer.refused}"
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
        raise HandoverRefused(f"cannot connect to the agent at {path}: {cause.strerror or cause}") from None
    return connection


def _asked(connection: socket.socket, claim: Claim) -> tuple[Offer | None, list[int]]:
    """Returns the offer, or None if the agent exited before it answered; and the received descriptors."""
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
        raise HandoverRefused(f"the running agent did not answer within {_OFFER:g} s") from None
    except OSError:
        return None, []
    if len(reply) <= LENGTH.size:
        return None, []
    try:
        return msgspec.json.decode(reply[LENGTH.size + 1 :], type=Offer), descriptors
    except msgspec.MsgspecError:
        raise NotKnown("the running agent does not support handover") from None


def _adopted(path: str, offer: Offer, descriptors: Sequence[int]) -> list[Listener]:
    inodes = (*offer.inodes, *[0] * len(descriptors))
    listeners = [
        Listener(path, socket.socket(fileno=descriptor), inode)
        for descriptor, inode in zip(descriptors, inodes, strict=False)
    ]
    here = inode_at(path)
    return sorted(listeners, key=lambda it: it.inode != here)
