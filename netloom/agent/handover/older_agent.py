"""Following an agent that knows no handover: one of an older version.

A new socket appears over its own, in one step: whoever comes from then on waits there. Whoever had connected
before is served by the old one, which is asked once more by its old socket: when it answers, it has taken all
that came before. Only then it is told to end, which it does when it has finished what it took.
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

# A client that has just connected sends its request in far less.
_MOMENT = 0.05
_ANSWER = 5.0
# A service manager, whose socket it is; or an agent that is all of its container, which would end with it.
_MANAGER = 1
# It waits ten seconds for what is under way, and needs a moment more.
_END = 15.0


def replace_older(settings: Settings) -> tuple[Listener, float]:
    """The new socket, and since when clients wait at it. The old agent has ended, and its journal is free."""
    return replace_older_by(settings, lambda: Listener.made(settings.socket, over=True))


def replace_older_by(settings: Settings, listen: Callable[[], T]) -> tuple[T, float]:
    """`listen` puts another socket in the place of the agent's.

    Raises `Refused`, before anything was changed if that can be known before.
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
    """Its process, and a handle taken while it answers: so it is no other that has got its number."""
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
    """A second name of a socket, by which it can be reached when the first leads to another."""
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
    """Its answer is its word that it has taken whoever came before us."""
    with suppress(AgentError), Connection(path, _ANSWER) as connection:
        connection.info()
