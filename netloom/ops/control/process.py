"""The agent as a process: identifies it, waits for it, and stops it."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeAlias

from ...api.client import AgentError, Connection, NotRunning, Silent
from ...api.paths import Place
from ...api.protocol import Info
from ...cni.files import is_same_path
from ...journal.lock import holder as holder_of
from ...waiting import lock_exclusively
from ..errors import OperationFailed

# Longer than a healthy agent ever needs for an answer.
_PATIENCE = 5.0
# For an answer that a command can do without.
_BRIEFLY = 1.0
_LOOK_EVERY = 0.05
# The process that starts all others. In a container, it may be the agent.
_MANAGER = 1
# Called during a wait, with the seconds since the wait began.
Tell: TypeAlias = Callable[[float], None]


class Running(NamedTuple):
    """An agent that answers. `process` is 0 if it cannot be seen from this PID namespace."""

    process: int
    info: Info


@contextmanager
def undisturbed(place: Place, timeout: float) -> Iterator[None]:
    """Allows one `up` or `down` at a time. The lock is the state directory; without it, none is needed."""
    try:
        lock = os.open(place.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    try:
        try:
            lock_exclusively(lock, timeout)
        except TimeoutError:
            raise OperationFailed(
                "another `netloom up` or `netloom down` is running; nothing was done",
                "wait until it ends, and try again",
                code="others-at-work",
                kind="deadline",
            ) from None
        yield
    finally:
        os.close(lock)


def running(place: Place) -> Running | None:
    """The agent that answers. Raises `AgentError` if what listens does not answer as an agent does."""
    try:
        with Connection(place.socket, _PATIENCE) as connection:
            info = connection.info()
            return Running(_listener(connection, place), info)
    except NotRunning:
        return None


def require_same_state(place: Place, info: Info, undone: str = "") -> None:
    """Raises if the agent at the socket has another state directory. `undone` says what was not done."""
    theirs = info.state_dir  # empty if the agent has an early version
    if theirs and not is_same_path(theirs, place.state_dir):
        raise OperationFailed(
            f"the agent at {place.socket} has its state in {theirs}, not in {place.state_dir}{undone}",
            f"give --state-dir {theirs}, or another --socket",
            code="agent-of-other-state",
        )


def other_state(place: Place) -> str:
    """A warning for commands that read a journal, if the agent has another one; empty if it is the same.

    Waits only briefly for an agent that does not answer.
    """
    if not os.path.exists(place.socket) or holder(place) is not None:
        return ""
    try:
        with Connection(place.socket, _BRIEFLY) as connection:
            require_same_state(place, connection.info())
    except AgentError:
        return ""
    except OperationFailed as error:
        return f"{error}: its attachments may differ; {error.advice}"
    return ""


def log_of(process: int, place: Place) -> str | None:
    """The path of an agent's log; None if it is kept elsewhere, for example by a service manager."""
    try:
        path = os.readlink(f"/proc/{process}/fd/2")
    except OSError:
        return place.log
    return path if path.startswith(place.log) else None  # a rotated log has another name


def await_other(place: Place, timeout: float, tell: Tell) -> Running | None:
    """Waits for an agent that something else started and that does not listen yet; None without one."""
    process = holder(place)
    if process is None:
        return None
    found = answering(place, timeout, lambda: holder(place) is None, tell)
    if found is None and holder(place) is not None:
        raise OperationFailed(
            f"process {process} has the journal in {place.state_dir}, but does not answer at {place.socket}",
            "give the --socket that it was started with, or stop it with `netloom down`",
            code="agent-elsewhere",
            kind="deadline",
        )
    return found


def answering(place: Place, timeout: float, has_ended: Callable[[], bool], tell: Tell) -> Running | None:
    """Waits until an agent answers; None if it has ended, or after the timeout."""
    started = time.monotonic()
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


def stop(place: Place, timeout: float) -> int | None:
    """Stops the agent and waits until it has ended. Returns its process; None if none was running."""
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


def _did_not_end(process: int, place: Place, timeout: float) -> OperationFailed:
    kill = f"`kill -9 {process}` ends it, and the next agent finishes or undoes its operations"
    if is_stopped(process):
        return OperationFailed(
            f"the agent (process {process}) is stopped, for example by SIGSTOP or a debugger, and cannot end",
            f"`kill -CONT {process}` resumes it, and then it ends; {kill}",
            code="agent-halted",
            kind="deadline",
        )
    log = log_of(process, place) or "where its service manager keeps it"
    return OperationFailed(
        f"the agent (process {process}) did not stop within {timeout:g} s",
        f"look at its log, {log}; {kill}",
        code="agent-not-ending",
        kind="deadline",
    )


def is_stopped(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # 4711 (a name (of any kind)) T …
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def _identified(place: Place, patience: float) -> tuple[int, int] | None:
    """The agent's process, which listens and answers or else has the journal, and a handle to it.

    The function identifies the agent after it opened the handle: the number may have been reused.
    """
    try:
        with Connection(place.socket, patience) as connection:
            process = _listener(connection, place)
            if process == _MANAGER and holder(place) != process:
                return None  # systemd listens, and no agent serves
            handle = _handle(process, place)
            try:
                require_same_state(place, connection.info(), "; nothing was stopped")
            except OperationFailed:
                os.close(handle)
                raise
            except AgentError as error:
                if holder(place) != process:
                    os.close(handle)
                    raise OperationFailed(
                        f"{error}, and it does not have the journal in {place.state_dir}; nothing was done",
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
    """The process that serves. The kernel names the process that listened when we connected: that may be a
    service manager, or an agent that has since handed over its socket."""
    process = connection.process
    if process == _MANAGER or (process and not os.path.exists(f"/proc/{process}")):
        return holder(place) or process
    return process


def _handle(process: int, place: Place) -> int:
    try:
        return os.pidfd_open(process)
    except OSError:
        raise OperationFailed(
            f"the agent at {place.socket} (process {process}) runs where it cannot be seen from here",
            "stop it where it was started: in its container, or with its service manager",
            code="agent-unseen",
        ) from None


def holder(place: Place) -> int | None:
    """The process that has the journal, even if it does not listen yet."""
    return holder_of(place.journal)


def user(place: Place) -> int | None:
    """The process that has the journal. Without a lock file, the agent at the socket is asked, too.

    Otherwise it is not asked: a service manager that listens there would start an agent.
    """
    process = holder(place)
    if process is not None or os.path.isfile(place.journal_lock):
        return process
    try:
        with Connection(place.socket, _PATIENCE) as connection:
            info = connection.info()
    except Silent as error:  # it may have the journal
        return error.process or None
    except AgentError:
        return None
    return info.process if is_same_path(info.state_dir, place.state_dir) else None
