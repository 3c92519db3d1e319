"""Accepts client connections on the agent's socket.

There is one request per connection, bounded in size and time, so that no client can stall another. A client
may send many descriptors, exit in the middle or never finish. So each received descriptor belongs to its
client at once, and is closed with it.
"""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ...api.protocol import LENGTH, REQUEST_MAX, Message, ProtocolError, Reply, decode
from .listener import BACKLOG, Listener, share

# More descriptors than a plugin ever sends, so that surplus ones are received and closed.
_DESCRIPTORS = 8
_ANCILLARY = socket.CMSG_SPACE(_DESCRIPTORS * 4)
_CREDENTIALS = struct.Struct("3i")
# Enough for a usual request; the rest of a longer one is read in larger pieces.
_FIRST = 1 << 14
_CHUNK = 1 << 18
# How long a pause waits for clients that have sent no request or do not read their replies.
_MANNERS = 1.0
_LOOK_EVERY = 0.005
# Clients per descriptor: each needs a connection, a namespace, and some for the dataplane.
_SHARE = 4
# How long a client may take to send its request, even if others wait for its place.
_GRACE = 0.1
# Clients that are accepted in one round of the event loop.
_AT_ONCE = 256

# The RPC of an agent that wants to take over.
HANDOVER = "handover"

Serve = Callable[[Message, int | None, "Client"], Awaitable[Reply]]
Refuse = Callable[[str], Reply]
# Takes over the connection of a client that requests a handover.
Leave = Callable[[socket.socket, Message], None]


