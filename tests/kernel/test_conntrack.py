from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from netloom.kernel.conntrack import forget, forget_to_ports
from netloom.kernel.errors import InvalidObject, Malformed, Refused
from netloom.kernel.namespace import Namespace
from netloom.kernel.netlink import conntrack

pytestmark = pytest.mark.kernel

# Two parties and a stranger, in both families, on one loopback.
ONE = {4: "10.9.0.1", 6: "fd09::1"}
TWO = {4: "10.9.0.2", 6: "fd09::2"}
STRANGER = {4: "10.9.0.3", 6: "fd09::3"}
SERVICE = "10.9.0.9"
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}

RULES = f"""
table inet t {{
    chain raw {{
        type filter hook output priority raw
        udp dport 700 ct zone set 7
        udp dport 705 ct original zone set 5
    }}
    chain nat {{
        type nat hook output priority -100
        ip daddr {SERVICE} udp dport 53 dnat ip to {TWO[4]}
    }}
    chain out {{
        type filter hook output priority 0
        ct state new accept
    }}
    chain in {{
        type filter hook input priority 0
        ct state new accept
    }}
}}
"""

families = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture
def tracking() -> Iterator[Namespace]:
    """A namespace with the addresses, in which every connection is tracked."""
    with Namespace.new() as namespace, namespace.entered():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in (*ONE.values(), *TWO.values(), *STRANGER.values(), SERVICE):
            nodad = ["nodad"] if ":" in address else []
            subprocess.run(["ip", "address", "add", address, "dev", "lo", *nodad], check=True)
        subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
        _wait_for_local_routes()
        yield namespace


def _wait_for_local_routes() -> None:
    """On a busy machine, routes of IPv6 come a moment after the addresses."""
    deadline = time.monotonic() + 10
    for address in (ONE[6], TWO[6], STRANGER[6]):
        find = ["ip", "-6", "route", "show", "table", "local", address]
        while not subprocess.run(find, capture_output=True, check=True).stdout:
            assert time.monotonic() < deadline, f"{address} has no route"
            time.sleep(0.05)


def entries(namespace: Namespace) -> list[conntrack.ConntrackEntry]:
    return [
        conntrack.decode(told) for told in namespace.netfilter.dump(conntrack.GET, conntrack.everything())
    ]


def tracked(namespace: Namespace) -> int:
    """How many connections there are: as the kernel's own table says, where it shows one."""
    path = "/proc/thread-self/net/nf_conntrack"
    if not os.path.exists(path):
        return len(entries(namespace))
    with namespace.entered(), open(path) as table:
        return len(table.readlines())


def udp(source: str, target: str, *ports: int) -> None:
    """One datagram to each port. Nobody answers."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        for port in ports:
            sender.sendto(b"x", (target, port))


@contextmanager
def tcp(source: str, target: str, port: int) -> Iterator[None]:
    """A connection that lives in the block."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((target, port), family=family))
        client = stack.enter_context(socket.create_connection((target, port), source_address=(source, 0)))
        server, _ = listener.accept()
        stack.enter_context(server)
        client.sendall(b"x")
        assert server.recv(1) == b"x"
        yield


