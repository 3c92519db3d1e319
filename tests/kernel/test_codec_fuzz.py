"""Whatever bytes come, a decoder answers or says `Malformed`, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from struct import pack
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from netloom.kernel import netlink
from netloom.kernel.errors import KernelError, Malformed, Refused
from netloom.kernel.netlink import (
    address,
    bridge_vlan,
    conntrack,
    link,
    message,
    neighbour,
    nft_elements,
    nftables,
    nsid,
    qdisc,
    route,
    rule,
    statistics,
)
from netloom.kernel.netlink import filter as filters
from netloom.kernel.netlink import wireguard as generic
from netloom.kernel.netlink.connection import NetlinkConnection
from netloom.kernel.netlink.message import (
    Attributes,
    NetlinkMessage,
    each,
    nested,
    raw,
    text,
    u8,
    u16,
    u32,
    u64,
)

from ..search import examples

pytestmark = pytest.mark.unit

STEADY = settings(derandomize=True, deadline=None, database=None, max_examples=examples(120))

IPV4, IPV6 = socket.AF_INET, socket.AF_INET6
A4, A6 = bytes([10, 0, 0, 1]), bytes.fromhex("fd000000000000000000000000000001")

# Which attributes hold others that are known by their kind, and what these hold.
Nests: TypeAlias = Mapping[int, "Nests"]


class Subject:
    """A decoder, the size of its header, and messages such as the kernel sends."""

    def __init__(self, decode: Callable[[bytes], Any], head: int, nests: Nests, *messages: bytes) -> None:
        self.decode = decode
        self.head = head
        self.nests = nests
        self.messages = messages

    def __repr__(self) -> str:
        return name_of(self.decode)


def name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


_COMMON = link.properties(
    name="eth0", mac="02:00:00:00:00:01", mtu=1500, txqlen=7, parent=3, master=4, group=5
)
_LINKS = (
    link.create("veth", _COMMON, link.veth_peer(_COMMON, 7)),
    link.create("vxlan", _COMMON, u32(1, 7) + raw(4, A4) + u8(7, 1)),
    link.change(7, _COMMON + u32(37, 0xFFFFFFFF), up=True),
    link.change_port(7, "bridge", u8(4, 1) + u8(33, 0)),
)
_ROUTES = (
    route.build(IPV4, A4, 24, hops=[route.RouteHop(3, A4)], mtu=1300, advmss=900, source=A4, priority=7),
    route.build(IPV4, A4, 24, hops=[route.RouteHop(3, A4, 5, True), route.RouteHop(4, A6)], table=70000),
    route.build(IPV6, A6, 64, hops=[route.RouteHop(3, A6, onlink=True)]),
    route.build(IPV6, A6, 0, kind=route.BLACKHOLE),
)
_RULE = rule.RuleRecord(
    IPV4, 100, rule.LOOKUP, 70000, True, (A4, 24), (A4, 32), "eth0", "eth1", 5, 255, True, 3, 78
)
_BUCKET = qdisc.token_bucket(3, 0x10000, qdisc.TokenBucket(1 << 33, 1 << 20, 1 << 20))
_TUPLE = nested(1, raw(1, A4), raw(2, A4)) + nested(2, u8(1, 6), raw(2, b"\0\x50"), raw(3, b"\0\x51"))

SUBJECTS = (
    Subject(link.decode, 16, {18: {2: {}, 5: {}}}, *_LINKS),
    Subject(link.decode_entry, 16, {}, *_LINKS),
    Subject(
        address.decode,
        8,
        {},
        address.build(3, IPV4, A4, 24, flags=0x80),
        address.build(3, IPV6, A6, 64, flags=0x80, peer=A6[::-1]),
    ),
    Subject(route.decode, 12, {8: {}}, *_ROUTES),
    Subject(rule.decode, 12, {}, rule.build(_RULE)),
    Subject(
        neighbour.decode,
        12,
        {},
        neighbour.build(IPV6, 3, address=A6, mac="02:00:00:00:00:01", state=0x80, flags=8, vlan=7)
        + u32(9, 4),
    ),
    Subject(qdisc.decode, 20, {}, _BUCKET, qdisc.ingress(3, "clsact")),
    Subject(qdisc.decode_token_bucket, 0, {}, qdisc.decode(_BUCKET).options),
    Subject(
        filters.decode,
        20,
        {2: {}},
        filters.redirect(3, 4, kind="u32", priority=9),
        filters.redirect(3, 4, kind="matchall", priority=9),
    ),
    Subject(statistics.decode, 16, {}, link.change(7, raw(23, pack("=25Q", *range(25))))),
    Subject(
        statistics.decode_queue,
        20,
        {7: {}},
        qdisc.ingress(3, "clsact") + nested(7, raw(3, pack("=5I", 1, 2, 3, 4, 5))),
    ),
    Subject(nsid.decode, 4, {}, nsid.assign(3, 42), nsid.assign(3)),
    Subject(
        bridge_vlan.decode,
        16,
        {26: {}},
        bridge_vlan.build(3, bridge_vlan.Membership(7, True, True), itself=True),
        bridge_vlan.everything()[:16] + nested(26, raw(2, pack("=HH", 8, 5)), raw(2, pack("=HH", 20, 9))),
    ),
    Subject(route.decode_next_hop, 8, {}, bytes(8) + u32(1, 7) + u32(5, 3) + raw(6, A4)),
    Subject(
        nftables.decode_generation,
        4,
        {},
        bytes(4) + raw(1, pack(">I", 9)) + raw(2, pack(">I", 4711)) + text(3, "nft"),
    ),
    Subject(generic.decode, 4, {}, generic.header(1, 2) + u16(1, 31) + text(2, "wireguard")),
    Subject(
        conntrack.decode,
        4,
        {},
        bytes([IPV4, 0, 0, 0]) + nested(1, _TUPLE) + nested(2, _TUPLE) + raw(12, A4) + raw(18, b"\0\1"),
    ),
)
subjects = pytest.mark.parametrize("subject", SUBJECTS, ids=repr)


def outcome(decode: Callable[[bytes], Any], data: bytes) -> object:
    """What it decodes to, as something that can be compared; nothing if the bytes are malformed."""
    try:
        return comparable(decode(data))
    except Malformed:
        return None


def comparable(value: object) -> object:
    if isinstance(value, link.Link):
        known = [(name, getattr(value, name)) for name in value.__struct_fields__]
        return [(name, comparable(part)) for name, part in known]
    if isinstance(value, Attributes):
        return [value.raw(kind) for kind in range(STRANGE)]
    return value


def test_every_decoder_is_a_subject() -> None:
    found = set()
    for module in pkgutil.iter_modules(netlink.__path__):
        members = inspect.getmembers(importlib.import_module(f"{netlink.__name__}.{module.name}"))
        found |= {
            name_of(member)
            for name, member in members
            if name.startswith("decode") and inspect.isfunction(member)
        }
    assert found == {repr(subject) for subject in SUBJECTS}


@subjects
def test_the_messages_that_are_spoiled_below_are_well_formed(subject: Subject) -> None:
    assert all(outcome(subject.decode, data) is not None for data in subject.messages)


@subjects
@STEADY
@given(data=st.binary(max_size=200))
def test_random_bytes_are_decoded_or_malformed(subject: Subject, data: bytes) -> None:
    outcome(subject.decode, data)


@subjects
@STEADY
@given(attributes=st.lists(st.tuples(st.integers(0, 64), st.binary(max_size=40)), max_size=8), data=st.data())
def test_random_attributes_are_decoded_or_malformed(
    subject: Subject, attributes: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    head = data.draw(st.binary(min_size=subject.head, max_size=subject.head))
    outcome(subject.decode, head + b"".join(raw(kind, payload) for kind, payload in attributes))


@subjects
def test_every_truncation_is_decoded_or_malformed(subject: Subject) -> None:
    for data in subject.messages:
        for length in range(len(data)):
            outcome(subject.decode, data[:length])


@subjects
@STEADY
@given(data=st.data())
def test_flipped_bytes_are_decoded_or_malformed(subject: Subject, data: st.DataObject) -> None:
    spoiled = bytearray(data.draw(st.sampled_from(subject.messages)))
    positions = st.integers(0, len(spoiled) - 1)
    for position, value in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), max_size=6)):
        spoiled[position] = value
    outcome(subject.decode, bytes(spoiled))


# No message of ours has an attribute of this kind or above.
STRANGE = 1000


def with_strangers(data: bytes, nests: Nests, stranger: Callable[[], bytes]) -> bytes:
    """The same attributes, with unknown ones before, between, behind and inside them."""
    parts = [stranger()]
    for kind, payload in each(data):
        if kind in nests:
            parts.append(nested(kind, with_strangers(payload, nests[kind], stranger)))
        else:
            parts.append(raw(kind, payload))
        parts.append(stranger())
    return b"".join(parts)


@subjects
@STEADY
@given(data=st.data())
def test_unknown_attributes_change_nothing(subject: Subject, data: st.DataObject) -> None:
    strangers = st.one_of(st.just(b""), st.builds(raw, st.integers(STRANGE, 0x3FFF), st.binary(max_size=20)))
    original = data.draw(st.sampled_from(subject.messages))
    changed = original[: subject.head] + with_strangers(
        original[subject.head :], subject.nests, lambda: data.draw(strangers)
    )
    found, expected = outcome(subject.decode, changed), outcome(subject.decode, original)
    if isinstance(found, rule.RuleRecord) and found.more:
        found = replace(found, more=False)  # which says that there was an unknown one, and no more
    assert found == expected


@subjects
def test_flags_on_attributes_change_nothing(subject: Subject) -> None:
    """The kernel marks nests, and numbers in network byte order, in some places and not in others."""
    for original in subject.messages:
        marked = b"".join(raw(kind | 0xC000, payload) for kind, payload in each(original[subject.head :]))
        assert outcome(subject.decode, original[: subject.head] + marked) == outcome(subject.decode, original)


# --- messages ----------------------------------------------------------------------------------------


@STEADY
@given(data=st.binary(max_size=100))
@example(message.build(16, 0, 1, b"abc"))
def test_a_datagram_is_split_or_malformed(data: bytes) -> None:
    try:
        found = list(message.split(data))
    except Malformed:
        return
    assert sum(16 + len(one.payload) for one in found) <= len(data)


@STEADY
@given(parts=st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=33)), max_size=6))
def test_what_was_joined_is_split_again(parts: list[tuple[int, bytes]]) -> None:
    datagram = b"".join(
        message.build(kind, 2, 7, payload) + bytes(-len(payload) % 4) for kind, payload in parts
    )
    assert [(one.kind, one.payload) for one in message.split(datagram)] == parts


@STEADY
@given(
    kind=st.sampled_from([message.ERROR, message.DONE]),
    flags=st.sampled_from([0, message.CAPPED, message.EXPLAINED, message.CAPPED | message.EXPLAINED]),
    number=st.one_of(st.none(), st.integers(-5000, 5000)),
    rest=st.binary(max_size=80),
)
def test_a_verdict_is_read_or_malformed(kind: int, flags: int, number: int | None, rest: bytes) -> None:
    payload = rest if number is None else pack("=i", number) + rest
    try:
        refused = message.verdict(NetlinkMessage(kind, flags, 1, payload))
    except Malformed:
        return
    assert refused is None or isinstance(refused, Refused)


@STEADY
@given(words=st.binary(max_size=40))
def test_an_explanation_of_any_bytes_is_text(words: bytes) -> None:
    payload = pack("=i", -22) + bytes(16) + raw(1, words)
    refused = message.verdict(NetlinkMessage(message.ERROR, message.CAPPED | message.EXPLAINED, 1, payload))
    assert refused is not None
    assert refused.explanation.encode("utf-8", "surrogateescape") == words.partition(b"\0")[0]


# --- answers on a socket -----------------------------------------------------------------------------

_USERSOCK = 2  # netlink between programs, without a kernel behind it


class Speaker:
    """The other end of a connection, which has its answers ready before it is asked."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _USERSOCK)
        self._socket.bind((0, 0))
        near = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _USERSOCK)
        near.bind((0, 0))
        near.connect(self._socket.getsockname())
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, pack("ll", 0, 10_000))
        self._port = near.getsockname()[0]
        self.connection = NetlinkConnection(near)

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self._socket.close()

    def say(self, datagram: bytes) -> None:
        self._socket.sendto(datagram, (self._port, 0))

    def answer(self, payload: bytes) -> None:
        """The answer to the first question, and that it was all."""
        for kind, content in ((16, payload), (message.ERROR, bytes(20))):
            self.say(pack("=IHHII", 16 + len(content), kind, 0, 1, self._port) + content)