class Client:
    """One connection. It owns the descriptor `netns`.

    A plugin's request is nearly always complete at the first read, and its reply is sent at once: then the
    event loop needs neither a reader nor a timer for it.
    """

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self._server = server
        self._loop = server.loop
        self._socket = connection
        self._buffer = bytearray()
        self._wanted = -1
        self._descriptors: list[int] = []
        self._reply = b""
        # Called after the reply was sent, so that the client does not wait for it.
        self.afterwards: Callable[[], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.connected_at = self._loop.time()
        self._readable()
        if self._wanted != 0 and not self._is_closed and not self._reply:
            self._deadline = self._loop.call_later(server.patience, self._expire)
            self._loop.add_reader(connection, self._readable)

    @property
    def _is_closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def has_asked(self) -> bool:
        return self._wanted == 0 or bool(self._reply)

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has disconnected, so that no process waits for a reply."""
        if self._is_closed:
            return True
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    @property
    def process(self) -> int:
        """The client's process; 0 if it is in a PID namespace that is not visible here."""
        if self._is_closed:
            return 0
        credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[0])

    @property
    def netns(self) -> int | None:
        return self._descriptors[0] if self._descriptors else None

    def _expire(self) -> None:
        self._finish(self._server.refuse("the request did not arrive in time"))

    def make_room(self) -> None:
        """Disconnects a client that has sent no request, in favour of another."""
        self._finish(self._server.refuse("the request did not arrive in time, and others wait"))
        self.close()

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
            raise ProtocolError("the request has more than one file descriptor")
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("the agent has no free file descriptor for the container's namespace")
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
            self._server.has_asked(self)
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
        try:
            self._finish(reply)
        except BaseException:
            self.close()
            raise
        finally:
            if self.afterwards is not None:
                self.afterwards()

    def _finish(self, reply: Reply) -> None:
        """Sends the reply. A client that does not read it in time is disconnected."""
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

    def detach(self) -> socket.socket:
        """Returns the connection, which the caller owns from now on. This client is closed."""
        connection = socket.socket(fileno=self._socket.detach())
        self.close()
        return connection

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
    """Accepts clients from `listeners`. `serve` answers requests, `refuse` makes the reply to an invalid one.

    The server changes the caller's list when it has to replace a socket: it calls `made` with the new one and
    `dropped` with the old one.
    """

    def __init__(
        self,
        listeners: list[Listener],
        serve: Serve,
        refuse: Refuse,
        *,
        leave: Leave | None = None,
        made: Callable[[Listener], None] | None = None,
        dropped: Callable[[Listener], None] | None = None,
        limit: int | None = None,
        patience: float = 5.0,
    ) -> None:
        self.serve = serve
        self.refuse = refuse
        self.patience = patience
        self.loop = asyncio.get_running_loop()
        self._listeners = listeners
        self._leave = leave
        self._made = made
        self._dropped = dropped
        self._limit = limit or share(_SHARE)
        self._clients: set[Client] = set()
        # Clients that have sent no request yet, oldest first.
        self._expected: dict[Client, None] = {}
        self._again: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._accepting: list[Listener] = []

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    def open(self) -> None:
        """Starts to accept clients, from the event loop's next round on."""
        self._is_open = True
        for listener in self._listeners:
            listener.take()
        self._resume()

    def shut(self) -> None:
        """Stops accepting clients: new ones wait at the sockets. Accepted ones are still served."""
        self._is_open = False
        self._pause()

    def _resume(self) -> None:
        if not self._is_open or self._accepting:
            return
        if not self._has_room():
            self._look_again()
            return
        self._accepting = list(self._listeners)
        for listener in self._accepting:
            self.loop.add_reader(listener, self._accept, listener)

    def _look_again(self) -> None:
        """Tries again when the oldest client without a request is overdue."""
        if self._expected and self._again is None:
            self._again = self.loop.call_later(_GRACE, self._after_a_moment)

    def _after_a_moment(self) -> None:
        self._again = None
        self._resume()

    def _pause(self) -> None:
        accepting, self._accepting = self._accepting, []
        for listener in accepting:
            self.loop.remove_reader(listener)

    def _has_room(self) -> bool:
        return len(self._clients) < self._limit or self._overdue() is not None

    def _overdue(self) -> Client | None:
        """Returns the oldest client without a request, if it had enough time to send one."""
        first = next(iter(self._expected), None)
        return None if first is None or self.loop.time() - first.connected_at < _GRACE else first

    def _accept(self, listener: Listener, most: int = _AT_ONCE) -> None:
        for _ in range(most):
            if not self._has_room():
                break
            try:
                connection, _ = listener.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # Out of descriptors: clients wait until one is free.
                self._pause()
                self.loop.call_later(0.1, self._resume)
                return
            connection.setblocking(False)
            if not _is_root(connection):
                with suppress(OSError):
                    connection.send(self.refuse("only root may use the agent").encode())
                connection.close()
                continue
            try:
                client = Client(self, connection)
            except BaseException:
                connection.close()
                raise
            if connection.fileno() >= 0:
                self._take(client)
            if not self._is_open:
                return
        if not self._has_room():
            self._pause()
            self._look_again()

    def _take(self, client: Client) -> None:
        """Adds a client. If the server is full, it replaces one that has sent no request in time."""
        if len(self._clients) >= self._limit and (overdue := self._overdue()) is not None:
            overdue.make_room()
        self._clients.add(client)
        if not client.has_asked:
            self._expected[client] = None

    def begin(self, client: Client, message: Message) -> None:
        if message.head.question == HANDOVER and self._leave is not None:
            self._leave(client.detach(), message)
            return
        task = self.loop.create_task(client.serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.loop.call_exception_handler({"message": "a request failed", "exception": task.exception()})

    def has_asked(self, client: Client) -> None:
        self._expected.pop(client, None)

    def forget(self, client: Client) -> None:
        self._clients.discard(client)
        self._expected.pop(client, None)
        self._resume()

    @property
    def is_open(self) -> bool:
        return self._is_open

    def keep_in_place(self) -> bool:
        """Creates a new socket if the old one's file is missing. Returns whether that was needed.

        Clients that wait at the old one are served. A lent socket stays open beside the new one, because the
        service manager may still pass clients by it. Raises `SocketInUse`.
        """
        if any(listener.is_in_place() for listener in self._listeners):
            return False
        fresh = Listener.made(self._listeners[0].path)
        ours = [listener for listener in self._listeners if not listener.is_lent]
        for listener in ours:
            self._accept(listener, BACKLOG)
        self._pause()
        for listener in ours:
            self._listeners.remove(listener)
            if self._dropped is not None:
                self._dropped(listener)
            listener.close()
        self._listeners.insert(0, fresh)
        self._resume()
        if self._made is not None:
            self._made(fresh)
        return True

    async def pause(self, patience: float) -> bool:
        """Stops accepting clients and finishes requests in progress. Returns whether all ended in time.

        New clients wait at the sockets, which stay open.
        """
        self.shut()
        deadline = self.loop.time() + patience
        manners = self.loop.time() + _MANNERS
        while (now := self.loop.time()) < deadline and (self._tasks or self._clients):
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=deadline - now)
                manners = self.loop.time() + _MANNERS
            elif now < manners:
                await asyncio.sleep(_LOOK_EVERY)
            else:
                break
        return not self._tasks

    async def close(self, patience: float) -> None:
        """Closes the sockets and finishes requests in progress, which are never cancelled."""
        self.shut()
        for listener in self._listeners:
            listener.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience)
        self.dismiss()

    def dismiss(self) -> None:
        """Disconnects the remaining clients."""
        for client in list(self._clients):
            client.close()


def _is_root(connection: socket.socket) -> bool:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return uid in (0, os.geteuid())
