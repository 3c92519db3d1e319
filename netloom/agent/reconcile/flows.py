"""Removes tracked connections that are stale because a host port was added or removed.

The kernel translates by a connection's first packet. A UDP sender that never pauses would still reach the
host itself after a port was added, and a deleted container after it was removed.

To find such connections, the kernel walks through its whole table, which takes 9 ms on an idle machine. So
one walk serves all ports that changed meanwhile, and only an ADD with UDP or SCTP ports waits for it. After
an agent was killed, the next one finds what is left: connections to addresses in cooldown, and to ports in
use.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...journal import Journal, Ledger
from ...kernel import KernelError, Namespace
from ...kernel.conntrack import forget_from_ports, forget_to_ports, forget_translated_to
from ...kernel.netlink.conntrack import ConntrackEntry
from ...kernel.values import packed_ip
from ...networks.attachment import host_port_of
from ...networks.features.options import MappedPort
from ...networks.names import HOST4, HOST6
from ..host_view import ask_kernel

if TYPE_CHECKING:
    from ..host_view import HostView
    from ..metrics.tally import Tally

log = logging.getLogger(__name__)

# Between two walks, in seconds.
_PAUSE = 0.25
# And at least so many times the duration of the last walk.
_SHARE = 4
# How long an ADD waits for a walk, at most.
_PATIENCE = 5.0

_NUMBERS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
# Addresses of the host that are in no list of its addresses.
_NEXT_HOPS = (packed_ip(HOST4), packed_ip(HOST6))
# Stands for all addresses of the host.
_ALL = b""


class Flows:
    """A thread-safe queue of changed ports. `run` does the work."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._has_failed = False
        self._added: deque[MappedPort] = deque()
        self._removed: deque[MappedPort] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._urgent = asyncio.Event(), asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []

    async def ports_added(self, ports: Iterable[MappedPort]) -> bool:
        """Waits until stale connections of added ports are removed. Returns whether there could be any.

        TCP needs no wait: a new connection is a new entry.
        """
        others = [it for it in ports if it.protocol != "tcp"]
        if not others:
            return False
        self._added.extend(others)
        walked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(walked)
        self._urgent.set()
        self._news.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(walked, _PATIENCE)
        return True

    def ports_removed(self, ports: Iterable[MappedPort]) -> None:
        """Schedules the removal of connections to removed ports."""
        self._removed.extend(ports)
        self._wake()

    def _wake(self) -> None:
        if self._loop is not None and self._removed:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._news.set)

    async def add_all(self, journal: Journal) -> None:
        """Treats all ports as added: connections from before the table was restored are not translated."""
        self._added.extend(await journal.ask(_held))
        self._news.set()

    async def run(self, journal: Journal, host: HostView) -> None:
        """Removes stale connections until it is cancelled."""
        self._loop = asyncio.get_running_loop()
        await self._remove(partial(_forget_rested, journal=journal))
        await self.add_all(journal)
        late: list[MappedPort] = []
        while True:
            await self._news.wait()
            self._news.clear()
            self._urgent.clear()
            began = time.monotonic()
            late += await self.forget(host)
            pause = max(_PAUSE, _SHARE * (time.monotonic() - began))
            if await self._is_calm(pause) and late:
                await self._remove(partial(_forget_answers, added=late, own=host.current.addresses))
                late = []

    async def _is_calm(self, pause: float) -> bool:
        """Waits for the pause. Returns False as soon as an ADD waits for a walk."""
        try:
            await asyncio.wait_for(self._urgent.wait(), pause)
        except TimeoutError:
            return True
        return False

    async def forget(self, host: HostView) -> list[MappedPort]:
        """Removes stale connections of all changed ports. Returns the added ports."""
        waiting, self._waiting = self._waiting, []
        added, removed = _all_of(self._added), _all_of(self._removed)
        try:
            if added or removed:
                await self._remove(partial(_forget, added=added, removed=removed, own=host.current.addresses))
        finally:
            for walked in waiting:
                if not walked.done():
                    walked.set_result(None)
        return added

    async def _remove(self, forget: Callable[[Namespace], int]) -> None:
        try:
            forgotten = await ask_kernel(forget)
        except (KernelError, OSError) as error:
            if not self._has_failed:
                log.warning(
                    "cannot remove tracked connections; some to changed host ports may fail for a while: %s",
                    error,
                )
            self._has_failed = True
            return
        if forgotten:
            self._tally.count("forgotten", forgotten)