USES: tuple[Callable[[NetlinkConnection], object], ...] = (
    lambda own: own.ask(18, bytes(16)),
    lambda own: own.dump(18, bytes(16)),
    lambda own: own.change(16, 0, bytes(16)),
    lambda own: own.notifications(),
)


@STEADY
@given(datagrams=st.lists(st.binary(min_size=1, max_size=60), max_size=3))
@example([message.build(message.ERROR, 0, 1, bytes(2))])
@example([message.build(message.OVERRUN, 0, 1, b"")])
def test_a_connection_survives_any_datagram(datagrams: list[bytes]) -> None:
    for use in USES:
        with Speaker() as speaker:
            for datagram in datagrams:
                speaker.say(datagram)
            speaker.answer(b"")
            try:
                use(speaker.connection)
            except KernelError:
                continue


_HEAD = bytes([1, 0, 0, 10])
_ITEM = nested(1, nested(1, raw(1, A4)), nested(2, raw(1, A4 + b"\0\x50\0\0")))
_VERDICT = nested(1, nested(1, raw(1, A4)), nested(2, nested(2, raw(1, pack(">i", -3)), text(2, "x"))))


@cache
def addresses_to_sockets() -> nft_elements.Set:
    """A map of type ipv4_addr : ipv4_addr . inet_service."""
    with Speaker() as speaker:
        speaker.answer(_HEAD + raw(4, pack(">I", 7)) + raw(6, pack(">I", (7 << 6) | 13)))
        found = nft_elements.read_set(speaker.connection, "inet", "t", "s")
    assert found is not None
    return found


