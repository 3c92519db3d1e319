"""The plugin side of CNI: a plugin is a module with decorated functions.

    from netloom.cni.plugin import Plugin, Request, Result

    plugin = Plugin("hello")

    @plugin.add
    def add(request: Request) -> Result:
        ...

    if __name__ == "__main__":
        plugin.main()

The order in which a request is judged, the codes and the sentences are those of Go's skel
package. Three things are better on purpose: the plugin's own namespace as a target is refused
before the callback has done anything, an error carries the config's version as the
specification wants it, and what a callback prints cannot spoil the answer.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from . import skel, versions, wire
from .errors import CNIError, DecodingFailure, InternalError, InvalidConfig, InvalidNetns, IOFailure
from .result import DNS, IP, AnyResult, Interface, Result, Route, empty_result
from .skel import Request

__all__ = [
    "DNS",
    "IP",
    "CNIError",
    "Interface",
    "InvalidConfig",
    "Plugin",
    "Request",
    "Result",
    "Route",
    "inside",
]

Callback = TypeVar("Callback", bound=Callable[[Request], AnyResult | None])


class Plugin:
    """Dispatches the runtime's requests to the functions that are decorated with its verbs.

    A verb without a function succeeds and does nothing. ADD returns a result of any version, which is printed
    in the configuration's version. An ADD that returns None passes on the result of the plugin before.
    """

    def __init__(self, name: str, *, about: str = "", supported: tuple[str, ...] = versions.ALL) -> None:
        self.name = name
        self.about = about or f"CNI {name} plugin"
        self.supported = supported
        self._callbacks: dict[str, Callable[[Request], AnyResult | None]] = {}

    def add(self, function: Callback) -> Callback:
        return self._register("ADD", function)

    def check(self, function: Callback) -> Callback:
        return self._register("CHECK", function)

    def delete(self, function: Callback) -> Callback:
        return self._register("DEL", function)

    def gc(self, function: Callback) -> Callback:
        return self._register("GC", function)

    def status(self, function: Callback) -> Callback:
        return self._register("STATUS", function)

    def _register(self, verb: str, function: Callback) -> Callback:
        if verb in self._callbacks:
            raise ValueError(f"{self.name} already has a function for {verb}")
        self._callbacks[verb] = function
        return function

    def main(self) -> NoReturn:
        """Answers the request in the process's environment and standard input, and exits."""
        # From here on, other output goes to stderr: only the answer belongs on stdout.
        answer = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        try:
            os.dup2(2, 1)
        except OSError:  # there is no stderr
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status, output = self.answer(os.environ, _read_stdin)
        try:
            while output:
                output = output[os.write(answer, output) :]
        except OSError:
            status = 1  # the runtime has closed the pipe
        sys.exit(status)

    def answer(self, environ: Mapping[str, str], stdin: Callable[[], bytes]) -> tuple[int, bytes]:
        """Returns the exit status and the standard output for a request."""
        if not environ.get("CNI_COMMAND") and self.about:
            print(
                f"{self.about}\nCNI protocol versions supported: {', '.join(self.supported)}", file=sys.stderr
            )
            return 0, b""
        version = versions.CURRENT
        try:
            command = skel.judge_environment(environ)
            if command == "VERSION":
                return 0, self._version_object()
            source = stdin()
            config = skel.judge_config(source)
            version = config.get("cniVersion") or versions.UNDECLARED
            skel.judge_version(command, version, self.supported)
            return 0, self._call(skel.request_of(command, environ, config, source), version)
        except CNIError as error:
            return 1, skel.error_object(error, version)
        except BaseException as error:  # also sys.exit() in a callback: the runtime needs an answer
            import traceback

            traceback.print_exc()
            return 1, skel.error_object(InternalError(f"{type(error).__name__}: {error}"), version)

    def _call(self, request: Request, version: str) -> bytes:
        callback = self._callbacks.get(request.command)
        if callback is None:
            return b""
        override = request.environ.get("CNI_NETNS_OVERRIDE", "").upper() in ("1", "TRUE")
        if request.command in ("ADD", "DEL") and not override and is_own(request.netns):
            raise InvalidNetns("plugin's netns and netns from CNI_NETNS should not be the same")
        result = callback(request)
        if request.command != "ADD":
            return b""
        result = result or request.prev_result or empty_result(version)
        return wire.indent(result.as_version(version).encode())

    def _version_object(self) -> bytes:
        return wire.encode({"cniVersion": versions.CURRENT, "supportedVersions": self.supported}) + b"\n"


def _read_stdin() -> bytes:
    chunks = []
    size = 0
    try:
        while chunk := os.read(0, 65536):
            size += len(chunk)
            if size > wire.DOCUMENT_MAX:
                raise DecodingFailure(
                    f"the network config on stdin is larger than {wire.DOCUMENT_MAX >> 20} MiB"
                )
            chunks.append(chunk)
    except OSError as cause:
        raise IOFailure(f"error reading from stdin: {cause.strerror}") from cause
    return b"".join(chunks)


_OWN = "/proc/thread-self/ns/net"
_CLONE_NEWNET = 0x40000000


def is_own(path: str) -> bool:
    """Says whether a path is the namespace of this process. A dangling path is not."""
    try:
        return os.path.samestat(os.stat(path), os.stat(_OWN))
    except (OSError, ValueError):
        return False


@contextmanager
def inside(path: str) -> Iterator[None]:
    """Runs the block inside a namespace and moves back. Only the calling thread moves.

    Do not use it on an event loop's thread: everything else that runs there meanwhile would move, too.
    """
    home = _open(_OWN)
    try:
        target = _open(path)
        try:
            _enter(target, path)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _enter(home, _OWN)
    finally:
        os.close(home)


def _open(path: str) -> int:
    try:
        # Non-blocking: a FIFO in the place of a namespace is refused below without waiting.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else cause
        raise InvalidNetns(f"cannot open network namespace {path}: {reason}") from cause


def _enter(fd: int, path: str) -> None:
    try:
        _setns(fd)
    except OSError as cause:
        raise InvalidNetns(f"cannot enter {path}: not a network namespace ({cause.strerror})") from cause


def _setns(fd: int) -> None:
    if hasattr(os, "setns"):  # from Python 3.12
        os.setns(fd, _CLONE_NEWNET)
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
