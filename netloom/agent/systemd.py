"""systemd's protocols: socket activation, notifications, the descriptor store and the watchdog."""

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
# The name in the store has the inode of the socket's file, which a descriptor does not tell.
_STORED = re.compile(r"netloom-([0-9]{1,20})")
_NOTIFY = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "FDSTORE")
_LISTEN = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
# A number of 64 bits has at most 20 digits. The largest one means "infinity".
_DIGITS = 20
_NEVER = 2**64 - 1


class BadVariable(Exception):
    """The service manager set an invalid environment variable, `name`."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} {why}")
        self.name = name


class Passed(NamedTuple):
    """A descriptor that the service manager passed, and its name."""

    descriptor: int
    name: str


class Manager:
    """The service manager.

    `watchdog` is its watchdog timeout in seconds, or None. `stores`: it keeps descriptors of the agent and
    passes them to the next one. `directories` are those that it creates whenever it starts the agent.
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
        """Removes the variables from `environment`, because child processes must not see them.

        Must be called before the agent opens any descriptor. Raises `BadVariable`.
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
            # systemd sets FDSTORE since version 254; an older one is recognised by the other variables.
            stores=notify["FDSTORE"] not in ("", "0") or bool(passed) or watchdog is not None,
            directories=environment.get("RUNTIME_DIRECTORY", "").split(":"),
        )

    @property
    def runs_us(self) -> bool:
        """Whether the manager restarts the agent when it exits, and so chooses its successor."""
        return bool(self._address) and self.stores

    def listeners(self, path: str) -> list[Listener]:
        """Returns the passed sockets, with the one that `path` leads to first. Closes other descriptors."""
        found = []
        for passed in self.passed:
            os.set_inheritable(passed.descriptor, False)
            if _is_listening(passed.descriptor):
                listening = socket.socket(fileno=passed.descriptor)
                stored = _STORED.fullmatch(passed.name)
                found.append((listening, int(stored[1]) if stored else 0))
            else:
                os.close(passed.descriptor)
        # The inode of the manager's own socket is unknown: assume the live socket at the path, unless it is a
        # stored one.
        here = inode_at(path) if has_listener(path) else 0
        unknown = 0 if any(inode == here for _, inode in found) else here
        made = [
            Listener(path, listening, inode or unknown, lent=not inode, kept=bool(inode))
            for listening, inode in found
        ]
        return sorted(made, key=lambda it: not it.is_in_place())

    def notify(self, *lines: str, descriptors: Sequence[int] = ()) -> None:
        """Sends a notification. Does not wait, and ignores errors, if the manager does not read it."""
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
        """Puts a socket that the agent created into the store, so that waiting clients survive a restart."""
        if not self.runs_us:
            return
        self.notify("FDSTORE=1", f"FDNAME=netloom-{listener.inode}", descriptors=[listener.fileno()])
        listener.is_kept = True

    def forget(self, listener: Listener) -> None:
        """Removes a socket from the store that no client waits at or can find."""
        if listener.is_kept:
            self.notify("FDSTOREREMOVE=1", f"FDNAME=netloom-{listener.inode}")


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
    """Parses a variable; 0 if it is not set."""
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

# Notifications per watchdog timeout.
_SIGNS = 3


async def watch(node: Node, manager: Manager) -> None:
    """Notifies the watchdog until it is cancelled; returns at once if there is no watchdog."""
    if manager.watchdog is None:
        return
    pause = manager.watchdog / _SIGNS
    sent = ""
    while True:
        found = await stuck(node, pause)
        if found:
            log.error("not notifying the watchdog: %s", "; ".join(it.text for it in found))
        else:
            manager.notify("WATCHDOG=1")
            with suppress(JournalError):  # `netloom status` reports it
                counts = await node.journal.ask(Ledger.count)
                status = _status(node, sum(counts.values()))
                if status != sent:
                    manager.notify(f"STATUS={status}")
                sent = status
        await asyncio.sleep(pause)


def _status(node: Node, attachments: int) -> str:
    """Returns the line that `systemctl status` shows."""
    reasons = [*node.conditions.failures.values(), *([node.journal.trouble] if node.journal.trouble else [])]
    serving = f"serving {attachments} attachment{'' if attachments == 1 else 's'}"
    return f"{serving}; nothing can be attached: {'; '.join(reasons)}" if reasons else serving