READERS: dict[str, tuple[Callable[[NetlinkConnection], object], tuple[bytes, ...]]] = {
    "read_table": (
        lambda own: nftables.read_table(own, "inet", "t"),
        (_HEAD + text(1, "t") + raw(6, b"\0\5made\0"), _HEAD + raw(6, b"\7\1x\0\200ma")),
    ),
    "read_set": (
        lambda own: nft_elements.read_set(own, "inet", "t", "s"),
        (
            _HEAD + raw(3, pack(">I", 12)) + raw(4, pack(">I", (7 << 6) | 41)) + raw(6, pack(">I", 13)),
            _HEAD + raw(4, pack(">I", 63)) + raw(6, pack(">I", 0xFFFFFF00)),
        ),
    ),
    "read_element": (
        lambda own: nft_elements.read_element(own, "inet", "t", "s", addresses_to_sockets(), ("10.0.0.1",)),
        (_HEAD + nested(3, _ITEM), _HEAD + nested(3, _VERDICT)),
    ),
    "are_there": (
        lambda own: nft_elements.are_there(own, [nft_elements.Item(("inet", "t", "s"), A4, raw(1, A4))]),
        (_HEAD + nested(3, _ITEM), _HEAD + nested(3, _VERDICT)),
    ),
}
readers = pytest.mark.parametrize("reader", READERS)