def _all_of(ports: deque[MappedPort]) -> list[MappedPort]:
    found = []
    while ports:
        found.append(ports.popleft())
    return found


def _held(ledger: Ledger) -> list[MappedPort]:
    return [host_port_of(port) for _, port in ledger.ports() if port.protocol != "tcp"]


def _forget_rested(host: Namespace, journal: Journal) -> int:
    resting = journal.survey(lambda ledger: ledger.resting())
    return sum(
        forget_translated_to(host, family, addresses)
        for family, size in zip(_FAMILIES, (4, 16), strict=True)
        if (addresses := {ip for ip in resting if len(ip) == size})
    )


def _forget(
    host: Namespace, added: Sequence[MappedPort], removed: Sequence[MappedPort], own: Collection[bytes]
) -> int:
    forgotten = 0
    for family, is_ipv6 in zip(_FAMILIES, (False, True), strict=True):
        stale = _Stale(
            [it for it in added if it.is_ipv6 == is_ipv6],
            [it for it in removed if it.is_ipv6 == is_ipv6],
            own,
        )
        forgotten += forget_to_ports(host, family, stale.ports, stale)
    return forgotten


def _forget_answers(host: Namespace, added: Sequence[MappedPort], own: Collection[bytes]) -> int:
    """Removes connections that a late answer of a host's program created in the wrong direction.

    If the program answers just after its port was mapped and the connection was removed, the kernel tracks
    the answer as a new connection, and takes packets to the port for its replies.
    """

    def is_answer(entry: ConntrackEntry) -> bool:
        sent, answered = entry.original, entry.reply
        is_translated = (answered.destination, answered.destination_port) != (sent.source, sent.source_port)
        return not is_translated and (sent.source in own or sent.source in _NEXT_HOPS)

    return sum(
        forget_from_ports(
            host,
            family,
            {(_NUMBERS[it.protocol], it.host_port) for it in added if it.is_ipv6 == is_ipv6},
            is_answer,
        )
        for family, is_ipv6 in zip(_FAMILIES, (False, True), strict=True)
    )


class _Stale:
    """Tells whether a connection of one family is stale, given the added and the removed ports."""

    def __init__(
        self, added: Sequence[MappedPort], removed: Sequence[MappedPort], own: Collection[bytes]
    ) -> None:
        self._own = own
        self._added = {
            (_NUMBERS[it.protocol], it.host_port, packed_ip(it.host_ip) if it.host_ip else _ALL)
            for it in added
        }
        self._removed = {(_NUMBERS[it.protocol], it.host_port, packed_ip(it.ip), it.port) for it in removed}
        self.ports = {(_NUMBERS[it.protocol], it.host_port) for it in (*added, *removed)}

    def __call__(self, entry: ConntrackEntry) -> bool:
        sent, answered = entry.original, entry.reply
        port = (sent.protocol, sent.destination_port)
        if (answered.source, answered.source_port) != (sent.destination, sent.destination_port):
            return (*port, answered.source, answered.source_port) in self._removed
        # TCP connections to the host itself are kept until they end: the next one is a new entry.
        return (
            sent.protocol != socket.IPPROTO_TCP
            and (sent.destination in self._own or sent.destination in _NEXT_HOPS)
            and ((*port, sent.destination) in self._added or (*port, _ALL) in self._added)
        )
