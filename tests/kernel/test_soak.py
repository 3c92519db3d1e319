"""Sockets that live as long as an agent does cost the same after many requests as after a few.

50,000 requests, and 200,000 in `make soak`.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator

import pytest

from netloom.kernel import Namespace
from netloom.kernel.errors import Refused
from netloom.kernel.netlink import address, link, nft_elements, route
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE

pytestmark = pytest.mark.kernel

REQUESTS, SOAK = 50_000, 200_000
PER_TRANSACTION = 40
ROUNDS = 10
ROOM = 2 << 20

MAKE = CREATE | EXCLUSIVE


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.new() as made:
        peer = link.veth_peer(link.properties(name="v1"), None)
        made.route.change(link.NEW, MAKE, link.create("veth", link.properties(name="v0"), peer))
        made.route.change(link.NEW, 0, link.change(made.route.index("v0"), up=True))
        made.nft.run("table inet t { map m { type ipv4_addr . ifname : ipv4_addr; }; }")
        yield made


def memory() -> int:
    """Resident bytes, after all that can be let go was."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def talk(namespace: Namespace, requests: int) -> int:
    """About so many requests of every sort, on the same sockets; how many it were."""
    connection = namespace.route
    index = connection.index("v0")
    done = 0
    while done < requests:
        number = done % 60000
        packed = bytes([10, 9, number >> 8, number & 255])
        own = address.build(index, socket.AF_INET, packed, 32)
        way = route.build(
            socket.AF_INET, packed, 32, hops=[route.RouteHop(index, None)], scope=route.LINK_SCOPE, table=100
        )
        for _ in range(3):
            payload = connection.ask(link.GET, link.get(index))
            assert payload is not None
            assert link.decode(payload).name == "v0"
        connection.change(address.NEW, MAKE, own)
        connection.change(route.NEW, MAKE, way)
        listed = connection.dump(address.GET, address.of_link(index, socket.AF_INET))
        assert [address.decode(one).prefix for one in listed] == [32]
        connection.change(route.DELETE, 0, way)
        connection.change(address.DELETE, 0, own)
        try:
            connection.change(address.DELETE, 0, own)
        except Refused as refused:
            assert refused.explanation
        done += 9
        if done % 90 == 0:
            assert len(connection.dump(link.GET, link.everything())) == 3
            done += 1
    return done


def transact(namespace: Namespace, transactions: int) -> None:
    of = nft_elements.read_set(namespace.netfilter, "inet", "t", "m")
    assert of is not None
    for number in range(transactions // 2):
        own = f"10.9.{number >> 8}.{number & 255}"
        namespace.nft.run(f'create element inet t m {{ {own} . "v0" : {own} }}')
        assert nft_elements.read_element(namespace.netfilter, "inet", "t", "m", of, (own, "v0")) is not None
        namespace.nft.run(f'delete element inet t m {{ {own} . "v0" }}')


def test_memory_and_descriptors_stay_flat_over_many_requests(namespace: Namespace, soak: bool) -> None:
    requests = SOAK if soak else REQUESTS
    transactions = requests // PER_TRANSACTION
    talk(namespace, requests // ROUNDS)
    transact(namespace, transactions // ROUNDS)
    before, open_before = memory(), descriptors()
    done = 0
    for _ in range(ROUNDS):
        done += talk(namespace, requests // ROUNDS)
        transact(namespace, transactions // ROUNDS)
    assert done >= requests
    assert descriptors() == open_before
    assert memory() - before < ROOM
