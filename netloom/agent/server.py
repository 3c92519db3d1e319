"""The agent's socket: many clients at a time, one request each, and nothing that one of them can break.

Descriptors are the danger: a client may send none or many, die in the middle, or never finish. So every
one that arrives is put under the client that brought it, at once, and closed with it.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

from .protocol import LENGTH, REQUEST_MAX, Message, ProtocolError, Reply, decode

# More descriptors than a plugin ever sends, so that what is too much is seen, and closed.
_DESCRIPTORS = 8
_ANCILLARY = socket.CMSG_SPACE(_DESCRIPTORS * 4)
_CREDENTIALS = struct.Struct("3i")
# Enough for a usual request; what is longer is read in larger pieces.
_FIRST = 1 << 14
_CHUNK = 1 << 18
BACKLOG = 4096

Serve = Callable[[Message, int | None, "Client"], Awaitable[Reply]]
Refuse = Callable[[str], Reply]


class SocketInUse(Exception):
    """Another agent answers there, or something that is no socket is in its place."""


class Client:
    """One connection. `netns` belongs to it, and goes with it.

    A plugin's request is nearly always whole when it is first looked at, and its reply is taken at once: then
    neither the loop's selector nor its clock has to know of it.
    """

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self._server = server
        self._loop = server.loop
        self._socket = connection
        self._buffer = bytearray()
        self._wanted = -1
        self._descriptors: list[int] = []
        self._reply = b""
        self._deadline: asyncio.TimerHandle | None = None
        self._readable()
        if self._wanted != 0 and not self._is_closed and not self._reply:
            self._deadline = self._loop.call_later(server.patience, self._expire)
            self._loop.add_reader(connection, self._readable)

    @property
    def _is_closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def gone(self) -> bool:
        """Whether it has hung up: nobody waits for an answer then."""
        if self._is_closed:
            return True
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    @property
    def netns(self) -> int | None:
        return self._descriptors[0] if self._descriptors else None

    def _expire(self) -> None:
        self._finish(self._server.refuse("the request did not arrive in time"))

    def _readable(self) -> None:
        try:
            self._receive()
        except (BlockingIOError, InterruptedError):
            return
        except ProtocolError as error:
            self._finish(self._server.refuse(str(error)))
        except OSError:
            self.close()

    def _receive(self) -> None:
        size = _FIRST if self._wanted < 0 else _CHUNK
        data, ancillary, flags, _ = self._socket.recvmsg(size, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(content[: len(content) - len(content) % 4])
                self._descriptors += received
        if len(self._descriptors) > 1 or (flags & socket.MSG_CTRUNC and self._descriptors):
            raise ProtocolError("more descriptors than the one of the namespace")
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("the agent has no descriptor left to take the namespace's with")
        if not data:
            self.close()
            return
        self._buffer += data
        if self._wanted < 0 and len(self._buffer) >= LENGTH.size:
            (self._wanted,) = LENGTH.unpack_from(self._buffer)
            if not LENGTH.size <= self._wanted <= REQUEST_MAX:
                raise ProtocolError(f"a request cannot have {self._wanted} bytes")
        if self._wanted > 0 and len(self._buffer) >= LENGTH.size + self._wanted:
            frame = bytes(self._buffer[LENGTH.size : LENGTH.size + self._wanted])
            self._buffer.clear()
            self._wanted = 0
            self._listen_no_more()
            self._server.begin(self, decode(frame))

    def _listen_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._loop.remove_reader(self._socket)

    async def serve(self, message: Message) -> None:
        try:
            reply = await self._server.serve(message, self.netns, self)
        except BaseException:
            self.close()
            raise
        self._finish(reply)

    def _finish(self, reply: Reply) -> None:
        """Sends the reply, and waits no longer for a client that does not take it."""
        self._close_descriptors()
        if self._is_closed:
            return
        self._listen_no_more()
        self._reply = reply.encode()
        self._send()
        if self._reply and not self._is_closed:
            self._deadline = self._loop.call_later(self._server.patience, self.close)
            self._loop.add_writer(self._socket, self._send)

    def _send(self) -> None:
        try:
            sent = self._socket.send(self._reply, socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        self._reply = self._reply[sent:]
        if not self._reply:
            self.close()

    def _close_descriptors(self) -> None:
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)

    def close(self) -> None:
        self._close_descriptors()
        if not self._is_closed:
            if self._deadline is not None:
                self._deadline.cancel()
                self._loop.remove_reader(self._socket)
                self._loop.remove_writer(self._socket)
            self._socket.close()
        self._server.forget(self)


class Server:
    """Listens at `path`. `serve` answers requests, `refuse` makes the reply to what is none."""

    def __init__(
        self, path: str, serve: Serve, refuse: Refuse, *, limit: int = 1024, patience: float = 5.0
    ) -> None:
        self.path = path
        self.serve = serve
        self.refuse = refuse
        self.patience = patience
        self.loop = asyncio.get_running_loop()
        self._limit = limit
        self._clients: set[Client] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = False
        self._socket = _listening(path)
        self._inode = os.stat(path, follow_symlinks=False).st_ino
        self._resume()

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    def _resume(self) -> None:
        if not self._accepting and self._socket.fileno() >= 0 and len(self._clients) < self._limit:
            self._accepting = True
            self.loop.add_reader(self._socket, self._accept)

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            self.loop.remove_reader(self._socket)

    def _accept(self) -> None:
        while len(self._clients) < self._limit:
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # Out of descriptors: whoever waits, waits until one is free.
                self._pause()
                self.loop.call_later(0.1, self._resume)
                return
            connection.setblocking(False)
            if not _is_root(connection):
                with suppress(OSError):
                    connection.send(self.refuse("only root may ask the agent").encode())
                connection.close()
                continue
            try:
                client = Client(self, connection)
            except BaseException:
                connection.close()
                raise
            if connection.fileno() >= 0:
                self._clients.add(client)
        self._pause()

    def begin(self, client: Client, message: Message) -> None:
        task = self.loop.create_task(client.serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.loop.call_exception_handler({"message": "a request failed", "exception": task.exception()})

    def forget(self, client: Client) -> None:
        self._clients.discard(client)
        self._resume()

    def keep_in_place(self) -> None:
        """Somebody may have removed the socket: whoever waits at it is served, and a new one is made."""
        if self._socket.fileno() < 0 or self._is_in_place():
            return
        try:
            fresh = _listening(self.path)
        except SocketInUse:
            return
        self._accept()
        self._pause()
        self._socket.close()
        self._socket = fresh
        self._inode = os.stat(self.path, follow_symlinks=False).st_ino
        self._resume()

    def _is_in_place(self) -> bool:
        try:
            return os.stat(self.path, follow_symlinks=False).st_ino == self._inode
        except OSError:
            return False

    async def close(self, patience: float) -> None:
        """Takes no more clients, and finishes what it began: that is never given up half way."""
        self._pause()
        with suppress(OSError):
            if self._is_in_place():
                os.unlink(self.path)
        self._socket.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience)
        for client in list(self._clients):
            client.close()


def _is_root(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return uid in (0, os.geteuid())


def _listening(path: str) -> socket.socket:
    """Appears at its place in one step, over what an agent that was killed has left there."""
    _require_nobody(path)
    spare = f"{path}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        with suppress(FileNotFoundError):
            os.unlink(spare)
        before = os.umask(0o177)
        try:
            listener.bind(spare)
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
        os.rename(spare, path)
    except OSError as cause:
        listener.close()
        with suppress(OSError):
            os.unlink(spare)
        raise SocketInUse(f"cannot listen at {path}: {cause.strerror or cause}") from None
    return listener


def _require_nobody(path: str) -> None:
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketInUse(f"{path} is there and is no socket; it was left alone: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass
    raise SocketInUse(f"another agent answers at {path}: stop that one first (`netloom down`)")
