"""Forgetting what was made to ports. The entries are made by hand: no packet is needed for them."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterable, Iterator

import pytest

from netloom.kernel.conntrack import forget, forget_to_ports, forget_translated_to
from netloom.kernel.errors import InvalidObject, KernelError, Malformed, Refused, Unsupported
from netloom.kernel.namespace import Namespace
from netloom.kernel.netlink import conntrack
from netloom.kernel.netlink.connection import NetlinkConnection
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE, nested, raw, u8, u16be

pytestmark = pytest.mark.kernel

TCP, UDP, SCTP, ICMP = socket.IPPROTO_TCP, socket.IPPROTO_UDP, 132, socket.IPPROTO_ICMP
FAMILIES: tuple[int, ...] = (socket.AF_INET, socket.AF_INET6)
CLIENT, HOST, POD = (
    {family: socket.inet_pton(family, text) for family, text in zip(FAMILIES, both, strict=True)}
    for both in (("10.9.0.1", "fd09::1"), ("10.9.0.2", "fd09::2"), ("10.9.0.3", "fd09::3"))
)
ENOUGH_FOR_TWO_FILTERS = 4096  # a small machine tracks no more than 7680

families = pytest.mark.parametrize("family", FAMILIES, ids=["IPv4", "IPv6"])
protocols = pytest.mark.parametrize("protocol", [TCP, UDP, SCTP], ids=["tcp", "udp", "sctp"])


class Spy:
    """What was asked to list, and answers of other kernels: how they take a request with a filter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.whole = self.filtered = 0
        self.filters: Callable[[bytes], bytes] = bytes
        real = NetlinkConnection.dump

        def dump(connection: NetlinkConnection, kind: int, payload: bytes) -> list[bytes]:
            if len(payload) == len(conntrack.everything()):
                self.whole += 1
                return real(connection, kind, payload)
            self.filtered += 1
            return real(connection, kind, self.filters(payload))

        monkeypatch.setattr(NetlinkConnection, "dump", dump)


def refuse(number: int) -> Callable[[bytes], bytes]:
    def filters(_: bytes) -> bytes:
        raise Refused(number)

    return filters


def ignore(request: bytes) -> bytes:
    return request[: len(conntrack.everything())]


