"""Pools as an operator may write them, and what ADD gives from them."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

Pools = list[dict[str, Any]]


@pytest.fixture
def untouched(lasting: Node) -> Iterator[Node]:
    """A node that must have no attachment when the test ends."""
    yield lasting
    assert lasting.ledger().places() == []


@pytest.mark.parametrize(
    "pools",
    [
        [{"cidr": "10.9.0.0/16"}, {"cidr": "10.9.3.0/24"}],
        [{"cidr": "fd09::/64"}, {"cidr": "fd09::/64"}],
        [{"cidr": "10.9.0.0"}],
        [{"cidr": "10.9.0.1/16"}],
        [{"cidr": "10.9.0.0/33"}],
        [{"cidr": "::ffff:10.9.0.0/112"}],
        [{"cidr": "127.0.0.0/8"}],
        [{"cidr": "169.254.0.0/16"}],
        [{"cidr": "224.0.0.0/8"}],
        [{"cidr": "0.0.0.0/0"}],
        [{"cidr": "::/0"}],
        [{"cidr": "fe80::/64"}],
        [{"cidr": "ff02::/64"}],
        [{"cidr": "10.9.0.0/24", "gateway": "10.8.0.1"}],
        [{"cidr": "10.9.0.0/24", "gateway": "fd09::1"}],
        [{"cidr": "10.9.0.1/32", "gateway": "10.9.0.1"}],
        [{"cidr": "10.9.0.0/30", "exclude": ["10.9.0.1-10.9.0.2"]}],
        [{"cidr": "10.9.0.0/24", "exclude": ["10.8.0.1"]}],
        [{"cidr": "10.9.0.0/24", "exclude": ["10.9.0.9-10.9.0.5"]}],
        [{"cidr": "10.9.0.0/24", "strategy": "best"}],
    ],
    ids=json.dumps,
)
def test_a_pool_that_cannot_work_is_code_7(untouched: Node, pools: Pools) -> None:
    config = untouched.config(pools=pools)
    assert untouched.plugin("ADD", untouched.container(), config).code == 7
    assert untouched.plugin("STATUS", config=config).code == 50


@pytest.mark.parametrize(
    ("pools", "capacity"),
    [
        ([{"cidr": "10.9.0.7/32"}], 1),
        ([{"cidr": "10.9.0.6/31"}], 2),
        ([{"cidr": "10.9.0.4/30"}], 2),
        ([{"cidr": "10.9.0.4/30", "gateway": "10.9.0.5"}], 1),
        ([{"cidr": "fd09::7/128"}], 1),
        ([{"cidr": "fd09::6/127"}], 2),
        ([{"cidr": "fd09::4/126"}], 3),
        ([{"cidr": "10.9.0.7/32"}, {"cidr": "10.9.0.9/32"}], 2),
    ],
    ids=json.dumps,
)
def test_a_small_pool_gives_all_that_it_has_and_then_says_so(
    running: Node, pools: Pools, capacity: int
) -> None:
    config = running.config(pools=pools)
    given = [running.add(running.container(), config).addresses[0] for _ in range(capacity)]
    assert len(set(given)) == capacity
    done = running.plugin("ADD", running.container(), config)
    assert done.status == 1
    assert "no IPv" in done.message
    assert pools[0]["cidr"] in done.message
    assert running.audit(pools) == []


def test_the_first_and_the_last_address_and_the_gateway_are_never_given(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.0/29", "gateway": "10.9.0.3"}])
    given = [running.add(running.container(), config).addresses[0] for _ in range(5)]
    assert sorted(given) == ["10.9.0.1", "10.9.0.2", "10.9.0.4", "10.9.0.5", "10.9.0.6"]


def test_the_gateway_of_a_pool_is_the_containers_next_hop(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.0/24", "gateway": "10.9.0.1"}])
    one, other = running.container(), running.container()
    result = running.add(one, config).document
    assert result["ips"][0]["gateway"] == "10.9.0.1"
    assert result["routes"] == [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}]
    address = running.add(other, config).addresses[0]
    assert running.ping(one, address)


def test_what_is_excluded_is_never_given(running: Node) -> None:
    pools = [{"cidr": "10.9.0.0/28", "exclude": ["10.9.0.1-10.9.0.9", "10.9.0.12/31", "10.9.0.14"]}]
    config = running.config(pools=pools)
    given = [running.add(running.container(), config).addresses[0] for _ in range(2)]
    assert sorted(given) == ["10.9.0.10", "10.9.0.11"]


def test_a_64_gives_addresses_as_fast_as_a_small_pool(running: Node) -> None:
    config = running.config(pools=[{"cidr": "fd09::/64", "strategy": "random"}])
    given = {running.ask("ADD", running.container(), config).addresses[0] for _ in range(20)}
    assert len(given) == 20


def test_a_pod_has_nearly_the_same_embedded_address_again(running: Node) -> None:
    """But for the last digit, which tells apart those that are the same in all else."""
    config = running.config(pools=[{"cidr": "fd09::/64", "strategy": "embedded"}], cooldown=0)
    args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=web;K8S_POD_NAME=shop-0"
    container = running.container()
    first = running.add(container, config, CNI_ARGS=args).addresses[0]
    running.delete(container, config, CNI_ARGS=args)
    second = running.add(container, config, CNI_ARGS=args).addresses[0]
    whole = [ipaddress.ip_address(address).exploded for address in (first, second)]
    assert whole[0][:-1] == whole[1][:-1]


def test_if_one_family_is_exhausted_nothing_of_the_other_is_taken(running: Node) -> None:
    pools: Pools = [{"cidr": "10.9.0.0/24"}, {"cidr": "fd09::1/128"}]
    config = running.config(pools=pools)
    running.add(running.container(), config)
    done = running.plugin("ADD", running.container(), config)
    assert "no IPv6 address is left" in done.message
    assert len(list(running.ledger().held())) == 2
    assert running.audit(pools) == []


def test_a_pool_that_was_made_smaller_keeps_what_is_outside_of_it(running: Node) -> None:
    wide = running.config(pools=[{"cidr": "10.9.0.0/24"}])
    containers = [running.container() for _ in range(4)]
    for container in containers:
        running.add(container, wide)
    narrow = running.config(pools=[{"cidr": "10.9.0.0/30"}])
    assert running.plugin("ADD", running.container(), narrow).status == 1
    assert running.audit([{"cidr": "10.9.0.0/30"}]) == []
    for container in containers:
        running.delete(container, narrow)
    assert running.audit([{"cidr": "10.9.0.0/30"}]) == []


def test_two_networks_with_one_pool_never_give_the_same_address(running: Node) -> None:
    pools: Pools = [{"cidr": "10.9.0.0/29"}]
    given = []
    for number in range(6):
        config = running.config(f"net{number % 2}", pools=pools)
        given += running.add(running.container(), config).addresses
    assert len(set(given)) == 6
    assert running.audit(pools) == []


def test_a_released_address_rests(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=100)
    container = running.container()
    running.add(container, config)
    running.delete(container, config)
    done = running.plugin("ADD", container, config)
    assert done.status == 1
    assert "1 resting" in done.message


def test_an_address_rests_over_a_restart(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=100)
    container = running.container()
    running.add(container, config)
    running.delete(container, config)
    running.kill()
    running.start()
    assert running.plugin("ADD", container, config).status == 1


def test_without_a_cooldown_an_address_is_free_at_once(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=0)
    container = running.container()
    for _ in range(3):
        running.add(container, config)
        running.delete(container, config)


def test_under_pressure_a_tenth_of_the_rest_is_enough(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=40)
    container = running.container()
    running.add(container, config)
    running.delete(container, config)
    assert running.plugin("ADD", container, config).status == 1
    assert eventually(lambda: running.plugin("ADD", container, config).status == 0)


def test_an_add_that_failed_costs_no_address(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=100)
    container = running.container()
    running.in_container(container, "ip", "link", "add", "eth0", "type", "bridge")
    for _ in range(3):
        assert running.plugin("ADD", container, config).code == 102
    running.in_container(container, "ip", "link", "del", "eth0")
    assert running.add(container, config).addresses == ["10.9.0.1"]