def read(reader: str, payload: bytes) -> object:
    """What a reader makes of an answer; nothing if it is malformed."""
    with Speaker() as speaker:
        speaker.answer(payload)
        try:
            return READERS[reader][0](speaker.connection)
        except Malformed:
            return None


@readers
def test_the_answers_of_nftables_that_are_spoiled_below_are_well_formed(reader: str) -> None:
    assert all(read(reader, payload) is not None for payload in READERS[reader][1])


@readers
@STEADY
@given(data=st.data())
def test_a_spoiled_answer_of_nftables_is_read_or_malformed(reader: str, data: st.DataObject) -> None:
    spoiled = bytearray(data.draw(st.sampled_from(READERS[reader][1])))
    for position, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(spoiled) - 1), st.integers(0, 255)), max_size=4)
    ):
        spoiled[position] = value
    read(reader, bytes(spoiled[: data.draw(st.integers(0, len(spoiled)))]))


def _long(number: int, size: int) -> Iterator[bytes]:
    for kind in range(1, 8):
        value = raw(kind, bytes([number]) * size)
        yield _HEAD + value
        yield _HEAD + nested(3, nested(1, nested(2, value)))
        yield _HEAD + nested(3, nested(1, nested(2, nested(2, value))))


@readers
@pytest.mark.parametrize("size", [0, 1, 3, 5, 2500, 20000])
def test_a_value_of_a_wrong_size_from_nftables_is_read_or_malformed(reader: str, size: int) -> None:
    for number in (0, 0x7F, 0xFF):
        for payload in _long(number, size):
            read(reader, payload)


@STEADY
@given(options=st.lists(st.tuples(st.integers(1, 8), st.binary(max_size=44)), max_size=5))
def test_a_token_bucket_of_any_numbers_is_read_or_malformed(options: list[tuple[int, bytes]]) -> None:
    parameters = raw(1, b"\xff" * 36) + u64(4, 0xFFFFFFFFFFFFFFFF)
    outcome(qdisc.decode_token_bucket, parameters + b"".join(raw(kind, data) for kind, data in options))
