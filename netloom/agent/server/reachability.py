"""Keeps the agent reachable at the path of its socket.

If the socket's file is deleted or hidden by a mount, no client can find the agent. So it checks the path four
times per tick and creates what is missing. For readiness, it also connects to itself by the path. Only one
such connection is open at a time, because in the queue of a busy agent it takes the place of a plugin.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct

from ...api.paths import weakness_left
from ...ops.node.namespaces import show_life
from ..node import Node
from ..systemd import Manager
from .listener import SocketInUse
from .server import Server

log = logging.getLogger(__name__)

_LOOKS_PER_TICK = 4
_CREDENTIALS = struct.Struct("3i")
# Names of the failures.
SOCKET, DIRECTORY = "socket", "directory"


class Reachability:
    def __init__(self, node: Node, server: Server, manager: Manager, stop: asyncio.Event) -> None:
        self._node = node
        self._server = server
        self._manager = manager
        self._stop = stop
        self._path = node.settings.socket
        self._probe: socket.socket | None = None

    async def keep(self) -> None:
        """Checks the path until it is cancelled."""
        try:
            while True:
                await asyncio.sleep(self._node.settings.tick / _LOOKS_PER_TICK)
                try:
                    self.check()
                except Exception:
                    log.exception("checking the path of the socket failed; trying again")
        finally:
            self._hang_up()

    def check(self, *, ask: bool = False) -> None:
        """Repairs the path, and sets a failure of the node if that fails.

        With `ask`, the agent also connects to itself.
        """
        if self._probe is not None and self._is_over(self._probe):
            self._hang_up()
        if not self._server.is_open:
            return
        failure = self._listening()
        if not failure and ask:
            failure = self._asked()
        self._note(SOCKET, failure)
        weak = weakness_left(os.path.dirname(self._path))
        self._note(DIRECTORY, "" if weak is None else f"the plugin refuses to use {self._path}: {weak}")

    def _listening(self) -> str:
        """Returns why no plugin can find the agent, or an empty string. Creates a missing socket."""
        try:
            is_fresh = self._server.keep_in_place()
        except SocketInUse as error:
            if error.errno == errno.EROFS and self._is_made_by_manager():
                log.error(
                    "%s; stopping, so that the service manager creates the directory and starts an agent",
                    error,
                )
                self._stop.set()
            return str(error)
        if is_fresh:
            log.warning("the socket at %s was missing; created it again", self._path)
            show_life(self._path)
        return ""

    def _is_made_by_manager(self) -> bool:
        """Whether the directory is missing and the service manager creates it when it starts an agent.

        The rest of /run is read-only to the agent (ProtectSystem), so it cannot create the directory itself.
        """
        directory = os.path.dirname(self._path)
        return (
            self._manager.runs_us
            and directory in self._manager.directories
            and not os.path.lexists(directory)
        )

    def _asked(self) -> str:
        """Returns why a connection to the path does not reach this process, or an empty string."""
        if self._probe is not None:
            return ""  # it still waits in this agent's own queue
        try:
            probe = socket.socket(
                socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            )
        except OSError:  # out of descriptors, which is not about the path
            return ""
        try:
            probe.connect(self._path)
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            probe.shutdown(socket.SHUT_WR)  # without a request, the server closes it once it is accepted
        except BlockingIOError:  # the queue is full, and it is this agent's, since the file is in place
            probe.close()
            return ""
        except OSError as cause:
            probe.close()
            return f"the agent cannot connect to itself at {self._path}: {cause.strerror or cause}"
        self._probe = probe
        process = _CREDENTIALS.unpack(credentials)[0]
        return "" if process == os.getpid() else f"process {process} answers at {self._path}, not this agent"

    @staticmethod
    def _is_over(probe: socket.socket) -> bool:
        try:
            return not probe.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _hang_up(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _note(self, name: str, failure: str) -> None:
        conditions = self._node.conditions
        if failure:
            if conditions.fail(name, failure):
                log.error("%s", failure)
        elif before := conditions.recover(name):
            log.info("resolved: %s", before)
