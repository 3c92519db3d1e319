"""Which networks of the host a pool overlaps: those whose machines could have a container's address."""

from __future__ import annotations

import pytest

from netloom.ipam import PoolConfig, parse_pools
from netloom.kernel.values import packed_network
from netloom.ops.findings.pools import HostNetwork, host_networks, overlap_warnings

from ..fixtures.machine import Machine
from ..fixtures.node import Node


def network(cidr: str, *, near: bool = True) -> HostNetwork:
    packed, prefix = packed_network(cidr)
    return HostNetwork(packed, prefix, "eth0", near)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("pool", "found", "overlap"),
    [
        (PoolConfig("10.78.0.0/16"), network("10.78.5.0/24"), True),
        (PoolConfig("10.78.0.0/16"), network("10.0.0.0/8"), True),
        (PoolConfig("10.78.0.0/16"), network("10.79.0.0/16"), False),
        (PoolConfig("10.78.0.0/16"), network("fd78::/64"), False),
        (PoolConfig("fd78::/64"), network("fd78::/48"), True),
        (PoolConfig("10.78.0.0/16"), network("10.78.5.0/24", near=False), True),
        (PoolConfig("10.78.0.0/16"), network("10.78.5.9/32", near=False), True),
        # The way to many networks, of which the pool may well be one.
        (PoolConfig("10.78.0.0/16"), network("10.0.0.0/8", near=False), False),
        # What is set aside is not given.
        (PoolConfig("10.78.0.0/16", exclude=("10.78.5.0/24",)), network("10.78.5.0/24"), False),
    ],
)
def test_a_pool_overlaps_where_it_gives_addresses(
    pool: PoolConfig, found: HostNetwork, overlap: bool
) -> None:
    assert bool(overlap_warnings(parse_pools([pool]), [found])) == overlap


@pytest.mark.unit
def test_many_networks_are_one_warning_that_can_be_read() -> None:
    many = [network(f"10.78.{number}.0/24") for number in range(9)]
    (warning,) = overlap_warnings(parse_pools([PoolConfig("10.78.0.0/16")]), many)
    assert "10.78.2.0/24 on eth0 and 6 more" in warning


@pytest.mark.kernel
def test_the_hosts_networks_are_those_of_its_addresses_and_routes(bare: Machine) -> None:
    def ip(*words: str) -> None:
        bare.node.inside("ip", *words)

    ip("link", "add", "lan0", "type", "bridge")
    ip("address", "add", "10.1.0.7/24", "dev", "lan0")
    ip("address", "add", "fd01::7/64", "dev", "lan0")
    ip("address", "add", "10.9.9.9/32", "dev", "lo")
    ip("link", "set", "lan0", "up")
    ip("route", "add", "10.2.0.0/16", "via", "10.1.0.1")
    ip("route", "add", "default", "via", "10.1.0.1")
    ip("route", "add", "0.0.0.0/1", "dev", "lan0")
    ip("route", "add", "blackhole", "10.3.0.0/16")
    assert names(bare.node) == ["10.1.0.0/24 on lan0", "10.2.0.0/16 on lan0", "fd01::/64 on lan0"]


@pytest.mark.kernel
def test_a_link_that_is_down_counts_and_our_own_routes_do_not(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.node.inside("ip", "link", "add", "lan0", "type", "bridge")
    machine.node.inside("ip", "address", "add", "10.78.0.200/25", "dev", "lan0")
    assert names(machine.node) == ["10.78.0.128/25 on lan0"]


def names(node: Node) -> list[str]:
    """Without what every host has: the loopback network, and link-local ones."""
    with node.namespace.entered():
        found = [str(it) for it in host_networks()]
    return sorted(it for it in found if not it.startswith(("127.", "fe80::")))