KERNELS = {
    "filters": bytes,
    "ignores the filter": ignore,
    "knows no filter": refuse(errno.EOPNOTSUPP),
    "refuses the filter": refuse(errno.EINVAL),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(monkeypatch)


@pytest.fixture(params=KERNELS.values(), ids=list(KERNELS))
def any_kernel(request: pytest.FixtureRequest, asked: Spy) -> None:
    asked.filters = request.param


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.new() as own:
        yield own


def direction(family: int, source: bytes, target: bytes, protocol: bytes) -> bytes:
    kind = 1 if family == socket.AF_INET else 3
    return nested(1, raw(kind, source), raw(kind + 1, target)) + nested(2, protocol)


def entry(family: int, protocol: int, port: int, source_port: int, to: tuple[bytes, int] | None) -> bytes:
    def ports(source: int, target: int) -> bytes:
        return u8(1, protocol) + u16be(2, source) + u16be(3, target)

    client, host = CLIENT[family], HOST[family]
    answerer, answering = to or (host, port)
    return (
        conntrack.everything(family)
        + nested(1, direction(family, client, host, ports(source_port, port)))
        + nested(2, direction(family, answerer, client, ports(answering, source_port)))
        + lifetime()
    )


def echo(family: int) -> bytes:
    first, request, reply = (4, 8, 0) if family == socket.AF_INET else (7, 128, 129)
    number = ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6

    def kind(value: int) -> bytes:
        return u8(1, number) + u16be(first, 77) + u8(first + 1, value) + u8(first + 2, 0)

    client, host = CLIENT[family], HOST[family]
    return (
        conntrack.everything(family)
        + nested(1, direction(family, client, host, kind(request)))
        + nested(2, direction(family, host, client, kind(reply)))
        + lifetime()
    )


def lifetime() -> bytes:
    return raw(7, struct.pack(">I", 3600))


def make(namespace: Namespace, made: Iterable[bytes]) -> None:
    for payload in made:
        namespace.netfilter.change(conntrack.NEW, CREATE | EXCLUSIVE, payload)


def track(
    namespace: Namespace,
    family: int,
    protocol: int,
    *ports: int,
    source_ports: Iterable[int] = (40000,),
    to: tuple[bytes, int] | None = None,
) -> None:
    make(namespace, (entry(family, protocol, port, own, to) for port in ports for own in source_ports))


def listed(namespace: Namespace) -> list[conntrack.ConntrackEntry]:
    told = namespace.netfilter.dump(conntrack.GET, conntrack.everything())
    return [conntrack.decode(each) for each in told]


def left(namespace: Namespace) -> set[tuple[int, int, int | None]]:
    return {
        (each.family, each.original.protocol, each.original.destination_port) for each in listed(namespace)
    }


def every(_: conntrack.ConntrackEntry) -> bool:
    return True


def none(_: conntrack.ConntrackEntry) -> bool:
    return False


@families
@protocols
@pytest.mark.usefixtures("any_kernel")
def test_connections_to_the_port_are_forgotten_and_no_others(
    namespace: Namespace, family: int, protocol: int
) -> None:
    for each in FAMILIES:
        for number in (TCP, UDP, SCTP):
            track(namespace, each, number, 80, 81, source_ports=(40000, 40001))
    before = left(namespace)
    assert forget_to_ports(namespace, family, [(protocol, 80)], every) == 2
    assert left(namespace) == before - {(family, protocol, 80)}


@families
@protocols
@pytest.mark.usefixtures("any_kernel")
def test_connections_from_the_port_stay(namespace: Namespace, family: int, protocol: int) -> None:
    track(namespace, family, protocol, 5000, source_ports=(80,))
    assert forget_to_ports(namespace, family, [(protocol, 80)], every) == 0
    assert left(namespace) == {(family, protocol, 5000)}


@families
@pytest.mark.usefixtures("any_kernel")
def test_connections_that_are_translated_to_the_port_stay(namespace: Namespace, family: int) -> None:
    track(namespace, family, TCP, 8080, to=(POD[family], 80))
    assert forget_to_ports(namespace, family, [(TCP, 80)], every) == 0
    assert forget_to_ports(namespace, family, [(TCP, 8080)], every) == 1


@families
@pytest.mark.usefixtures("any_kernel")
def test_connections_that_are_not_stale_stay(namespace: Namespace, family: int) -> None:
    track(namespace, family, UDP, 80, source_ports=range(40000, 40010))
    assert forget_to_ports(namespace, family, [(UDP, 80)], none) == 0
    assert len(listed(namespace)) == 10


@families
@protocols
def test_an_entry_tells_whether_it_was_translated(namespace: Namespace, family: int, protocol: int) -> None:
    track(namespace, family, protocol, 80, source_ports=(40000,), to=(POD[family], 8080))
    track(namespace, family, protocol, 80, source_ports=(40001,), to=(HOST[family], 8080))
    track(namespace, family, protocol, 80, source_ports=(40002,))

    def translated(found: conntrack.ConntrackEntry) -> bool:
        original, reply = found.original, found.reply
        return (reply.source, reply.source_port) != (original.destination, original.destination_port)

    assert forget_to_ports(namespace, family, [(protocol, 80)], translated) == 2
    assert [each.original.source_port for each in listed(namespace)] == [40002]


@families
@pytest.mark.usefixtures("any_kernel")
def test_only_what_goes_to_the_ports_is_asked_about(namespace: Namespace, family: int) -> None:
    track(namespace, family, TCP, 79, 80, 81)
    track(namespace, family, SCTP, 79, 80, 81)
    asked_about = []

    def stale(found: conntrack.ConntrackEntry) -> bool:
        asked_about.append((found.original.protocol, found.original.destination_port))
        return False

    forget_to_ports(namespace, family, [(TCP, 80), (SCTP, 81)], stale)
    assert sorted(asked_about) == [(TCP, 80), (SCTP, 81)]


@families
@pytest.mark.usefixtures("any_kernel")
def test_fifty_ports_are_forgotten_at_once(namespace: Namespace, family: int) -> None:
    track(namespace, family, TCP, *range(1000, 1100))
    track(namespace, family, UDP, *range(1000, 1100))
    ports = [(TCP, port) for port in range(1000, 1025)] + [(UDP, port) for port in range(1050, 1075)]
    before = left(namespace)
    assert forget_to_ports(namespace, family, ports, every) == 50
    assert left(namespace) == before - {(family, *port) for port in ports}


@families
@pytest.mark.usefixtures("any_kernel")
def test_connections_without_ports_stay(namespace: Namespace, family: int) -> None:
    make(namespace, [echo(family)])
    number = ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    for port in (0, 8, 77, 128):
        assert forget_to_ports(namespace, family, [(TCP, port), (number, port)], every) == 0
        assert forget_to_ports(namespace, family, [(number, port)], every) == 0
    assert left(namespace) == {(family, number, None)}


@families
def test_few_ports_are_picked_out_of_a_large_table_by_the_kernel(
    namespace: Namespace, asked: Spy, family: int
) -> None:
    track(namespace, family, UDP, 53, source_ports=range(20000, 20000 + ENOUGH_FOR_TWO_FILTERS))
    track(namespace, family, UDP, 80, 81)
    assert forget_to_ports(namespace, family, [(UDP, 80), (TCP, 80)], every) == 1
    assert (asked.filtered, asked.whole) == (2, 0)


@families
def test_many_ports_are_picked_out_of_one_list(namespace: Namespace, asked: Spy, family: int) -> None:
    track(namespace, family, UDP, 53, source_ports=range(20000, 20000 + ENOUGH_FOR_TWO_FILTERS))
    track(namespace, family, UDP, *range(1000, 1050))
    assert forget_to_ports(namespace, family, [(UDP, port) for port in range(1000, 1050)], every) == 50
    assert (asked.filtered, asked.whole) == (0, 1)


def test_a_small_table_is_walked_once(namespace: Namespace, asked: Spy) -> None:
    track(namespace, socket.AF_INET, UDP, *range(1000, 1050))
    forget_to_ports(namespace, socket.AF_INET, [(UDP, 1000), (UDP, 1001), (TCP, 1000)], every)
    assert asked.filtered + asked.whole == 1


def test_protocols_whose_ports_the_kernel_does_not_look_at_are_listed_once(
    namespace: Namespace, asked: Spy
) -> None:
    track(namespace, socket.AF_INET, SCTP, *range(1000, 1010))
    ports = [(SCTP, port) for port in range(1000, 1005)]
    assert forget_to_ports(namespace, socket.AF_INET, ports, every) == 5
    assert (asked.filtered, asked.whole) == (1, 0)


@families
def test_where_nothing_is_tracked_nothing_is_listed(namespace: Namespace, asked: Spy, family: int) -> None:
    assert forget_to_ports(namespace, family, [(TCP, 80), (UDP, 53)], every) == 0
    assert (asked.filtered, asked.whole) == (0, 0)


def test_no_ports_are_no_connections(namespace: Namespace) -> None:
    track(namespace, socket.AF_INET, TCP, 80)
    assert forget_to_ports(namespace, socket.AF_INET, [], every) == 0
    assert len(listed(namespace)) == 1


def test_a_connection_that_vanishes_meanwhile_is_fine_and_not_counted(namespace: Namespace) -> None:
    track(namespace, socket.AF_INET, TCP, 80, source_ports=(40000, 40001))

    def stale(found: conntrack.ConntrackEntry) -> bool:
        if found.original.source_port == 40000:
            namespace.netfilter.change(conntrack.DELETE, 0, conntrack.exactly(found))
        return True

    assert forget_to_ports(namespace, socket.AF_INET, [(TCP, 80)], stale) == 1
    assert listed(namespace) == []


def test_a_later_connection_of_the_same_addresses_and_ports_stays(namespace: Namespace) -> None:
    track(namespace, socket.AF_INET, TCP, 80)
    (before,) = listed(namespace)

    def stale(found: conntrack.ConntrackEntry) -> bool:
        namespace.netfilter.change(conntrack.DELETE, 0, conntrack.exactly(found))
        # The kernel's name for an entry comes from its place in memory: others take the place first.
        track(namespace, socket.AF_INET, TCP, *range(2000, 2100))
        track(namespace, socket.AF_INET, TCP, 80)
        return True

    assert forget_to_ports(namespace, socket.AF_INET, [(TCP, 80)], stale) == 0
    (after,) = (each for each in listed(namespace) if each.original.destination_port == 80)
    assert (after.key, after.zone) == (before.key, before.zone)
    assert after.id != before.id


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_kernel_without_ctnetlink_is_told(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise Refused(number)

    for question in ("ask", "dump"):
        monkeypatch.setattr(NetlinkConnection, question, refused)
    with pytest.raises(Unsupported) as caught:
        forget_to_ports(namespace, socket.AF_INET, [(TCP, 80)], every)
    assert caught.value.feature == "conntrack"
    with pytest.raises(Unsupported):
        forget(namespace, "192.0.2.1")


def test_a_kernel_without_netfilter_is_told(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there(_: Namespace) -> NetlinkConnection:
        raise KernelError("no such protocol", errno=errno.EPROTONOSUPPORT)

    monkeypatch.setattr(Namespace, "netfilter", property(none_there))
    with pytest.raises(Unsupported):
        forget_to_ports(namespace, socket.AF_INET, [(TCP, 80)], every)


@pytest.mark.parametrize("question", ["ask", "dump"])
def test_another_refusal_is_passed_on(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    track(namespace, socket.AF_INET, TCP, 80)

    def refused(*_: object) -> None:
        raise Refused(errno.EPERM)

    monkeypatch.setattr(NetlinkConnection, question, refused)
    with pytest.raises(Refused) as caught:
        forget_to_ports(namespace, socket.AF_INET, [(TCP, 80)], every)
    assert caught.value.errno == errno.EPERM


@pytest.mark.parametrize(
    ("family", "port"),
    [
        (socket.AF_UNSPEC, (TCP, 80)),
        (socket.AF_UNIX, (TCP, 80)),
        (socket.AF_INET, (TCP, 65536)),
        (socket.AF_INET, (TCP, -1)),
        (socket.AF_INET6, (256, 80)),
        (socket.AF_INET6, (-1, 80)),
    ],
)
def test_what_is_no_port_is_refused(namespace: Namespace, family: int, port: tuple[int, int]) -> None:
    with pytest.raises(InvalidObject):
        forget_to_ports(namespace, family, [port], every)


@families
def test_peek_port_agrees_with_decode(namespace: Namespace, family: int) -> None:
    for protocol in (TCP, UDP, SCTP):
        track(namespace, family, protocol, 1, 80, 0x0600, 65535)
    told = namespace.netfilter.dump(conntrack.GET, conntrack.everything())
    assert len(told) == 12
    for each in told:
        original = conntrack.decode(each).original
        assert conntrack.peek_port(each) == (original.protocol, original.destination_port)


@families
def test_peek_port_returns_none_for_ports_that_are_not_there(namespace: Namespace, family: int) -> None:
    make(namespace, [echo(family)])
    (told,) = namespace.netfilter.dump(conntrack.GET, conntrack.everything())
    assert conntrack.peek_port(told) is None


@families
def test_peek_port_of_damaged_bytes_never_raises(namespace: Namespace, family: int) -> None:
    track(namespace, family, TCP, 80)
    (told,) = namespace.netfilter.dump(conntrack.GET, conntrack.everything())
    cut_off = [told[:size] for size in range(len(told))]
    changed = [
        told[:place] + bytes([value]) + told[place + 1 :]
        for place in range(len(told))
        for value in (0, 1, 5, 0x80, 0xFF)
    ]
    for each in cut_off + changed:
        assert conntrack.peek_port(each) is None or len(each) > 50


@families
def test_peek_port_returns_none_for_another_order(namespace: Namespace, family: int) -> None:
    track(namespace, family, TCP, 80)
    (told,) = namespace.netfilter.dump(conntrack.GET, conntrack.everything())
    size = int.from_bytes(told[4:6], "little" if told[4] else "big")
    original, reply = told[4 : 4 + size], told[4 + size : 4 + 2 * size]
    swapped = told[:4] + reply + original + told[4 + 2 * size :]
    assert conntrack.decode(swapped) == conntrack.decode(told)
    assert conntrack.peek_port(swapped) is None


@pytest.mark.parametrize("answer", [b"", bytes(4), bytes(4) + raw(1, bytes(2)), bytes(4) + raw(2, bytes(4))])
def test_a_count_that_is_none_is_malformed(answer: bytes) -> None:
    with pytest.raises(Malformed):
        conntrack.counted(answer)


@families
def test_connections_that_are_translated_to_an_address_are_forgotten_and_no_others(
    namespace: Namespace, family: int
) -> None:
    for each in FAMILIES:
        track(namespace, each, UDP, 53, to=(POD[each], 53))
        track(namespace, each, UDP, 54)
    assert forget_translated_to(namespace, family, {HOST[family], CLIENT[family]}) == 0
    assert forget_translated_to(namespace, family, {POD[family]}) == 1
    assert left(namespace) == {(each, UDP, 54) for each in FAMILIES} | {
        (each, UDP, 53) for each in FAMILIES if each != family
    }
