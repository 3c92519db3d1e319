"""The agent as a process: who it is, and stopping it."""

from __future__ import annotations

import argparse
import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..api.client import AgentError, Connection, NotRunning, Silent
from ..api.info import Info
from ..cni.files import is_same_path
from ..journal.lock import holder as holder_of
from .failure import CommandFailed, warn
from .status import DEADLINE

# Longer than an agent that is well ever needs for an answer.
_PATIENCE = 5.0
# For an answer that a command can do without.
_BRIEFLY = 1.0
_LOOK_EVERY = 0.05
# The process that starts all others. In a container, it may be the agent.
_MANAGER = 1
# Nothing is said of a wait that is over before anybody wonders.
_QUIET = 1.0


class Running(NamedTuple):
    """An agent that answers. `process` is 0 if it cannot be seen from this PID namespace."""

    process: int
    info: Info


class Place(NamedTuple):
    state_dir: str
    socket: str

    @property
    def log(self) -> str:
        return os.path.join(self.state_dir, "agent.log")


@contextmanager
def undisturbed(place: Place, timeout: float) -> Iterator[None]:
    """One `up` or `down` at a time. The state directory itself is the lock; without one there is no need."""
    try:
        lock = os.open(place.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise CommandFailed(
                        "another `netloom up` or `netloom down` is at work; nothing was done",
                        "wait for it, and try again",
                        code="others-at-work",
                        status=DEADLINE,
                    ) from None
                time.sleep(_LOOK_EVERY)
        yield
    finally:
        os.close(lock)


def running(place: Place) -> Running | None:
    """Raises `AgentError` if somebody listens and gives no answer of an agent."""
    try:
        with Connection(place.socket, _PATIENCE) as connection:
            info = connection.info()
            return Running(_listener(connection, place), info)
    except NotRunning:
        return None


def require_same_state(place: Place, info: Info, undone: str = "") -> None:
    """Raises if the agent at the socket has another state directory. `undone` says what was not done."""
    theirs = info.state_dir  # an agent of an early version does not tell
    if theirs and not is_same_path(theirs, place.state_dir):
        raise CommandFailed(
            f"the agent at {place.socket} has its state in {theirs}, not in {place.state_dir}{undone}",
            f"give --state-dir {theirs}, or another --socket",
            code="agent-of-other-state",
        )


def warn_of_other_state(args: argparse.Namespace) -> None:
    """For commands that list what a journal has: the agent may have another. One without an answer does not
    keep them waiting."""
    place = Place(args.state_dir, args.socket)
    if not os.path.exists(place.socket) or holder(place) is not None:
        return
    try:
        with Connection(place.socket, _BRIEFLY) as connection:
            require_same_state(place, connection.info())
    except AgentError:
        return
    except CommandFailed as error:
        warn(args, f"{error}: what is attached may differ; {error.advice}")


def log_of(process: int, place: Place) -> str | None:
    """Where an agent's log is; None if whoever started it, such as a service manager, keeps it elsewhere."""
    try:
        path = os.readlink(f"/proc/{process}/fd/2")
    except OSError:
        return place.log
    return path if path.startswith(place.log) else None  # one that was put aside has another name


def await_other(place: Place, timeout: float) -> Running | None:
    """An agent that somebody else has started, and that does not listen yet; None if there is none."""
    process = holder(place)
    if process is None:
        return None
    found = answering(place, timeout, lambda: holder(place) is None)
    if found is None and holder(place) is not None:
        raise CommandFailed(
            f"process {process} has the journal in {place.state_dir}, and does not answer at {place.socket}",
            "give the --socket that it was started with, or stop it with `netloom down`",
            code="agent-elsewhere",
            status=DEADLINE,
        )
    return found


def answering(place: Place, timeout: float, has_ended: Callable[[], bool]) -> Running | None:
    """Waits until an agent answers; None if it has ended, or the time is over."""
    started = time.monotonic()
    with progress(timeout) as tell:
        while True:
            waited = time.monotonic() - started
            tell(waited)
            with suppress(AgentError):
                found = running(place)
                if found is not None:
                    return found
            if has_ended() or waited > timeout:
                return None
            time.sleep(_LOOK_EVERY)


@contextmanager
def progress(timeout: float) -> Iterator[Callable[[float], None]]:
    """A line on the terminal, if there is one, which is gone when the wait is over."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    shown = 0

    def tell(waited: float) -> None:
        nonlocal shown
        if on_terminal and waited > _QUIET and int(waited) > shown:
            shown = int(waited)
            sys.stderr.write(f"\rwaiting for the agent: {shown} of {timeout:g} s ")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def stop(place: Place, timeout: float) -> int | None:
    """Ends the agent and waits until it has ended. Gives back its process; None if none was running."""
    deadline = time.monotonic() + timeout
    found = _identified(place, min(timeout / 2, _PATIENCE))
    if found is None:
        return None
    process, handle = found
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        if not poller.poll(max(deadline - time.monotonic(), 0) * 1000):
            raise _did_not_end(process, place, timeout)
    finally:
        os.close(handle)
    return process


def _did_not_end(process: int, place: Place, timeout: float) -> CommandFailed:
    kill = f"`kill -9 {process}` ends it: what it was doing is finished or undone when the next one starts"
    if is_stopped(process):
        return CommandFailed(
            f"the agent (process {process}) is stopped, as by SIGSTOP or a debugger, and cannot end",
            f"`kill -CONT {process}` lets it go on, and then it ends; {kill}",
            code="agent-halted",
            status=DEADLINE,
        )
    log = log_of(process, place) or "where its service manager keeps it"
    return CommandFailed(
        f"the agent (process {process}) was told to stop, and did not end within {timeout:g} s",
        f"look at its log, {log}; {kill}",
        code="agent-not-ending",
        status=DEADLINE,
    )


def is_stopped(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # 4711 (a name (of any kind)) T …
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def _identified(place: Place, patience: float) -> tuple[int, int] | None:
    """The agent's process and a handle to it: who listens and answers, or else who has the journal.

    That it is still the agent is seen after the handle was taken: so this is no other process that has
    got its number since.
    """
    try:
        with Connection(place.socket, patience) as connection:
            process = _listener(connection, place)
            if process == _MANAGER and holder(place) != process:
                return None  # its socket, at which nobody serves
            handle = _handle(process, place)
            try:
                require_same_state(place, connection.info(), "; nothing was stopped")
            except CommandFailed:
                os.close(handle)
                raise
            except AgentError as error:
                if holder(place) != process:
                    os.close(handle)
                    raise CommandFailed(
                        f"{error}, and it does not have the journal in {place.state_dir}; it was left alone",
                        "give the --state-dir and --socket that the agent was started with",
                        code="agent-unproven",
                    ) from None
            return process, handle
    except NotRunning:
        found = holder(place)
        if found is None:
            return None
        handle = _handle(found, place)
        if holder(place) == found:
            return found, handle
        os.close(handle)
        return None


def _listener(connection: Connection, place: Place) -> int:
    """Who serves there. The kernel names who listened when we came: that may have been a service manager, or
    an agent that has handed its socket over since."""
    process = connection.process
    if process == _MANAGER or (process and not os.path.exists(f"/proc/{process}")):
        return holder(place) or process
    return process


def _handle(process: int, place: Place) -> int:
    try:
        return os.pidfd_open(process)
    except OSError:
        raise CommandFailed(
            f"the agent at {place.socket} runs where it cannot be seen from here (process {process})",
            "stop it where it was started: in its container, or with its service manager",
            code="agent-unseen",
        ) from None


def holder(place: Place) -> int | None:
    """The process that has the journal, also while it does not listen yet."""
    return holder_of(os.path.join(place.state_dir, "journal.db"))


def user(place: Place) -> int | None:
    """The same. Where the lock is not at its path, the agent at the socket is asked, too.

    It is not asked otherwise: a service manager that listens there would start an agent.
    """
    process = holder(place)
    if process is not None or os.path.isfile(os.path.join(place.state_dir, "journal.db.lock")):
        return process
    try:
        with Connection(place.socket, _PATIENCE) as connection:
            info = connection.info()
    except Silent as error:  # it may have the journal
        return error.process or None
    except AgentError:
        return None
    return info.process if is_same_path(info.state_dir, place.state_dir) else None
