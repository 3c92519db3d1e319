"""The client of the agent's socket: one RPC, one answer, and a deadline."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from typing import Self

import msgspec

from .paths import is_trusted_user
from .protocol import LENGTH, VERSION, Head, Info, Refusal, encode

_CREDENTIALS = struct.Struct("3i")
_LARGEST = 16 << 20
# Seconds between two attempts to connect while the socket's queue is full.
_PAUSE = 0.01


class AgentError(Exception):
    """The agent could not be reached, or refused the RPC."""


class NotRunning(AgentError):
    """No process listens at the socket."""


class Untrusted(NotRunning):
    """A process of another user listens at the socket. The plugin does not contact it either."""

    def __init__(self, path: str, process: int, user: int) -> None:
        who = f"process {process}" if process else "a process"
        super().__init__(f"{who} of UID {user} listens at {path}, but is not an agent: agents run as root")
        self.process = process


class UnknownRPC(AgentError):
    """The agent is of an earlier version, which does not know the RPC."""


class Silent(AgentError):
    """A process listens, but did not answer in time. `process` is its PID, or 0 if that is unknown."""

    def __init__(self, text: str, process: int = 0) -> None:
        super().__init__(text)
        self.process = process


class _ForPlugin(msgspec.Struct):
    """The CNI error with which an agent answers an invalid request."""

    msg: str


class Connection:
    """A connection to the agent at `path`. All answers must arrive within `timeout` seconds."""

    def __init__(self, path: str, timeout: float) -> None:
        self.path = path
        self._deadline = time.monotonic() + timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect()
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except BaseException:
            self._socket.close()
            raise
        # The listening process. 0: it is in another PID namespace.
        process, user, _ = _CREDENTIALS.unpack(credentials)
        if not is_trusted_user(user):
            self._socket.close()
            raise Untrusted(path, process, user)
        self.process: int = process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def info(self) -> Info:
        try:
            return msgspec.json.decode(self.ask("info"), type=Info)
        except msgspec.MsgspecError as cause:
            raise AgentError(f"the process at {self.path} is not a netloom agent: {cause}") from None

    def ask(self, rpc: str, arguments: bytes = b"") -> bytes:
        try:
            self._set_patience()
            self._socket.sendall(encode(Head(protocol=VERSION, question=rpc), arguments))
            (size,) = LENGTH.unpack(self._receive(LENGTH.size))
            if not 1 <= size <= _LARGEST:
                raise AgentError(f"the process at {self.path} is not a netloom agent")
            reply = self._receive(size)
        except TimeoutError:
            raise self._silent() from None
        except OSError as cause:
            raise AgentError(
                f"the agent at {self.path} closed the connection: {cause.strerror or cause}"
            ) from None
        if reply[0] != 0:
            raise self._refused(reply[1:])
        return reply[1:]

    def _connect(self) -> None:
        while True:
            try:
                self._set_patience()
                self._socket.connect(self.path)
                return
            except BlockingIOError:
                time.sleep(_PAUSE)
            except TimeoutError:
                raise self._silent() from None
            except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
                raise NotRunning(f"no agent answers at {self.path}") from None
            except OSError as cause:
                raise AgentError(
                    f"cannot reach the agent at {self.path}: {cause.strerror or cause}"
                ) from None

    def _set_patience(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            self._set_patience()
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise AgentError(f"the agent at {self.path} closed the connection")
            received += chunk
        return received

    def _silent(self) -> Silent:
        process = getattr(self, "process", 0)
        who = f" (process {process})" if process else ""
        return Silent(f"the agent at {self.path}{who} does not answer", process)

    def _refused(self, output: bytes) -> AgentError:
        before = f"the agent at {self.path} refused"
        with suppress(msgspec.MsgspecError):
            refusal = msgspec.json.decode(output, type=Refusal)
            kind = UnknownRPC if refusal.code is None else AgentError
            return kind(f"{before}: {refusal.error}")
        with suppress(msgspec.MsgspecError):  # an invalid request is answered as if the plugin had sent it
            return AgentError(f"{before}: {msgspec.json.decode(output, type=_ForPlugin).msg}")
        return AgentError(f"{before}: {output.decode(errors='replace')[:200]}")
