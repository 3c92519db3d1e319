"""Takes over from an agent of an older version, which does not support handover.

A new socket replaces the file of its socket in one step: new clients wait there. The old agent serves clients
that had connected before; when it answers one more request at its old socket, it has accepted all of them.
Then it gets SIGTERM, finishes these requests and exits.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from ...api.client import AgentError, Connection
from ...failpoints import failpoint
from ...journal import boottime
from ..server.listener import Listener
from ..settings import Settings
from .successor import HandoverRefused

T = TypeVar("T")

# More time than a connected client needs to send its request.
_MOMENT = 0.05
_ANSWER = 5.0
# A service manager that owns the socket, or an agent that is its container's only process.
_MANAGER = 1
# The old agent waits ten seconds for its requests, and needs a moment more.
_END = 15.0


def replace_older(settings: Settings) -> tuple[Listener, float]:
    """Ends the old agent. Returns the new socket, and the time since which clients wait at it."""
    return replace_older_by(settings, lambda: Listener.made(settings.socket, over=True))


def replace_older_by(settings: Settings, listen: Callable[[], T]) -> tuple[T, float]:
    """Ends the old agent. `listen` replaces the agent's socket.

    Raises `HandoverRefused`, and changes nothing if the reason is known before.
    """
    process, handle = _identified(settings)
    try:
        with _linked(settings.socket) as old:
            paused = boottime()
            listening = listen()
            failpoint("takeover.placed")
            _ask(old)
        time.sleep(_MOMENT)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], _END)[0]:
            raise HandoverRefused(
                f"the running agent (process {process}) got SIGTERM and did not stop within {_END:g} s"
            )
    finally:
        os.close(handle)
    failpoint("takeover.ended")
    return listening, paused


def _identified(settings: Settings) -> tuple[int, int]:
    """Returns the agent's process ID and a pidfd, opened while it answers so that the ID cannot be reused."""
    try:
        with Connection(settings.socket, _ANSWER) as connection:
            handle = os.pidfd_open(connection.process)
            try:
                state_dir = connection.info().state_dir
            except AgentError:
                os.close(handle)
                raise
            if state_dir != settings.state_dir or connection.process == _MANAGER:
                os.close(handle)
                raise HandoverRefused(
                    f"the agent at {settings.socket} uses state directory {state_dir}, or is process 1"
                )
            return connection.process, handle
    except AgentError as error:
        raise HandoverRefused(str(error)) from None
    except OSError:
        raise HandoverRefused(
            f"the process of the agent at {settings.socket} is not visible in this PID namespace"
        ) from None


@contextmanager
def _linked(path: str) -> Iterator[str]:
    """Yields a second path of a socket, for use after the first one was replaced."""
    name = f"{path}.{os.getpid()}.old"
    with suppress(FileNotFoundError):
        os.unlink(name)
    try:
        os.link(path, name)
    except OSError as cause:
        raise HandoverRefused(f"cannot replace the socket at {path}: {cause.strerror}") from None
    try:
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _ask(path: str) -> None:
    """Waits for an answer, after which the agent has accepted all earlier clients."""
    with suppress(AgentError), Connection(path, _ANSWER) as connection:
        connection.info()
