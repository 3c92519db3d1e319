"""systemd's protocol: sockets that it hands in, its notify socket, and its watchdog."""

from __future__ import annotations

import array
import asyncio
import fcntl
import logging
import os
import re
import socket
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from typing import NamedTuple, Self

from ..journal import JournalError, Ledger
from .liveness import stuck
from .node import Node
from .server.listener import Listener, has_listener, inode_at

_FIRST_DESCRIPTOR = 3
# A name in the store says which file led to the socket: a descriptor alone does not.
_STORED = re.compile(r"netloom-([0-9]{1,20})")
_NOTIFY = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "FDSTORE")
_LISTEN = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
# As many digits as a number of 64 bits may have; the largest means that a time never comes.
_DIGITS = 20
_NEVER = 2**64 - 1


class BadVariable(Exception):
    """A service manager says what cannot be. `name` is the variable's."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} {why}")
        self.name = name


class Passed(NamedTuple):
    """A descriptor that was open before we were, and its name."""

    descriptor: int
    name: str


class Manager:
    """`watchdog` is how often it wants to hear of us, in seconds; None: it does not care.

    `stores`: it keeps descriptors for us, and starts us again with them. `directories` are those that it
    makes whenever it starts us.
    """

    def __init__(
        self,
        address: str = "",
        watchdog: float | None = None,
        passed: Sequence[Passed] = (),
        *,
        stores: bool = False,
        directories: Sequence[str] = (),
    ) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog = watchdog
        self.passed = tuple(passed)
        self.stores = stores
        self.directories = tuple(directories)

    @classmethod
    def of_environment(cls, environment: MutableMapping[str, str]) -> Self:
        """Takes the variables out: they are for us, and for no process that we start.

        Called before we open any descriptor: whichever is open by then was handed in. Raises `BadVariable`.
        """
        notify = {name: environment.pop(name, "") for name in _NOTIFY}
        listen = {name: environment.pop(name, "") for name in _LISTEN}
        address = notify["NOTIFY_SOCKET"]
        watchdog = _watchdog(notify["WATCHDOG_PID"], notify["WATCHDOG_USEC"])
        passed = _passed(listen["LISTEN_PID"], listen["LISTEN_FDS"], listen["LISTEN_FDNAMES"])
        return cls(
            address if address.startswith(("/", "@")) and len(address) > 1 else "",
            watchdog,
            passed,
            # systemd says so since its version 254; before, we know it by what else it does for us.
            stores=notify["FDSTORE"] not in ("", "0") or bool(passed) or watchdog is not None,
            directories=environment.get("RUNTIME_DIRECTORY", "").split(":"),
        )

    @property
    def runs_us(self) -> bool:
        """Whether it would start another one if we went: then it decides who follows us."""
        return bool(self._address) and self.stores

    def listeners(self, path: str) -> list[Listener]:
        """Sockets that we are to accept from; the one that the path leads to is first."""
        found = []
        for passed in self.passed:
            os.set_inheritable(passed.descriptor, False)
            if _is_listening(passed.descriptor):
                listening = socket.socket(fileno=passed.descriptor)
                stored = _STORED.fullmatch(passed.name)
                found.append((listening, int(stored[1]) if stored else 0))
            else:
                os.close(passed.descriptor)
        # Of the manager's own we know no file: it is the one at the path, unless that is dead, or of another.
        here = inode_at(path) if has_listener(path) else 0
        unknown = 0 if any(inode == here for _, inode in found) else here
        made = [
            Listener(path, listening, inode or unknown, lent=not inode, kept=bool(inode))
            for listening, inode in found
        ]
        return sorted(made, key=lambda it: not it.is_in_place())

    def tell(self, *lines: str, descriptors: Sequence[int] = ()) -> None:
        """A manager that is gone, or that does not read, is told nothing: we have other things to do."""
        if not self._address:
            return
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sending:
            sending.connect(self._address)
            sending.sendmsg(["\n".join(lines).encode()], rights)

    def keep(self, listener: Listener) -> None:
        """Stores a socket that we made, so that whoever waits at it outlives us."""
        if not self.runs_us:
            return
        self.tell("FDSTORE=1", f"FDNAME=netloom-{listener.inode}", descriptors=[listener.fileno()])
        listener.is_kept = True

    def forget(self, listener: Listener) -> None:
        """One at which nobody waits any more, and which nobody finds."""
        if listener.is_kept:
            self.tell("FDSTOREREMOVE=1", f"FDNAME=netloom-{listener.inode}")


def _watchdog(process: str, microseconds: str) -> float | None:
    if process and process != str(os.getpid()):
        return None
    found = _number("WATCHDOG_USEC", microseconds, "microseconds")
    return found / 1e6 if 0 < found < _NEVER else None


def _passed(process: str, count: str, names: str) -> list[Passed]:
    if process != str(os.getpid()):
        return []
    many = _number("LISTEN_FDS", count, "descriptors")
    found = []
    for number, name in zip(range(many), chain(names.split(":"), repeat("")), strict=False):
        descriptor = _FIRST_DESCRIPTOR + number
        if not _is_open(descriptor):
            raise BadVariable("LISTEN_FDS", f"is {many}, but descriptor {descriptor} is not open")
        found.append(Passed(descriptor, name))
    return found


def _number(variable: str, text: str, what: str) -> int:
    """0 of one that is not set."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        shown = f"{text[:_DIGITS]}…" if len(text) > _DIGITS else text
        raise BadVariable(variable, f"is {shown!r}, which is not a number of {what}")
    return int(text)


def _is_open(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_GETFD)
    except (OSError, OverflowError):
        return False
    return True


def _is_listening(descriptor: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(descriptor)) as it:
            kind = (it.family, it.type)
            return kind == (socket.AF_UNIX, socket.SOCK_STREAM) and bool(
                it.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            )
    except OSError:
        return False


log = logging.getLogger(__name__)

# In the time after which the manager takes us for dead, so many signs of life.
_SIGNS = 3


async def watch(node: Node, manager: Manager) -> None:
    """Until it is cancelled; at once, if nobody wants to know."""
    if manager.watchdog is None:
        return
    pause = manager.watchdog / _SIGNS
    said = ""
    while True:
        found = await stuck(node, pause)
        if found:
            log.error("not notifying the watchdog: %s", "; ".join(it.text for it in found))
        else:
            manager.tell("WATCHDOG=1")
            with suppress(JournalError):  # of which `status` tells more
                counts = await node.journal.ask(Ledger.count)
                status = _status(node, sum(counts.values()))
                if status != said:
                    manager.tell(f"STATUS={status}")
                said = status
        await asyncio.sleep(pause)


def _status(node: Node, attachments: int) -> str:
    """A line for `systemctl status`."""
    reasons = [*node.conditions.failures.values(), *([node.journal.trouble] if node.journal.trouble else [])]
    serving = f"serving {attachments} attachment{'' if attachments == 1 else 's'}"
    return f"{serving}; nothing can be attached: {'; '.join(reasons)}" if reasons else serving
