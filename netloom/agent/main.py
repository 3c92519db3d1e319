"""The agent's process: from its start, through its sessions and handovers, to its exit."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from contextlib import suppress
from importlib import import_module

from ..api.paths import require_trusted
from ..cni.files import make_directories
from ..cni.lazy import load
from ..failpoints import failpoint
from ..journal import JournalError, NewerSchema
from ..kernel import KernelError
from ..kernel.dataplane import Dataplane
from ..networks.modes import known_modes
from .handover.handover import Departure, Offer
from .handover.older_agent import replace_older
from .handover.successor import NotKnown, Takeover, request_takeover, require_ready
from .server.listener import Listener, SocketInUse
from .session import REQUESTS, Session
from .settings import Settings
from .systemd import Manager

_PACKAGES = ("netloom.cni", "netloom.kernel", "netloom.kernel.objects")
# Modules that functions import when they are first called.
_MODULES = ("ctypes", "hashlib", "netloom.kernel.nft")
# It imports h11, which takes 8 ms and is needed only with an HTTP listener.
_HTTP = "netloom.agent.http.pages"


def load_all(*, with_http: bool) -> None:
    for package in _PACKAGES:
        load(package)
    for module in _MODULES:
        import_module(module)
    for mode in known_modes():
        mode.load()
    if with_http:
        import_module(_HTTP)


log = logging.getLogger(__name__)

_DESCRIPTORS = 65536
# Seconds between two attempts to resume after a failed handover.
_PAUSE = 0.2


async def serve(settings: Settings, manager: Manager, *, take_over: bool = False) -> None:
    """Serves until SIGTERM or SIGINT, or until another agent has taken over.

    With `take_over`, it replaces a running agent, if there is one. No call is lost; if the handover fails,
    the running agent continues.
    """
    load_all(with_http=settings.web is not None)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _prepare_directories(settings)
    _allow_many_descriptors()
    listeners = manager.listeners(settings.socket)
    session = Session(settings, manager, listeners, stop, follows=take_over)
    departure = await (_follow(settings, session, listeners) if take_over else session.serve())
    while departure is not None:
        if await _is_over(departure, stop):
            _close_without_unlinking(listeners)
            return
        log.error("the new agent did not take over; continuing")
        try:
            departure = await _resume(session, stop)
        except NewerSchema:
            for listener in listeners:
                listener.close()
            raise


async def _follow(settings: Settings, session: Session, listeners: list[Listener]) -> Departure | None:
    """Does everything slow or likely to fail before the handover, because clients wait during it."""
    async with Dataplane(limit=REQUESTS) as dataplane:
        await asyncio.to_thread(require_ready, settings)
        gc.collect()
        takeover = await asyncio.to_thread(_takeover, settings)
        listeners += [] if takeover is None else takeover.listeners
        return await session.serve(takeover, dataplane)


def _takeover(settings: Settings) -> Takeover | None:
    try:
        return request_takeover(settings)
    except NotKnown:
        listener, paused = replace_older(settings)
        return Takeover(None, [listener], Offer(handover=0, version="(older)", paused=paused))


async def _is_over(departure: Departure, stop: asyncio.Event) -> bool:
    """Returns whether this process may exit: the successor serves, or the process was told to stop."""
    followed, stopped = asyncio.ensure_future(departure.is_followed()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((followed, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    try:
        if followed.done():
            is_followed = followed.result()
        else:
            followed.cancel()
            await asyncio.gather(followed, return_exceptions=True)
            is_followed = departure.withdraw()
    finally:
        departure.close()
    if is_followed:
        failpoint("handover.heard")
    return is_followed or stop.is_set()


async def _resume(session: Session, stop: asyncio.Event) -> Departure | None:
    """Serves again after a failed handover, and retries on errors that may pass, such as a full disk.

    Clients wait at the socket meanwhile. Raises `NewerSchema`, which is permanent: the successor has migrated
    the journal.
    """
    failpoint("handover.resumed")
    logged = ""
    while not stop.is_set():
        try:
            return await session.serve()
        except NewerSchema:
            raise
        except (JournalError, KernelError) as error:
            if str(error) != logged:
                log.error("cannot resume yet, trying again: %s", error)
            logged = str(error)
            await asyncio.sleep(_PAUSE)
    return None


def _close_without_unlinking(listeners: list[Listener]) -> None:
    """Closes the sockets, but keeps the file: both belong to the successor now."""
    for listener in listeners:
        listener.close(unlink=False)


def _prepare_directories(settings: Settings) -> None:
    """Creates the socket's directory and checks it and the state directory, which the journal creates.

    Raises `UntrustedPath` or `SocketInUse`.
    """
    require_trusted("the state directory", settings.state_dir)
    directory = os.path.dirname(settings.socket)
    try:
        make_directories(directory, 0o700)
    except OSError as cause:
        at = cause.filename or directory
        raise SocketInUse(f"cannot listen at {settings.socket}: {at}: {cause.strerror}") from None
    require_trusted("the directory of the socket", directory)


def _allow_many_descriptors() -> None:
    """Raises the limit of file descriptors: each request needs several, and many arrive at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
