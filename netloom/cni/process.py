"""One run of a plugin's executable, independent of how the caller waits.

`PluginProcess` owns the child and its pipes and does everything that does not wait; `run` waits with poll(2),
`netloom.cni.aio` with an event loop. The child leads a process group of its own, so that a deadline kills its
helpers, too. It counts as finished when it exits, even if a process it left behind keeps the pipes open.
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
# One read takes at most a pipe's capacity, so that a flood of output does not keep others waiting.
_READ_MAX = 1024 * 1024
# SIGKILL ends a process in a millisecond, unless it hangs in the kernel.
_KILL_WAIT = 5.0
_POLL_MAX = 1e6  # seconds; poll(2) counts milliseconds in an int
# The signals that programs have handlers for. Not all of them: each costs half a microsecond a call.
_SIGNALS = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGALRM,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)


class Output(Struct, frozen=True):
    """How a plugin ended: its exit status, or the negative number of a signal."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def ending(self) -> str:
        """The ending in the words of Go's libcni, for users who search logs for them."""
        if self.status >= 0:
            return f"exit status {self.status}"
        return f"signal: {signal.strsignal(-self.status) or -self.status}".lower()


class PluginProcess:
    """`own_group` is false for a delegate: it stays in the group of its plugin, and is killed with it.

    At a deadline of its own, only the delegate itself is killed, not what it started.
    """

    def __init__(self, path: str, stdin: bytes, env: Mapping[str, str], *, own_group: bool = True) -> None:
        self._pid = -1
        self._pidfd = -1
        self._stdin = self._stdout = self._stderr = -1
        self._own_group = own_group
        self._unwritten = memoryview(stdin)
        self._collected: dict[int, bytearray] = {}
        self._status: int | None = None
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            raise IOFailure("plugins cannot be run while this process ignores SIGCHLD: their status is lost")
        try:
            self._spawn(path, env)
        except BaseException:
            self.close()
            raise

    def _spawn(self, path: str, env: Mapping[str, str]) -> None:
        theirs: list[int] = []
        try:
            reader, self._stdin = _pipe()
            theirs.append(reader)
            self._stdout, writer = _pipe()
            theirs.append(writer)
            self._stderr, writer = _pipe()
            theirs.append(writer)
            for fd in (self._stdin, self._stdout, self._stderr):
                os.set_blocking(fd, False)
            self._collected = {self._stdout: bytearray(), self._stderr: bytearray()}
            self._write()  # a pipe holds 64 KiB: nearly every request fits before the child exists
            self._pid = os.posix_spawn(
                path,
                [path],
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)],
                setpgroup=0 if self._own_group else os.getpgrp(),
                setsigmask=(),
                # Python ignores the first two, a caller may ignore the third; plugins should not.
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD),
            )
        finally:
            for fd in theirs:
                os.close(fd)
        self._pidfd = os.pidfd_open(self._pid)

    @property
    def readers(self) -> tuple[int, ...]:
        """Descriptors to watch for reading."""
        return (self._stdout, self._stderr, self._pidfd)

    @property
    def writer(self) -> int:
        """The descriptor to watch for writing, or -1."""
        return self._stdin

    def handle(self, fd: int) -> bool:
        """Does what a ready descriptor allows. True means that it needs no more watching."""
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
        """Returns the plugin's output, once it has ended."""
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
            pass  # a plugin need not read its input; its answer shows what it did
        done, self._stdin = self._stdin, -1
        os.close(done)

    def _read(self, fd: int) -> bool:
        """Collects the available output. True at the end of the stream."""
        collected = self._collected[fd]
        for _ in range(_READ_MAX // _CHUNK):
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
        return False

    def _reap(self) -> None:
        pid, self._pid = self._pid, -1
        try:
            _, status = os.waitpid(pid, 0)
        except ChildProcessError:
            raise IOFailure(
                "the plugin's exit status was lost: other code in this process waits for its children"
            ) from None
        self._status = os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """Kills the plugin and, with its group, what it started. Does nothing if it has ended."""
        if self._pid <= 0:
            return
        # A plugin that left its group, or that runs as another user, is no error here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._own_group:
                os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Waits for a killed plugin; returns whether it ended."""
        deadline = time.monotonic() + seconds
        while self._pid > 0:
            try:
                ended, _ = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                ended = self._pid
            if ended:
                self._pid = -1
            elif (left := deadline - time.monotonic()) <= 0:
                return False
            elif self._pidfd >= 0:
                poller = select.poll()
                poller.register(self._pidfd, select.POLLIN)
                poller.poll(left * 1000)
            else:
                time.sleep(min(left, 0.002))
        return True

    def close(self) -> None:
        """Kills the plugin if it still runs, and closes its pipes."""
        self.kill()
        self.wait(_KILL_WAIT)
        self._pid = -1
        open_fds = (self._stdin, self._stdout, self._stderr, self._pidfd)
        # Forgotten before they are closed: whatever interrupts this, no descriptor is closed twice.
        self._stdin = self._stdout = self._stderr = self._pidfd = -1
        for fd in open_fds:
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        # A signal handler may have raised at any moment, even during `close`.
        self.close()


def run(
    path: str, stdin: bytes, env: Mapping[str, str], deadline: float, *, own_group: bool = True
) -> Output:
    """Runs a plugin and waits for its end, or until `deadline` (of the monotonic clock)."""
    # A signal handler that raises must not do so between the child's start and our care for it,
    # nor a second one between us and the child's end. (With several threads, Python may run the
    # handler here all the same; then the process object ends its child when it is let go.)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        process = PluginProcess(path, stdin, env, own_group=own_group)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return _attend(process, path, deadline)
        finally:
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            finally:
                process.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _attend(process: PluginProcess, path: str, deadline: float) -> Output:
    poller = select.poll()
    for fd in process.readers:
        poller.register(fd, select.POLLIN)
    if process.writer >= 0:
        poller.register(process.writer, select.POLLOUT)
    while (output := process.output) is None:
        ready = poller.poll(_milliseconds_until(deadline))
        if not ready and time.monotonic() >= deadline:
            raise out_of_time(path)
        for fd, _ in ready:
            if process.handle(fd):
                poller.unregister(fd)
    return output


def out_of_time(path: str) -> DeadlineExceeded:
    return DeadlineExceeded(f"{os.path.basename(path)} did not answer in time and was killed")


def _milliseconds_until(deadline: float) -> int | None:
    left = deadline - time.monotonic()
    return None if left > _POLL_MAX else max(0, int(left * 1000) + 1)


def _pipe() -> tuple[int, int]:
    """Returns a pipe above the standard descriptors, since the child's replace those."""
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        read = _above_standard(read)
        write = _above_standard(write)
    except OSError:
        os.close(read)
        os.close(write)
        raise
    return read, write


def _above_standard(fd: int) -> int:
    if fd > 2:
        return fd
    higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return higher
