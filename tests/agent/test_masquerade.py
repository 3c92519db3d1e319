"""Masquerade: whom the rest of the world sees when a container calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from ..fixtures.internet import (
    BEYOND,
    IPV4,
    IPV6,
    NODE,
    NODE_TO_BEYOND,
    OUTSIDE,
    TCP,
    UDP,
    Answer,
    Answering,
    Attached,
    Internet,
    ask,
    attach,
    leftovers,
    new_internet,
)
from ..fixtures.node import POOLS

pytestmark = pytest.mark.kernel

PORT = 7000

# Networks, by name: what each says of masquerade.
NETWORKS: dict[str, Any] = {
    "masked": True,
    "plain": False,
    "only4": {"ipv6": False},
    "only6": {"ipv4": False},
    "neither": {"ipv4": False, "ipv6": False},
    "except": {"except": ["192.0.2.0/24", "2001:db8::/64"]},
    "except-one": {"except": ["192.0.2.2/32", "2001:db8::2/128"]},
    "except-others": {"except": ["192.0.2.64/26", "2001:db8:7::/48"]},
}


def pools_of(network: str) -> tuple[dict[str, str], ...]:
    number = 10 + list(NETWORKS).index(network)
    return ({"cidr": f"10.{number}.0.0/16"}, {"cidr": f"fd{number}::/64"})


class Nets(NamedTuple):
    internet: Internet
    members: dict[str, Attached]


@pytest.fixture(scope="module")
def nets() -> Iterator[Nets]:
    """A container of each network. Everybody answers; outside knows a way to the pools, beyond does not."""
    with new_internet() as internet, ExitStack() as stack:
        internet.node.start()
        internet.know_pools()
        members = {
            name: attach(internet, network=name, pools=pools_of(name), ipMasq=said)
            for name, said in NETWORKS.items()
        }
        for name, it in members.items():
            stack.enter_context(it.answering(PORT, who=name))
        stack.enter_context(Answering(internet.outside, "outside", PORT))
        stack.enter_context(Answering(internet.beyond, "beyond", PORT))
        stack.enter_context(Answering(internet.host, "host", PORT))
        yield Nets(internet, members)
        assert internet.node.audit([*POOLS, *(pool for name in NETWORKS for pool in pools_of(name))]) == []
        for it in members.values():
            it.delete()
        assert leftovers(internet.node) == []


FAMILIES = pytest.mark.parametrize("family", [IPV4, IPV6])
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, UDP])

HIDDEN = [
    ("masked", IPV4),
    ("masked", IPV6),
    ("only4", IPV4),
    ("only6", IPV6),
    ("except-others", IPV4),
    ("except-others", IPV6),
]
SHOWN = [
    ("plain", IPV4),
    ("plain", IPV6),
    ("only4", IPV6),
    ("only6", IPV4),
    ("neither", IPV4),
    ("neither", IPV6),
    ("except", IPV4),
    ("except", IPV6),
    ("except-one", IPV4),
    ("except-one", IPV6),
]


@PROTOCOLS
@pytest.mark.parametrize(("network", "family"), HIDDEN)
def test_outside_sees_the_hosts_address(nets: Nets, network: str, family: str, protocol: str) -> None:
    answer = ask(nets.members[network].place, protocol, OUTSIDE[family], PORT)
    assert answer == Answer("outside", NODE[family])


@PROTOCOLS
@pytest.mark.parametrize(("network", "family"), SHOWN)
def test_outside_sees_the_containers_own_address(
    nets: Nets, network: str, family: str, protocol: str
) -> None:
    container = nets.members[network]
    answer = ask(container.place, protocol, OUTSIDE[family], PORT)
    assert answer == Answer("outside", container.addresses[family])


@PROTOCOLS
@FAMILIES
def test_answers_come_back_from_who_knows_no_way_to_the_pools(nets: Nets, family: str, protocol: str) -> None:
    answer = ask(nets.members["masked"].place, protocol, BEYOND[family], PORT)
    assert answer == Answer("beyond", NODE_TO_BEYOND[family])


@PROTOCOLS
@FAMILIES
def test_who_is_no_exception_is_masqueraded_all_the_same(nets: Nets, family: str, protocol: str) -> None:
    answer = ask(nets.members["except"].place, protocol, BEYOND[family], PORT)
    assert answer == Answer("beyond", NODE_TO_BEYOND[family])


@PROTOCOLS
@FAMILIES
def test_the_host_sees_the_containers_own_address(nets: Nets, family: str, protocol: str) -> None:
    container = nets.members["masked"]
    answer = ask(container.place, protocol, NODE[family], PORT)
    assert answer == Answer("host", container.addresses[family])


@PROTOCOLS
@FAMILIES
@pytest.mark.parametrize("other", ["plain", "only4"])
def test_a_container_of_another_network_sees_the_containers_own_address(
    nets: Nets, other: str, family: str, protocol: str
) -> None:
    caller, called = nets.members["masked"], nets.members[other]
    answer = ask(caller.place, protocol, called.addresses[family], PORT)
    assert answer == Answer(other, caller.addresses[family])


@FAMILIES
def test_a_container_of_the_same_network_sees_the_containers_own_address(nets: Nets, family: str) -> None:
    caller = attach(nets.internet, network="masked", pools=pools_of("masked"), ipMasq=True)
    answer = ask(caller.place, TCP, nets.members["masked"].addresses[family], PORT)
    caller.delete()
    assert answer == Answer("masked", caller.addresses[family])


@PROTOCOLS
@FAMILIES
def test_who_calls_a_container_from_outside_is_seen_by_its_own_address(
    nets: Nets, family: str, protocol: str
) -> None:
    answer = ask(nets.internet.outside, protocol, nets.members["masked"].addresses[family], PORT)
    assert answer == Answer("masked", OUTSIDE[family])


@FAMILIES
def test_others_that_the_host_forwards_for_are_left_alone(nets: Nets, family: str) -> None:
    assert ask(nets.internet.outside, TCP, BEYOND[family], PORT) == Answer("beyond", OUTSIDE[family])


@FAMILIES
def test_a_second_member_that_leaves_does_not_take_the_masquerade_along(nets: Nets, family: str) -> None:
    second = attach(nets.internet, network="masked", pools=pools_of("masked"), ipMasq=True)
    second.delete()
    assert ask(nets.members["masked"].place, TCP, BEYOND[family], PORT).saw == NODE_TO_BEYOND[family]


@FAMILIES
def test_an_address_whose_container_is_gone_is_not_masqueraded_for_its_next_owner(
    nets: Nets, family: str
) -> None:
    """The next network may say otherwise of the same address."""
    pools = ({"cidr": "10.40.0.0/16"}, {"cidr": "fd40::/64"})
    first = attach(nets.internet, network="first", pools=pools, cooldown=0, ipMasq=True)
    first.delete()
    wanted = {"cni": {"ips": first.added.addresses}}
    second = attach(nets.internet, network="second", pools=pools, cooldown=0, args=wanted)
    answer = ask(second.place, TCP, OUTSIDE[family], PORT)
    second.delete()
    assert answer == Answer("outside", first.addresses[family])
