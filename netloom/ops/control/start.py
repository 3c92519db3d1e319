"""Starts an agent in the background, or replaces the one that runs.

The agent reports by sd_notify when it is ready, as to a service manager, so that nothing has to poll it.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Self

from ... import __version__
from ...api.client import AgentError
from ...api.paths import Place
from ...cni.files import make_directories
from ...journal.file_type import other_than_file
from ..errors import OperationFailed
from .process import Running, Tell, running

# After this time, an agent that does not end is killed, which loses nothing.
_PARTING = 2.0
_LOG_MAX = 8 << 20
_TAIL = 10
_LOOK_EVERY = 0.25
_CREDENTIALS = struct.Struct("3i")
# Variables from this command's own service manager, which the agent would take for its own.
_OTHERS = ("WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "FDSTORE")
_WAITED = "X_NETLOOM_WAITED_USEC"


class Started(NamedTuple):
    """`waited` is how long calls may have waited, in milliseconds; None if no agent was replaced."""

    agent: Running
    waited: float | None = None


class _NotifySocket:
    """Receives an agent's sd_notify messages. Its abstract name disappears with this process."""

    def __init__(self) -> None:
        name = f"netloom-up-{secrets.token_hex(8)}"
        self.address = f"@{name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(f"\0{name}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def received_from(self, process: int) -> dict[str, str]:
        """All variables that this process has sent since the last call."""
        said: dict[str, str] = {}
        with suppress(BlockingIOError):
            while True:
                data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(_CREDENTIALS.size))
                if any(_CREDENTIALS.unpack(it[2][: _CREDENTIALS.size])[0] == process for it in ancillary):
                    said |= dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
        return said


def start(place: Place, timeout: float, tell: Tell, *, take_over: bool = False) -> Started:
    """Starts an agent and waits until it serves. If it does not, stops it; a previous agent continues."""
    log = _opened_log(place)
    try:
        begin = os.fstat(log).st_size
        with _NotifySocket() as notifications:
            words = [*own_command(place, place.conf_dir), *(["--take-over"] if take_over else [])]
            process = _begun(words, log, notifications.address)
            try:
                said = _awaited(process, notifications, timeout, tell)
                if said is None:
                    raise _failure(process, place, begin, timeout)
                found = _answering(place, process)
            except BaseException:
                _end(process)
                raise
    except OperationFailed as error:
        raise _refused(place, error) if take_over else error from None
    finally:
        os.close(log)
    waited = said.get(_WAITED, "")
    return Started(found, int(waited) / 1000 if waited.isdecimal() else None)


def own_command(place: Place, conf_dir: str) -> list[str]:
    """The agent's command line. It does not use the name `netloom`, which may be another installation."""
    return [
        sys.executable, "-P", "-m", "netloom.cli.main", "agent",
        "--state-dir", place.state_dir, "--socket", place.socket, "--conf-dir", conf_dir,
    ]  # fmt: skip


def _begun(words: list[str], log: int, address: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    return subprocess.Popen(
        words,
        env={**environment, "NOTIFY_SOCKET": address},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        umask=0o077,
        start_new_session=True,
    )


def _opened_log(place: Place) -> int:
    """Opens the log for appending. Rotates a large one: it replaces the earlier log."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        make_directories(place.state_dir, 0o700)
        with suppress(FileNotFoundError):
            found = os.lstat(place.log)
            what = other_than_file(found.st_mode)
            if what is not None:
                raise _unwritable(place.log, f"it is {what}, not a file")
            if found.st_size > _LOG_MAX:
                os.rename(place.log, place.earlier_log)
        return os.open(place.log, flags, 0o600)
    except OSError as cause:
        raise _unwritable(place.log, cause.strerror) from None


def _unwritable(log: str, why: str | None) -> OperationFailed:
    return OperationFailed(
        f"cannot write to {log}: {why}", "fix that, or give another --state-dir", code="log-unwritable"
    )


def _awaited(
    process: subprocess.Popen[bytes], notifications: _NotifySocket, timeout: float, tell: Tell
) -> dict[str, str] | None:
    """The agent's variables when it was ready; None if it has ended, or after the timeout."""
    started = time.monotonic()
    with _handle(process) as handle:
        while (waited := time.monotonic() - started) <= timeout:
            tell(waited)
            select.select([notifications.fileno(), handle], [], [], min(_LOOK_EVERY, timeout - waited))
            said = notifications.received_from(process.pid)
            if said.get("READY") == "1":
                return said
            if process.poll() is not None:
                return None
    return None


@contextmanager
def _handle(process: subprocess.Popen[bytes]) -> Iterator[int]:
    handle = os.pidfd_open(process.pid)
    try:
        yield handle
    finally:
        os.close(handle)


def _answering(place: Place, process: subprocess.Popen[bytes]) -> Running:
    try:
        found = running(place)
    except AgentError as error:
        why = str(error)
    else:
        if found is not None:
            # A connection from before it was ready shows the process that listened then.
            return found._replace(process=process.pid)
        why = f"no process listens at {place.socket}"
    raise OperationFailed(
        f"the agent reported that it is ready, but does not answer: {why}",
        f"look at its log, {place.log}",
        code="agent-silent",
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_PARTING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _failure(process: subprocess.Popen[bytes], place: Place, begin: int, timeout: float) -> OperationFailed:
    if process.poll() is not None:
        return OperationFailed(
            f"the agent ended at once, {_how(process.returncode)}",
            f"fix the error that it reports; its log is {place.log}",
            code="agent-ended",
            said=_tail(place.log, begin),
        )
    return OperationFailed(
        f"the agent did not answer within {timeout:g} s, and was stopped",
        f"look at its log, {place.log}, or give it more time with --timeout",
        code="agent-slow",
        kind="deadline",
        said=_tail(place.log, begin),
    )


def _refused(place: Place, error: OperationFailed) -> OperationFailed:
    """The error, with what became of the agent that was to be replaced."""
    with suppress(AgentError):
        found = running(place)
        if found is not None:
            return OperationFailed(
                f"version {__version__} cannot take over: {error}. The agent of version {found.info.version} "
                "continues, and nothing was changed",
                error.advice,
                code="agent-not-replaced",
                kind=error.kind,
                said=error.said,
            )
    return error


def _how(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


def _tail(path: str, begin: int) -> list[str]:
    """The last lines that this agent logged, without those of earlier agents."""
    try:
        with open(path, "rb") as file:
            file.seek(max(begin, os.fstat(file.fileno()).st_size - 16384))
            return file.read().decode(errors="replace").splitlines()[-_TAIL:]
    except OSError:
        return []
