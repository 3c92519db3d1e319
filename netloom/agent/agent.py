"""The agent: takes the journal, recovers, serves, looks after what it made, and stops without loss."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ..journal import Journal
from ..kernel.dataplane import Dataplane
from . import intents
from .answers import Answers, refuse
from .collect import Collector
from .drift import Drift
from .node import Node, Settings
from .recovery import answer_for_next_hop, finish, forget_rested, forward, recover
from .server import Server

log = logging.getLogger(__name__)

# Looking at every namespace's path costs a system call each.
_COLLECT_EVERY = 10
_DESCRIPTORS = 65536
# As many attachments are looked at soon after a start; of more, the rest waits for the sweep.
_AT_START = 1200
# Looking for addresses that rested for a day costs a look at all that rest.
_FORGET_EVERY = 3600


async def serve(settings: Settings, *, ready: Callable[[], None] | None = None) -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    os.makedirs(os.path.dirname(settings.socket) or ".", mode=0o700, exist_ok=True)
    _allow_many_descriptors()
    journal = Journal(settings.journal)
    try:
        async with Dataplane(limit=4096) as dataplane:
            node = Node(settings, journal, dataplane)
            recovered = await recover(node)
            # What was lost while no agent ran is looked for first.
            node.recent = await journal.ask(lambda ledger: ledger.numbers_after(0, _AT_START))
            server = Server(settings.socket, Answers(node).serve, refuse)
            listening = _go_on("listening to the kernel", lambda: Drift(node).listen())
            tasks = [loop.create_task(_tick(node, server)), loop.create_task(listening)]
            flows = loop.create_task(_go_on("forgetting connections", lambda: node.flows.run(node)))
            # What is there by now stays; collecting garbage among it would cost an ADD milliseconds.
            gc.collect()
            gc.freeze()
            log.info("ready at %s; %s", settings.socket, recovered)
            if ready is not None:
                ready()
            try:
                await stop.wait()
                log.info("stopping")
            finally:
                for task in tasks:
                    task.cancel()
                await server.close(settings.patience)
                flows.cancel()
                await asyncio.gather(*tasks, flows, return_exceptions=True)
                await node.flows.forget(node)
    finally:
        await asyncio.to_thread(journal.close)


def _allow_many_descriptors() -> None:
    """Every request brings some, and many come at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _tick(node: Node, server: Server) -> None:
    """The slow work. One that fails is told of, and does not keep the others from being done."""
    collector, drift = Collector(node), Drift(node)
    number = 0
    while True:
        await asyncio.sleep(node.settings.tick)
        number += 1
        node.look_after_journal()
        server.keep_in_place()
        work: list[Callable[[], Awaitable[object]]] = [
            lambda: intents.replay(node),
            lambda: finish(node),
            node.look_at_host,
            lambda: forward(node),
            lambda: answer_for_next_hop(node),
            drift.look_after_table,
            drift.look_after_recent,
            drift.sweep,
        ]
        if number % _COLLECT_EVERY == 0 or node.settings.grace < _COLLECT_EVERY:
            work.append(collector.round)
        if number % _FORGET_EVERY == 0:
            work.append(lambda: forget_rested(node))
        for step in work:
            try:
                await step()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("a part of the slow work failed")


async def _go_on(what: str, work: Callable[[], Awaitable[None]]) -> None:
    """Whatever happens to it, it is begun again."""
    while True:
        with suppress(OSError):
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s failed; trying again", what)
        await asyncio.sleep(1)
