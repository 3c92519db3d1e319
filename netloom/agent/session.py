"""An agent's session: from opening the journal to closing it.

Most agents have one session. If a handover fails, the agent begins another session, as after a start: it
recovers what the successor left unfinished.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from functools import partial
from typing import TYPE_CHECKING

from .. import __version__
from ..api.protocol import Message
from ..failpoints import failpoint
from ..journal import InUse, Journal, boottime, search
from ..kernel.dataplane import Dataplane
from ..ops.node.namespaces import last_sign
from .handover.handover import PATIENCE, Departure
from .handover.successor import Takeover
from .metrics.tally import Tally
from .node import Node
from .reconcile.reconciler import Reconciler, keep_running, tick
from .reconcile.recovery import Recovered, recover
from .server.dispatcher import Dispatcher, refuse
from .server.listener import Listener
from .server.reachability import Reachability
from .server.server import Server
from .settings import Settings
from .systemd import Manager, watch

if TYPE_CHECKING:
    from .http.pages import Pages

log = logging.getLogger(__name__)

# The dataplane's limit of additions, and of removals.
REQUESTS = 4096
# Attachments that are checked soon after a start; the sweep checks the rest.
_AT_START = 1200
# How long the predecessor may keep the journal, in seconds: after a handover, and under a service manager.
_PARTING = 2.0
_MOVING = 15.0
_MANAGED = "a service manager runs this agent and starts its successor: use `systemctl restart netloom`"


class Session:
    """Serves requests. `listeners` outlive it, for the next session. `follows`: it succeeds another agent."""

    def __init__(
        self,
        settings: Settings,
        manager: Manager,
        listeners: list[Listener],
        stop: asyncio.Event,
        *,
        follows: bool = False,
    ) -> None:
        self._follows = follows
        self._settings = settings
        self._manager = manager
        self._listeners = listeners
        self._stop = stop
        self._asked: asyncio.Queue[Departure] = asyncio.Queue()
        # All sessions of this process share the counters.
        self._tally = Tally()
        # The journal's schema in this process's last session; 0: there was none.
        self._schema = 0

    async def serve(
        self, takeover: Takeover | None = None, dataplane: Dataplane | None = None
    ) -> Departure | None:
        """Serves until it is told to stop, or until it has offered its sockets to a successor.

        The session closes the dataplane. Passing one that is already open shortens a handover.
        """
        departure: Departure | None = None
        try:
            if takeover is not None:
                takeover.begin()
            journal = await self._open_journal()
            self._schema = journal.schema
            try:
                if takeover is not None:
                    failpoint("handover.opened")
                async with dataplane or Dataplane(limit=REQUESTS) as opened:
                    departure = await self._run(journal, opened, takeover)
            finally:
                await asyncio.to_thread(journal.close)
        finally:
            # After the journal is closed: if this session fails, the predecessor then opens it again.
            if takeover is not None:
                takeover.close()
            while not self._asked.empty():
                self._asked.get_nowait().refuse("it is stopping or handing over to another agent", busy=True)
        if departure is not None:
            failpoint("handover.released")
            departure.offer(self._listeners)
            failpoint("handover.offered")
        return departure

    async def _open_journal(self) -> Journal:
        """Opens the journal. The predecessor may need a moment to release it."""
        patience = _PARTING if self._follows else _MOVING if self._manager.runs_us else 0
        deadline = boottime() + patience
        take = partial(Journal, self._settings.journal, lent_with=self._schema)
        while True:
            try:
                return await asyncio.to_thread(take)
            except InUse:
                if boottime() >= deadline:
                    raise
                await asyncio.sleep(0.01)

    async def _run(
        self, journal: Journal, dataplane: Dataplane, takeover: Takeover | None
    ) -> Departure | None:
        node = Node(self._settings, journal, dataplane, self._tally)
        before = await journal.ask(search.ended_uncleanly)
        # The last heartbeat of the predecessor. Creating a new socket deletes it.
        sign = last_sign(self._settings.socket) if before else None
        recovered = await recover(node)
        # Objects may have been lost while no agent ran, so check attachments first.
        node.attachments.add_recent(*await journal.ask(lambda ledger: ledger.numbers_after(0, _AT_START)))
        self._listen()
        server = Server(
            self._listeners,
            Dispatcher(node).serve,
            refuse,
            leave=self._leave,
            made=self._manager.keep,
            dropped=self._manager.forget,
        )
        # These objects are permanent; a garbage collection that visits them would cost an ADD milliseconds.
        if takeover is None:
            gc.collect()
        gc.freeze()
        self._begin(server, takeover)
        self._record_start(node, recovered, sign)
        reachability = Reachability(node, server, self._manager, self._stop)
        node.check_socket_by(lambda: reachability.check(ask=True))
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(tick(node)),
            loop.create_task(reachability.keep()),
            loop.create_task(keep_running("listening to the kernel", lambda: Reconciler(node).listen())),
            loop.create_task(keep_running("listening to nftables", lambda: Reconciler(node).guard())),
            loop.create_task(watch(node, self._manager)),
        ]
        flows = loop.create_task(
            keep_running("removing stale connections", lambda: node.flows.run(journal, node.host_view))
        )
        pages = self._pages(node, server)
        if pages is not None:
            pages.open()
        departure: Departure | None = None
        try:
            departure = await self._until_the_end(node, server)
        finally:
            for task in tasks:
                task.cancel()
            if pages is not None:
                await pages.close()
            await node.firewalls.close()
            if departure is None:
                await server.close(self._settings.patience)
            flows.cancel()
            await asyncio.gather(*tasks, flows, return_exceptions=True)
            await node.flows.forget(node.host_view)
        return departure

    def _listen(self) -> None:
        if not any(it.is_in_place() for it in self._listeners):
            made = Listener.made(self._settings.socket)
            self._listeners.insert(0, made)
            self._manager.keep(made)

    def _pages(self, node: Node, server: Server) -> Pages | None:
        if self._settings.web is None:
            return None
        # `load_all` imports it before the agent is ready, and only with an HTTP listener.
        from .http.pages import Pages

        return Pages(node, self._settings.web, lambda: server.under_way)

    def _begin(self, server: Server, takeover: Takeover | None) -> None:
        """Begins to serve and notifies the predecessor and the service manager, without a step in between."""
        notifications = ["READY=1", f"STATUS=serving at {self._settings.socket}"]
        server.open()
        if takeover is not None:
            try:
                failpoint("handover.serving")
                waited = takeover.complete()
            except BaseException:
                server.shut()
                raise
            failpoint("handover.said")
            version = takeover.offer.version
            log.info("took over from version %s; calls waited for %.0f ms", version, waited * 1000)
            notifications.append(f"X_NETLOOM_WAITED_USEC={waited * 1e6:.0f}")
        self._manager.notify(*notifications)

    def _record_start(self, node: Node, recovered: Recovered, sign: float | None) -> None:
        """Records the start. `sign` is the last heartbeat of a predecessor that was killed."""
        log.info("ready at %s; %s", self._settings.socket, recovered)
        details = f"version {__version__}, process {os.getpid()}; {recovered}"
        node.events.record(
            "START", details, heartbeat=sign, reason="reboot" if recovered.of_another_boot else ""
        )

    async def _until_the_end(self, node: Node, server: Server) -> Departure | None:
        me = f"version {__version__}, process {os.getpid()}"
        while True:
            departure = await self._next()
            if departure is None:
                log.info("stopping")
                self._manager.notify("STOPPING=1")
                node.events.record("STOP", me)
                return None
            failpoint("handover.begun")
            objection = _MANAGED if self._manager.runs_us else departure.objection()
            if objection:
                log.warning("refused to hand over to another agent: %s", objection)
                departure.refuse(objection)
                continue
            departure.paused = boottime()
            if await server.pause(PATIENCE):
                assert departure.claim is not None
                failpoint("handover.drained")
                server.dismiss()
                log.info("handing over to version %s", departure.claim.version)
                details = f"{me}; handing over to version {departure.claim.version}"
                node.events.record("STOP", details, reason="handover")
                return departure
            departure.refuse(f"requests in progress: {server.under_way}", busy=True)
            server.open()

    async def _next(self) -> Departure | None:
        """Waits for an agent that wants to take over. Returns None when this one must stop."""
        asked, stop = asyncio.ensure_future(self._asked.get()), asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((asked, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if asked.done() and not self._stop.is_set():
            return asked.result()
        asked.cancel()
        return None

    def _leave(self, connection: socket.socket, message: Message) -> None:
        self._asked.put_nowait(Departure(connection, message.body, self._settings))
