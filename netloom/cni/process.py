"""One run of a plugin's executable, without an opinion on who waits.

`PluginProcess` owns the child and its pipes and does what can be done at once; `run` waits
with poll(2), `netloom.cni.aio` with an event loop. The child leads a process group of its own,
so that a deadline ends its helpers, too. It counts as finished when it exits, even if somebody
it left behind keeps the pipes open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from collections.abc import Mapping

from msgspec import Struct

from .errors import DeadlineExceeded, DecodingFailure, IOFailure
from .wire import DOCUMENT_MAX

STDERR_MAX = 1024 * 1024
_CHUNK = 65536
_KILL_WAIT_MS = 5000
_INTERRUPTING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Output(Struct, frozen=True):
    """How a plugin ended: 0 or its exit status, or the negative number of a signal."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def ending(self) -> str:
        """In the words that Go's libcni uses, for those who look for them in logs."""
        if self.status >= 0:
            return f"exit status {self.status}"
        return f"signal: {signal.strsignal(-self.status) or -self.status}".lower()


class PluginProcess:
    def __init__(self, path: str, stdin: bytes, env: Mapping[str, str]) -> None:
        self._pid = -1
        self._pidfd = -1
        self._stdin = self._stdout = self._stderr = -1
        self._unwritten = memoryview(stdin)
        self._collected: dict[int, bytearray] = {}
        self._status: int | None = None
        theirs: list[int] = []
        try:
            stdin_read, self._stdin = _pipe()
            theirs.append(stdin_read)
            self._stdout, stdout_write = _pipe()
            theirs.append(stdout_write)
            self._stderr, stderr_write = _pipe()
            theirs.append(stderr_write)
            for fd in (self._stdin, self._stdout, self._stderr):
                os.set_blocking(fd, False)
            self._collected = {self._stdout: bytearray(), self._stderr: bytearray()}
            self._write()  # a pipe holds 64 KiB: nearly every request fits before the child exists
            self._pid = os.posix_spawn(
                path,
                [path],
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)],
                setpgroup=0,
                setsigmask=(),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them, plugins should not
            )
            self._pidfd = os.pidfd_open(self._pid)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)

    @property
    def readers(self) -> tuple[int, ...]:
        """Descriptors to watch for reading."""
        return (self._stdout, self._stderr, self._pidfd)

    @property
    def writer(self) -> int:
        """The descriptor to watch for writing, or -1."""
        return self._stdin

    def handle(self, fd: int) -> bool:
        """Does what a ready descriptor allows. True: no need to watch this one any more."""
        if fd == self._stdin:
            self._write()
            return self._stdin < 0
        if fd == self._pidfd:
            for pipe in self._collected:
                self._read(pipe)
            self._reap()
            return True
        return self._read(fd)

    @property
    def output(self) -> Output | None:
        """What the plugin left, once it has ended."""
        if self._status is None:
            return None
        return Output(
            self._status, bytes(self._collected[self._stdout]), bytes(self._collected[self._stderr])
        )

    def _write(self) -> None:
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # a plugin need not read its input; what it then does is its answer
        os.close(self._stdin)
        self._stdin = -1

    def _read(self, fd: int) -> bool:
        collected = self._collected[fd]
        while True:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return False
            if not chunk:
                return True
            if fd == self._stdout:
                if len(collected) + len(chunk) > DOCUMENT_MAX:
                    raise DecodingFailure(f"the plugin printed more than {DOCUMENT_MAX >> 20} MiB")
                collected += chunk
            else:
                collected += chunk[: STDERR_MAX - len(collected)]

    def _reap(self) -> None:
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:
            raise IOFailure("the plugin's exit status was lost: SIGCHLD is ignored in this process") from None
        finally:
            self._pid = -1
        self._status = os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Ends the whole process group if the plugin still runs, and lets go of everything."""
        if self._pid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            if self._pidfd >= 0:
                poller = select.poll()
                poller.register(self._pidfd, select.POLLIN)
                poller.poll(_KILL_WAIT_MS)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)
            self._pid = -1
        for fd in (self._stdin, self._stdout, self._stderr, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self._stdin = self._stdout = self._stderr = self._pidfd = -1


def run(path: str, stdin: bytes, env: Mapping[str, str], deadline: float) -> Output:
    """Runs a plugin and waits for its end, or until `deadline` (of the monotonic clock)."""
    # A signal handler that raises must not do so between the child's start and our taking care of it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTING)
    process = None
    try:
        process = PluginProcess(path, stdin, env)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        poller = select.poll()
        for fd in process.readers:
            poller.register(fd, select.POLLIN)
        if process.writer >= 0:
            poller.register(process.writer, select.POLLOUT)
        while (output := process.output) is None:
            ready = poller.poll(_milliseconds_until(deadline))
            if not ready and time.monotonic() >= deadline:
                raise DeadlineExceeded("the plugin did not answer in time and was killed")
            for fd, _ in ready:
                if process.handle(fd):
                    poller.unregister(fd)
        return output
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if process is not None:
            process.close()


def _milliseconds_until(deadline: float) -> int | None:
    if deadline == float("inf"):
        return None
    return max(0, min(int((deadline - time.monotonic()) * 1000) + 1, 1 << 30))


def _pipe() -> tuple[int, int]:
    """A pipe above the standard descriptors, which the child's are to be laid over."""
    read, write = os.pipe2(os.O_CLOEXEC)
    return _above_standard(read), _above_standard(write)


def _above_standard(fd: int) -> int:
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)