def echo_request(source: str, target: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sender:
        sender.bind((source, 0))
        sender.sendto(bytes([8, 0, 0xF7, 0xFF - 77, 0, 0, 0, 77]), (target, 0))


def any_entry(_: conntrack.ConntrackEntry) -> bool:
    return True


@families
def test_datagrams_of_the_source_are_forgotten(tracking: Namespace, family: int) -> None:
    udp(ONE[family], TWO[family], 1000, 1001)
    assert tracked(tracking) == 2
    assert forget(tracking, ONE[family]) == 2
    assert tracked(tracking) == 0


@families
def test_datagrams_to_the_destination_are_forgotten(tracking: Namespace, family: int) -> None:
    udp(ONE[family], TWO[family], 1000)
    assert forget(tracking, TWO[family]) == 1
    assert tracked(tracking) == 0


@families
def test_an_established_connection_is_forgotten(tracking: Namespace, family: int) -> None:
    with tcp(ONE[family], TWO[family], 1000):
        assert tracked(tracking) == 1
        assert forget(tracking, ONE[family]) == 1
        assert tracked(tracking) == 0


@families
def test_connections_of_others_stay(tracking: Namespace, family: int) -> None:
    udp(STRANGER[family], TWO[family], 1000, 1001, 1002)
    udp(ONE[family], TWO[family], 1000)
    assert forget(tracking, ONE[family]) == 1
    assert tracked(tracking) == 3


def test_an_address_whose_bytes_stand_elsewhere_in_an_entry_takes_no_part(tracking: Namespace) -> None:
    """An attribute's header before an IPv4 address reads like 8.0.1.0."""
    udp(ONE[4], TWO[4], 1000)
    (told,) = tracking.netfilter.dump(conntrack.GET, conntrack.everything())
    assert socket.inet_aton("8.0.1.0") in told
    assert forget(tracking, "8.0.1.0") == 0
    assert tracked(tracking) == 1


@pytest.mark.parametrize("party", [ONE[4], SERVICE, TWO[4]], ids=["client", "service", "backend"])
def test_every_party_of_a_translated_connection_counts(tracking: Namespace, party: str) -> None:
    udp(ONE[4], SERVICE, 53)
    (entry,) = entries(tracking)
    assert entry.original.destination == socket.inet_aton(SERVICE)
    assert entry.reply.source == socket.inet_aton(TWO[4])
    assert forget(tracking, party) == 1
    assert tracked(tracking) == 0


@families
def test_only_the_protocol_that_is_asked_for_is_forgotten(tracking: Namespace, family: int) -> None:
    udp(ONE[family], TWO[family], 1000)
    with tcp(ONE[family], TWO[family], 1000):
        assert forget(tracking, ONE[family], protocol=socket.IPPROTO_TCP) == 1
        assert [entry.original.protocol for entry in entries(tracking)] == [socket.IPPROTO_UDP]


@families
def test_only_the_port_that_is_asked_for_is_forgotten(tracking: Namespace, family: int) -> None:
    udp(ONE[family], TWO[family], 1000, 1001)
    assert forget(tracking, TWO[family], protocol=socket.IPPROTO_UDP, port=1001) == 1
    assert [entry.original.destination_port for entry in entries(tracking)] == [1000]


def test_the_port_is_the_one_before_translation(tracking: Namespace) -> None:
    udp(ONE[4], SERVICE, 53)
    assert forget(tracking, TWO[4], port=53) == 1


@pytest.mark.parametrize("port", [700, 705], ids=["both ways", "one way"])
def test_a_connection_in_a_zone_is_forgotten(tracking: Namespace, port: int) -> None:
    udp(ONE[4], TWO[4], port)
    assert tracked(tracking) >= 1
    assert forget(tracking, ONE[4]) >= 1
    assert tracked(tracking) == 0


def test_an_echo_request_is_forgotten(tracking: Namespace) -> None:
    echo_request(ONE[4], TWO[4])
    (entry,) = entries(tracking)
    assert (entry.original.protocol, entry.original.destination_port) == (socket.IPPROTO_ICMP, None)
    assert forget(tracking, ONE[4]) == 1
    assert tracked(tracking) == 0


def test_an_address_without_connections_is_fine(tracking: Namespace) -> None:
    assert forget(tracking, "192.0.2.1") == 0


def test_connections_that_vanish_meanwhile_are_fine_and_not_counted(tracking: Namespace) -> None:
    flows = range(1000, 2500)
    udp(ONE[4], TWO[4], *flows)
    counts: list[int] = []
    start = threading.Barrier(2)

    def run(namespace: Namespace) -> None:
        start.wait()
        counts.append(forget(namespace, ONE[4]))

    with Namespace.of_descriptor(tracking.fileno(), "the same") as same:
        threads = [threading.Thread(target=run, args=(namespace,)) for namespace in (tracking, same)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(counts) == len(flows)
    assert tracked(tracking) == 0


def test_a_later_connection_with_the_same_addresses_and_ports_is_left_alone(tracking: Namespace) -> None:
    udp(ONE[4], TWO[4], 1000)
    (entry,) = entries(tracking)
    assert entry.id is not None
    earlier = msgspec.structs.replace(entry, id=bytes(byte ^ 0xFF for byte in entry.id))
    with pytest.raises(Refused) as caught:
        tracking.netfilter.change(conntrack.DELETE, 0, conntrack.exactly(earlier))
    assert caught.value.errno == errno.ENOENT
    assert tracked(tracking) == 1


@families
def test_connections_to_a_port_are_forgotten(tracking: Namespace, family: int) -> None:
    udp(ONE[family], TWO[family], 1000, 1001)
    with tcp(ONE[family], TWO[family], 1000):
        assert forget_to_ports(tracking, FAMILIES[family], [(socket.IPPROTO_TCP, 1000)], any_entry) == 1
        assert {entry.original.protocol for entry in entries(tracking)} == {socket.IPPROTO_UDP}
    udp_port = (socket.IPPROTO_UDP, 1001)
    assert forget_to_ports(tracking, FAMILIES[family], [udp_port], any_entry) == 1
    assert 1001 not in {entry.original.destination_port for entry in entries(tracking)}


@pytest.mark.parametrize("port", [700, 705], ids=["both ways", "one way"])
def test_connections_to_a_port_are_forgotten_in_every_zone(tracking: Namespace, port: int) -> None:
    udp(ONE[4], TWO[4], port)
    assert forget_to_ports(tracking, socket.AF_INET, [(socket.IPPROTO_UDP, port)], any_entry) >= 1
    assert tracked(tracking) == 0


def test_a_translated_connection_is_forgotten_by_the_port_that_it_was_made_to(tracking: Namespace) -> None:
    udp(ONE[4], SERVICE, 53)
    udp(ONE[4], TWO[4], 53)
    echo_request(ONE[4], TWO[4])

    def translated(entry: conntrack.ConntrackEntry) -> bool:
        return entry.reply.source != entry.original.destination

    assert forget_to_ports(tracking, socket.AF_INET, [(socket.IPPROTO_UDP, 53)], translated) == 1
    assert socket.inet_aton(SERVICE) not in {entry.original.destination for entry in entries(tracking)}
    assert tracked(tracking) == 2


@pytest.mark.parametrize("address", ["", "host", "10.9.0.0/24", "10.9.0"])
def test_what_is_no_address_is_refused(tracking: Namespace, address: str) -> None:
    with pytest.raises(InvalidObject):
        forget(tracking, address)


@families
def test_an_entry_reads_as_it_was_made(tracking: Namespace, family: int) -> None:
    udp(ONE[family], TWO[family], 1000)
    (entry,) = entries(tracking)
    one, two = (socket.inet_pton(FAMILIES[family], each[family]) for each in (ONE, TWO))
    assert entry.family == FAMILIES[family]
    assert (entry.original.source, entry.original.destination) == (one, two)
    assert (entry.reply.source, entry.reply.destination) == (two, one)
    assert entry.original.destination_port == entry.reply.source_port == 1000
    assert entry.original.source_port == entry.reply.destination_port


@families
def test_an_entry_that_is_cut_off_or_damaged_never_raises_anything_but_malformed(
    tracking: Namespace, family: int
) -> None:
    udp(ONE[family], TWO[family], 1000)
    (told,) = tracking.netfilter.dump(conntrack.GET, conntrack.everything())
    damaged = [told[:size] for size in range(len(told))]
    damaged += [
        told[:place] + bytes([value]) + told[place + 1 :]
        for place in range(len(told))
        for value in (0, 1, 5, 0x80, 0xFF)
    ]
    seen = 0
    for each in damaged:
        try:
            conntrack.decode(each)
        except Malformed:
            seen += 1
    assert seen > len(told) // 2


def test_a_port_of_the_wrong_size_is_malformed(tracking: Namespace) -> None:
    udp(ONE[4], TWO[4], 1000)
    (told,) = tracking.netfilter.dump(conntrack.GET, conntrack.everything())
    header = struct.pack("=HH", 6, 3)  # CTA_PROTO_DST_PORT with its two bytes
    assert header in told
    with pytest.raises(Malformed):
        conntrack.decode(told.replace(header, struct.pack("=HH", 5, 3)))
