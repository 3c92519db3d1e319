"""The plan of an attachment: what stands before what, and whose everything is."""

from __future__ import annotations

from typing import Any

import pytest

from netloom.kernel import NftChain, NftElement, Plan, Shaper, Up, Veth
from netloom.kernel.values import packed_ip
from netloom.networks import table
from netloom.networks.features import bandwidth as limits
from netloom.networks.features import isolation, masquerade, ports
from netloom.networks.features.options import Limit, Limits, MappedPort, MasqueradeScope
from netloom.networks.modes.base import Assigned, Attached
from netloom.networks.modes.routed import ROUTED

pytestmark = pytest.mark.unit

LINK = "loom0123456789a"
ADDRESSES = ("10.9.0.1", "fd09::1")


def attached(**changes: Any) -> Attached:
    return Attached(
        **{
            "network": "net",
            "host_link": LINK,
            "ifname": "eth0",
            "mac": "02:00:00:00:00:01",
            "mtu": 1500,
            "addresses": tuple(Assigned.of(packed_ip(it)) for it in ADDRESSES),
            "pools": ("10.9.0.0/16", "fd09::/64"),
            **changes,
        }
    )


def everything() -> Attached:
    return attached(
        masquerade=MasqueradeScope(exceptions=("192.0.2.0/24",)),
        ports=tuple(
            MappedPort(protocol="udp", host_port=number, ip=ip, port=80, host_ip=host_ip)
            for number, ip, host_ip in (
                (8080, "10.9.0.1", ""),
                (8080, "fd09::1", ""),
                (8081, "10.9.0.1", "192.0.2.1"),
                (8082, "10.9.0.1", "127.0.0.1"),
                (8083, "10.9.0.1", "127.0.0.53"),
                (8084, "fd09::1", "::1"),
            )
        ),
        limits=Limits(ingress=Limit(8_000_000), egress=Limit(16_000_000)),
        isolation="networks",
        settings=(("net/core/somaxconn", "77"),),
    )


def place_of(plan: Plan, kind: type) -> list[int]:
    return [number for number, it in enumerate(plan.objects) if isinstance(it, kind)]


def test_what_a_container_may_send_is_known_before_its_link_is_there() -> None:
    plan = ROUTED.plan(everything())
    assert max(place_of(plan, NftElement)) < min(place_of(plan, Veth))


def test_chains_are_there_before_what_leads_to_them() -> None:
    plan = ROUTED.plan(everything())
    assert max(place_of(plan, NftChain)) < min(place_of(plan, NftElement))


def test_limits_are_there_before_the_link_is_up() -> None:
    plan = ROUTED.plan(everything())
    shapers = place_of(plan, Shaper)
    (up,) = [number for number in place_of(plan, Up) if plan.objects[number] == Up(LINK, link_local=False)]
    assert max(shapers) < up


def test_every_element_tells_whose_it_is() -> None:
    elements = [it for it in ROUTED.plan(everything()).objects if isinstance(it, NftElement)]
    assert table.owners(elements) == dict.fromkeys(elements, LINK)


def test_elements_of_two_are_told_apart() -> None:
    one = ROUTED.plan(everything())
    other = ROUTED.plan(
        attached(
            host_link="loomother",
            addresses=(Assigned.of(packed_ip("10.9.0.2")),),
            ports=(MappedPort(protocol="tcp", host_port=8080, ip="10.9.0.2", port=80),),
            masquerade=MasqueradeScope(),
            isolation="containers",
        )
    )
    elements = {
        link: [it for it in plan.objects if isinstance(it, NftElement)]
        for link, plan in ((LINK, one), ("loomother", other))
    }
    owners = table.owners([it for some in elements.values() for it in some])
    assert owners == {it: link for link, some in elements.items() for it in some}


def test_a_plan_tells_what_its_network_said() -> None:
    plan = Plan.decode(ROUTED.plan(everything()).encode())
    assert isolation.of_plan(plan) == "networks"
    assert masquerade.described(plan) == {
        "ipv4": True,
        "ipv6": True,
        "inside": ["10.9.0.0/16", "fd09::/64", "192.0.2.0/24"],
    }
    assert ports.of_plan(plan) == list(everything().ports)
    told = limits.described(plan)
    assert told is not None
    assert (told["ingressRate"], told["egressRate"]) == (8_000_000, 16_000_000)


def test_a_plan_of_a_network_that_says_nothing_tells_nothing() -> None:
    plan = ROUTED.plan(attached())
    assert (isolation.of_plan(plan), ports.of_plan(plan)) == ("none", [])
    assert (masquerade.described(plan), limits.described(plan)) == (None, None)
    assert place_of(plan, NftChain) == []
