"""A netlink socket with one request in progress at a time.

A connection always works in the namespace in which it was opened. It belongs to one thread. Sending runs the
whole request in the kernel and blocks, even on a non-blocking socket, so an event loop's thread must not use
a connection.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from ..errors import KernelError, OutcomeUnknown, Refused
from . import message
from .message import ACK, DUMP, DUMP_INTERRUPTED, HEADER, REQUEST, NetlinkMessage

ROUTE, NETFILTER, GENERIC = 0, 12, 16

# Dumps of addresses, routes, neighbours and rules. Query and answer begin with the family.
_LISTED_BY_FAMILY = frozenset({22, 26, 30, 34})

_SOL_NETLINK = 270
_ADD_MEMBERSHIP, _CAP_ACK, _EXT_ACK, _STRICT_CHECK = 1, 10, 11, 12
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_SIOCGIFNAME, _SIOCGIFINDEX = 0x8910, 0x8933
_SIOCETHTOOL, _ETHTOOL_GLINK = 0x8946, 0xA
_IFDATA, _ETHTOOL = struct.Struct("@16sP16x"), struct.Struct("=II")
_SO_ATTACH_FILTER, _SO_NETNS_COOKIE = 26, 71
_BPF = struct.Struct("=HBBI")
_LOAD_WORD, _LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
_IFREQ = struct.Struct("=16si20x")
_FINE = struct.Struct("=IHHIIi")  # header and error number of an acknowledgement

# The kernel answers while it handles the request; after this long, no answer will come.
_PATIENCE = struct.pack("ll", 30, 0)
_BUFFER = 1 << 16
# A dump is interrupted when its objects change meanwhile; during a storm of changes, often.
_DUMP_TRIES = 50


class NetlinkConnection:
    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._sequence = 0
        self._interrupted = False
        self._settled = True
        self._port: int = own.getsockname()[0]
        self._buffer = bytearray(_BUFFER)

    @classmethod
    def open(
        cls,
        protocol: int = ROUTE,
        groups: tuple[int, ...] = (),
        receive_buffer: int | None = None,
        only: tuple[int, ...] = (),
        ignoring: tuple[int, ...] = (),
    ) -> Self:
        """Opens a connection in the namespace of the calling thread; with groups, it also receives
        notifications.

        With `only`, the kernel drops notifications of other types and wakes no thread for them; it also drops
        those of changes that the sockets with the ports `ignoring` requested.
        """
        try:
            own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        except OSError as cause:
            raise _failure(cause) from None
        try:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
            for option in (_CAP_ACK, _EXT_ACK, _STRICT_CHECK):
                own.setsockopt(_SOL_NETLINK, option, 1)
            if receive_buffer is not None:
                own.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, receive_buffer)
            own.bind((0, 0))
            # From now on only the kernel can send to this socket; a pod could forge answers to a socket in
            # its namespace.
            own.connect((0, 0))
            if only:
                _filter(own, only, ignoring)
            for group in groups:
                own.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        except OSError as cause:
            own.close()
            raise _failure(cause) from None
        except BaseException:
            own.close()
            raise
        return cls(own)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def port(self) -> int:
        """Returns its address among the netlink sockets of its namespace."""
        return self._port

    def change(self, kind: int, flags: int, payload: bytes) -> None:
        """Sends a request and waits for its acknowledgement."""
        sequence = self._send(kind, flags | ACK, payload)
        try:
            self._await(sequence)
        except Refused:
            raise
        except KernelError as error:
            if error.errno != errno.ETIMEDOUT:
                raise
            raise OutcomeUnknown(str(error), errno=errno.ETIMEDOUT) from None

    def transact(self, requests: Sequence[tuple[int, int, bytes]]) -> None:
        """Sends requests of which the kernel executes all or none, as one datagram. Raises the first refusal.

        The kernel sends refusals unasked. Let only the last request ask for an answer: a few hundred answers
        would not fit the socket's buffer.
        """
        if not self._settled:
            self._drain()
        self._settled = False
        parts: list[bytes] = []
        ours: set[int] = set()
        awaited: set[int] = set()
        for kind, flags, payload in requests:
            self._sequence = sequence = (self._sequence + 1) & 0xFFFFFFFF
            ours.add(sequence)
            if flags & ACK:
                awaited.add(sequence)
            parts += (
                HEADER.pack(16 + len(payload), kind, flags | REQUEST, sequence, 0),
                payload,
                bytes(-len(payload) % 4),
            )
        self._send_large(b"".join(parts))
        lost: OutcomeUnknown | None = None
        while awaited:
            try:
                size = self._receive(socket.MSG_DONTWAIT if lost else 0)
            except OutcomeUnknown as cause:
                # Some answers did not fit. Nearly all are refusals, and the first one is among those that
                # fit.
                lost = cause
                continue
            except KernelError as error:
                if error.errno == errno.ETIMEDOUT:
                    raise lost or OutcomeUnknown(str(error), errno=errno.ETIMEDOUT) from None
                raise
            for found in message.split(bytes(memoryview(self._buffer)[:size])):
                if found.kind == message.ERROR and found.port == self._port and found.sequence in ours:
                    refused = message.verdict(found)
                    if refused is not None:
                        raise refused
                    awaited.discard(found.sequence)
        self._settled = lost is None

    def _send_large(self, datagram: bytes) -> None:
        try:
            try:
                self._socket.send(datagram)
            except OSError as cause:
                if cause.errno != errno.EMSGSIZE:
                    raise
                # The kernel has only checked the datagram's size.
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, len(datagram))
                self._socket.send(datagram)
        except OSError as cause:
            raise _failure(cause) from None

    def _await(self, sequence: int) -> None:
        size = self._receive()
        if size >= _FINE.size:
            # The first message is nearly always the acknowledgement.
            _, found, _, answered, _, number = _FINE.unpack_from(self._buffer)
            if answered == sequence and found == message.ERROR and number == 0:
                self._settled = True
                return
        self._answers(sequence, size)

    def ask(self, kind: int, payload: bytes, flags: int = 0) -> bytes | None:
        """Returns the payload of the answer to a query about one object."""
        found = self._question(kind, flags | ACK, payload)
        return found[0] if found else None

    def ask_for_several(self, kind: int, payload: bytes) -> list[bytes]:
        """Returns the payloads of the answers to a query about several objects, which must all exist."""
        return self._question(kind, ACK, payload)

    def dump(self, kind: int, payload: bytes) -> list[bytes]:
        """Returns the payloads of all objects. Repeats a dump that was interrupted."""
        for _ in range(_DUMP_TRIES):
            self._interrupted = False
            found = self._question(kind, DUMP, payload)
            if not self._interrupted:
                return self._of_family(kind, payload, found)
        raise KernelError(
            f"a dump was interrupted {_DUMP_TRIES} times: what it lists changes too fast", errno=errno.EINTR
        )

    def _of_family(self, kind: int, question: bytes, found: list[bytes]) -> list[bytes]:
        """Checks the family: a kernel without it (ipv6.disable=1) answers with those of other families."""
        if not found or not question[0] or found[0][0] == question[0]:
            return found
        if self._socket.proto != ROUTE or kind not in _LISTED_BY_FAMILY:
            return found
        return [payload for payload in found if payload[0] == question[0]]

    @property
    def netns_cookie(self) -> int:
        """Returns the number of its namespace, which is unique until the next boot. 0: unknown."""
        try:
            return int.from_bytes(
                self._socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), sys.byteorder
            )
        except OSError:  # before Linux 5.14
            return 0

    def index(self, name: str) -> int:
        """Returns the index of a link by an ioctl, which is cheaper than a netlink query."""
        packed = name.encode()
        if len(packed) > 15:  # the ioctl would truncate the name
            raise Refused(errno.ENODEV, context=f"link {name[:40]}")
        try:
            answer = fcntl.ioctl(self._socket, _SIOCGIFINDEX, _IFREQ.pack(packed, 0))
        except OSError as cause:
            raise Refused(cause.errno or errno.ENODEV, context=f"link {name}") from None
        except ValueError:
            raise _closed() from None
        return int(_IFREQ.unpack(answer)[1])

    def settle(self, name: str) -> None:
        """Lets a link send, if its carrier is up. Otherwise the kernel would do so only some time later.

        Since Linux 6.8, querying the carrier has this effect.
        """
        import ctypes  # most callers do not need this module

        question = ctypes.create_string_buffer(_ETHTOOL.pack(_ETHTOOL_GLINK, 0))
        with suppress(OSError, ValueError):  # the link was deleted, or has a type without a carrier
            fcntl.ioctl(self._socket, _SIOCETHTOOL, _IFDATA.pack(name.encode(), ctypes.addressof(question)))

    def has_link(self, index: int) -> bool:
        """Says by an ioctl whether a link of that index exists."""
        try:
            fcntl.ioctl(self._socket, _SIOCGIFNAME, _IFREQ.pack(b"", index))
        except OSError as cause:
            if cause.errno == errno.ENODEV:
                return False
            raise _failure(cause) from None
        except ValueError:
            raise _closed() from None
        return True

    def notifications(self) -> list[NetlinkMessage]:
        """Returns the next datagram of a connection with groups. Raises `OutcomeUnknown` if some were lost.

        Only messages of the kernel count: any process with rights in the namespace can send to its groups.
        """
        flags = socket.MSG_TRUNC | socket.MSG_DONTWAIT
        try:
            size, sender = self._socket.recvfrom_into(self._buffer, 0, flags)
            while sender[0] != 0:
                size, sender = self._socket.recvfrom_into(self._buffer, 0, flags)
        except BlockingIOError:
            return []
        except OSError as cause:
            if cause.errno == errno.ENOBUFS:
                raise OutcomeUnknown("notifications were lost", errno=errno.ENOBUFS) from None
            raise _failure(cause) from None
        if size > len(self._buffer):
            self._buffer = bytearray(size)
            raise OutcomeUnknown("a notification was truncated", errno=errno.ENOBUFS)
        return list(message.split(bytes(memoryview(self._buffer)[:size])))

    def _send(self, kind: int, flags: int, payload: bytes) -> int:
        if not self._settled:
            # An earlier request was given up. The kernel answers no other dump while one is in progress, and
            # silently drops acknowledgements while an overflowed buffer is not empty.
            self._drain()
        self._settled = False
        self._sequence = sequence = (self._sequence + 1) & 0xFFFFFFFF
        request = HEADER.pack(16 + len(payload), kind, flags | REQUEST, sequence, 0) + payload
        try:
            self._socket.send(request)
        except OSError as cause:
            raise _failure(cause) from None
        return sequence

    def _question(self, kind: int, flags: int, payload: bytes) -> list[bytes]:
        """Sends a query, and repeats it when an answer was lost or truncated: queries have no effects."""
        for _ in range(_DUMP_TRIES):
            sequence = self._send(kind, flags, payload)
            try:
                return self._answers(sequence, self._receive())
            except OutcomeUnknown:
                self._drain()
        raise KernelError("answers do not fit the socket's buffer", errno=errno.ENOBUFS)

    def _answers(self, sequence: int, size: int) -> list[bytes]:
        """Yields the payloads of the answers to a request, up to the last; raises an error that it meets."""
        payloads: list[bytes] = []
        own = self._port
        while True:
            for found in message.split(bytes(memoryview(self._buffer)[:size])):
                kind, flags, answered, payload, port = found
                if answered != sequence or port != own:
                    continue  # from an earlier request that was given up, or a notification
                if flags & DUMP_INTERRUPTED and kind != message.ERROR:
                    self._interrupted = True
                if kind > message.OVERRUN:  # nearly all of thousands of messages
                    payloads.append(payload)
                elif kind in (message.ERROR, message.DONE):
                    self._settled = True
                    refused = message.verdict(found)
                    if refused is not None:
                        raise refused
                    return payloads
                elif kind == message.OVERRUN:
                    raise OutcomeUnknown("the kernel lost a part of its answer", errno=errno.ENOBUFS)
            size = self._receive()

    def _receive(self, flags: int = 0) -> int:
        try:
            size = self._socket.recv_into(self._buffer, 0, socket.MSG_TRUNC | flags)
        except OSError as cause:
            if cause.errno == errno.ENOBUFS:
                raise OutcomeUnknown("an answer was lost", errno=errno.ENOBUFS) from None
            if cause.errno == errno.EAGAIN:
                raise KernelError("the kernel did not answer in 30 s", errno=errno.ETIMEDOUT) from None
            raise _failure(cause) from None
        if size > len(self._buffer):
            self._buffer = bytearray(size)
            raise OutcomeUnknown("an answer was truncated", errno=errno.ENOBUFS)
        return size

    def _drain(self) -> None:
        while True:
            try:
                self._socket.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as cause:
                if cause.errno != errno.ENOBUFS:
                    raise _failure(cause) from None


def _filter(own: socket.socket, kinds: tuple[int, ...], ignoring: tuple[int, ...]) -> None:
    """Attaches a classic BPF program that filters by message type and by the port that requested the change.

    BPF reads both in network byte order.
    """
    wanted = [int.from_bytes(kind.to_bytes(2, sys.byteorder), "big") for kind in kinds]
    ports = [int.from_bytes(port.to_bytes(4, sys.byteorder), "big") for port in ignoring]
    drop, take = _BPF.pack(_RETURN, 0, 0, 0), _BPF.pack(_RETURN, 0, 0, 0xFFFFFFFF)
    program = [_BPF.pack(_LOAD_HALF, 0, 0, 4)]
    for number, kind in enumerate(wanted):
        program.append(_BPF.pack(_JUMP_EQUAL, len(wanted) - number, 0, kind))
    program += [drop, _BPF.pack(_LOAD_WORD, 0, 0, 12)]
    for number, port in enumerate(ports):
        program.append(_BPF.pack(_JUMP_EQUAL, len(ports) - number, 0, port))
    program += [take, drop]
    import ctypes

    code = ctypes.create_string_buffer(b"".join(program))
    own.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program), ctypes.addressof(code))
    )


def _failure(cause: OSError) -> KernelError:
    if cause.errno == errno.EBADF:
        return _closed()
    return KernelError(f"cannot talk to the kernel: {cause.strerror}", errno=cause.errno or 0)


def _closed() -> KernelError:
    return KernelError("this connection to the kernel is closed", errno=errno.EBADF)
