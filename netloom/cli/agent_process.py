"""The agent as a process: who it is, starting one in the background, and stopping it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..agent.client import AgentError, Connection, NotRunning
from ..agent.info import Info
from ..cni.files import make_directories
from .failure import CommandFailed
from .status import DEADLINE

# Longer than an agent that is well ever needs for an answer.
_PATIENCE = 5.0
_LOOK_EVERY = 0.05
# One that does not end by itself is killed, which loses nothing.
_PARTING = 2.0
# Nothing is said of a wait that is over before anybody wonders.
_QUIET = 1.0
_LOG_MAX = 8 << 20
_TAIL = 10


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
            return Running(connection.process, connection.info())
    except NotRunning:
        return None


def start(place: Place, timeout: float) -> Running:
    """In the background, and waits until it answers. If it does not, it is stopped again."""
    log = _opened_log(place)
    try:
        begin = os.fstat(log).st_size
        process = subprocess.Popen(
            # Not by its name, which may lead to another installation.
            [sys.executable, "-P", "-m", "netloom.cli.main", "agent",
             "--state-dir", place.state_dir, "--socket", place.socket],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            umask=0o077,
            start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(log)
    try:
        return _awaited(process, place, begin, timeout)
    except BaseException:
        _end(process)
        raise


def _opened_log(place: Place) -> int:
    """To be added to. One that has grown large is put aside, in the place of the one before it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        make_directories(place.state_dir, 0o700)
        with suppress(FileNotFoundError):
            if os.stat(place.log).st_size > _LOG_MAX:
                os.rename(place.log, f"{place.log}.1")
        return os.open(place.log, flags, 0o600)
    except OSError as cause:
        raise CommandFailed(
            f"cannot write to {place.log}: {cause.strerror}", "mend that, or give another --state-dir"
        ) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PARTING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _awaited(process: subprocess.Popen[bytes], place: Place, begin: int, timeout: float) -> Running:
    def has_ended() -> bool:
        return process.poll() is not None

    found = _answering(place, timeout, has_ended)
    if found is not None:
        return found
    if has_ended():
        raise CommandFailed(
            f"the agent ended at once, {_how(process.returncode)}",
            f"mend what it says; its log is {place.log}",
            said=_tail(place.log, begin),
        )
    raise CommandFailed(
        f"the agent did not answer within {timeout:g} s, and was stopped",
        f"look at its log, {place.log}, or give it more time with --timeout",
        status=DEADLINE,
        said=_tail(place.log, begin),
    )


def _how(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


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
    found = _answering(place, timeout, lambda: holder(place) is None)
    if found is None and holder(place) is not None:
        raise CommandFailed(
            f"process {process} has the journal in {place.state_dir}, and does not answer at {place.socket}",
            "give the --socket that it was started with, or stop it with `netloom down`",
            status=DEADLINE,
        )
    return found


def _answering(place: Place, timeout: float, has_ended: Callable[[], bool]) -> Running | None:
    """Waits until an agent answers; None if it has ended, or the time is over."""
    started = time.monotonic()
    with _progress(timeout) as tell:
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
def _progress(timeout: float) -> Iterator[Callable[[float], None]]:
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


def _tail(path: str, begin: int) -> list[str]:
    """What this agent has said last, and not what those before it have."""
    try:
        with open(path, "rb") as file:
            file.seek(max(begin, os.fstat(file.fileno()).st_size - 16384))
            return file.read().decode(errors="replace").splitlines()[-_TAIL:]
    except OSError:
        return []


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
            status=DEADLINE,
        )
    log = log_of(process, place) or "where its service manager keeps it"
    return CommandFailed(
        f"the agent (process {process}) was told to stop, and did not end within {timeout:g} s",
        f"look at its log, {log}; {kill}",
        status=DEADLINE,
    )


def is_stopped(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            # 4711 (a name (of any kind)) T …
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False


def _identified(place: Place, patience: float) -> tuple[int, int] | None:
    """The agent's process and a handle to it: who listens and answers, or else who has the journal.

    That it is still the agent is seen after the handle was taken: so this is no other process that has
    got its number since.
    """
    try:
        with Connection(place.socket, patience) as connection:
            handle = _handle(connection.process, place)
            try:
                connection.info()
            except AgentError as error:
                if holder(place) != connection.process:
                    os.close(handle)
                    raise CommandFailed(
                        f"{error}, and it does not have the journal in {place.state_dir}; it was left alone",
                        "give the --state-dir and --socket that the agent was started with",
                    ) from None
            return connection.process, handle
    except NotRunning:
        process = holder(place)
        if process is None:
            return None
        handle = _handle(process, place)
        if holder(place) == process:
            return process, handle
        os.close(handle)
        return None


def _handle(process: int, place: Place) -> int:
    try:
        return os.pidfd_open(process)
    except OSError:
        raise CommandFailed(
            f"the agent at {place.socket} runs where it cannot be seen from here (process {process})",
            "stop it where it was started: in its container, or with its service manager",
        ) from None


def holder(place: Place) -> int | None:
    """The process that has the journal, also while it does not listen yet.

    It has left its number in the lock's file; that it still holds the lock is the kernel's word.
    """
    try:
        with open(os.path.join(place.state_dir, "journal.db.lock")) as lock:
            process, inode = lock.read(32).strip(), os.fstat(lock.fileno()).st_ino
        with open("/proc/locks") as locks:
            # 1: FLOCK  ADVISORY  WRITE 4711 00:1a:42 0 EOF
            held = {(fields[1], fields[4], fields[5].rpartition(":")[2]) for fields in map(str.split, locks)}
    except (OSError, ValueError, IndexError):
        return None
    return int(process) if ("FLOCK", process, str(inode)) in held else None
