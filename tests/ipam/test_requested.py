"""Addresses asked for by name: three ways to ask, and one answer to a bad question."""

from __future__ import annotations

import pytest

from netloom.cni import CNIError, InvalidConfig, InvalidEnvironment
from netloom.ipam import PoolConfig, requested_addresses
from netloom.kernel.values import shown_ip

from .book import pools_of

pytestmark = pytest.mark.unit

POOLS = pools_of(PoolConfig("10.1.0.0/24", "10.1.0.1", ("10.1.0.9",)), "fd00::/64")


def asked(args: str | None = None, cni: tuple[str, ...] = (), capability: tuple[str, ...] = ()) -> list[str]:
    return [shown_ip(ip) for ip in requested_addresses(args, cni, capability, POOLS)]


def test_nothing_asked_is_nothing_requested() -> None:
    assert asked() == []
    assert asked("") == []


def test_the_three_ways_add_up_in_order_and_each_address_counts_once() -> None:
    found = asked(
        "10.1.0.5,fd00::5", ("10.1.0.6/24", "10.1.0.5"), ("FD00:0::5/64", "10.1.0.7/32", "10.1.0.6")
    )
    assert found == ["10.1.0.5", "fd00::5", "10.1.0.6", "10.1.0.7"]


def test_a_prefix_length_is_ignored_even_if_it_is_not_the_pools() -> None:
    assert asked("10.1.0.5/8") == ["10.1.0.5"]


BAD = [
    ("nine", "'nine' is not an IP address"),
    ("10.1.0.5/33", "'10.1.0.5/33' is not an IP address"),
    ("10.1.0.300", "is not an IP address"),
    ("x" * 5000, "(5000 characters)"),
    ("10.9.0.5", "10.9.0.5 is in none of the pools"),
    ("fd01::5", "fd01::5 is in none of the pools"),
    ("::ffff:10.1.0.5", "is in none of the pools"),
    ("10.1.0.0", "10.1.0.0 is the network address of 10.1.0.0/24"),
    ("10.1.0.255", "10.1.0.255 is the broadcast address of 10.1.0.0/24"),
    ("10.1.0.1", "10.1.0.1 is the gateway of 10.1.0.0/24"),
    ("10.1.0.9", "10.1.0.9 is excluded from 10.1.0.0/24"),
    ("fd00::", "fd00:: is the subnet-router anycast address of fd00::/64"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_bad_address_is_the_fault_of_the_way_it_came(text: str, said: str) -> None:
    ways: list[tuple[type[CNIError], str, str | None, tuple[str, ...], tuple[str, ...]]] = [
        (InvalidEnvironment, "CNI_ARGS", text, (), ()),
        (InvalidConfig, "args.cni.ips", None, (text,), ()),
        (InvalidConfig, "the capability ips", None, (), (text,)),
    ]
    for kind, way, args, cni, capability in ways:
        with pytest.raises(kind) as refused:
            asked(args, cni, capability)
        assert said in str(refused.value)
        assert way in str(refused.value)


def test_the_error_lists_the_pools() -> None:
    with pytest.raises(InvalidEnvironment, match=r"the network's pools are 10\.1\.0\.0/24, fd00::/64"):
        asked("10.9.0.5")


@pytest.mark.parametrize("text", ["10.1.0.5,", ",10.1.0.5", "10.1.0.5,,10.1.0.6", ","])
def test_an_empty_place_between_commas_is_an_error(text: str) -> None:
    with pytest.raises(InvalidEnvironment, match="'' is not an IP address"):
        asked(text)
