"""Which pools are accepted, what is usable in them, and what is said of the others."""

from __future__ import annotations

import msgspec
import pytest

from netloom.cni import InvalidConfig
from netloom.ipam import PoolConfig, parse_pools
from netloom.kernel.values import packed_ip, shown_ip

from .book import every, pool_of, pools_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("config", "usable"),
    [
        (PoolConfig("10.1.0.0/29"), ["10.1.0.1", "10.1.0.6"]),
        (PoolConfig("10.1.0.0/30"), ["10.1.0.1", "10.1.0.2"]),
        (PoolConfig("10.1.0.0/31"), ["10.1.0.0", "10.1.0.1"]),
        (PoolConfig("10.1.0.7/32"), ["10.1.0.7", "10.1.0.7"]),
        (PoolConfig("10.1.0.0/31", gateway="10.1.0.0"), ["10.1.0.1", "10.1.0.1"]),
        (PoolConfig("10.1.0.0/29", gateway="10.1.0.1"), ["10.1.0.2", "10.1.0.6"]),
        (PoolConfig("10.1.0.0/29", exclude=("10.1.0.0/30",)), ["10.1.0.4", "10.1.0.6"]),
        (PoolConfig("10.1.0.0/29", exclude=("10.1.0.1-10.1.0.4", "10.1.0.6")), ["10.1.0.5", "10.1.0.5"]),
        (PoolConfig("10.1.0.0/29", exclude=("10.1.0.2 - 10.1.0.7",)), ["10.1.0.1", "10.1.0.1"]),
        (PoolConfig("fd00::/125"), ["fd00::1", "fd00::7"]),
        (PoolConfig("fd00::/126"), ["fd00::1", "fd00::3"]),
        (PoolConfig("fd00::/127"), ["fd00::", "fd00::1"]),
        (PoolConfig("fd00::5/128"), ["fd00::5", "fd00::5"]),
        (PoolConfig("FD00:0::0/64"), ["fd00::1", "fd00::ffff:ffff:ffff:ffff"]),
        (PoolConfig("fd00::/64", gateway="fd00::1", exclude=("fd00::/112",)), ["fd00::1:0", None]),
        (PoolConfig("2000::/3"), ["2000::1", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
    ],
)
def test_the_first_and_the_last_usable_address_are_these(
    config: PoolConfig, usable: list[str | None]
) -> None:
    (pool,) = parse_pools([config])
    assert shown_ip(pool.at(0)) == usable[0]
    assert int.from_bytes(pool.at(0), "big") == pool.low
    assert usable[1] is None or shown_ip(pool.at(pool.capacity - 1)) == usable[1]
    assert int.from_bytes(pool.at(pool.capacity - 1), "big") == pool.high


@pytest.mark.parametrize(
    ("config", "capacity"),
    [
        (PoolConfig("10.0.0.0/8"), 2**24 - 2),
        (PoolConfig("10.0.0.0/8", "10.0.0.1", ("10.0.0.0/16", "10.0.255.0/24")), 2**24 - 2**16 - 1),
        (PoolConfig("10.0.0.0/31"), 2),
        (PoolConfig("10.0.0.0/32"), 1),
        (PoolConfig("fd00::/64"), 2**64 - 1),
        (PoolConfig("fd00::/64", gateway="fd00::1"), 2**64 - 2),
        (PoolConfig("fd00::/64", exclude=("fd00::/65", "fd00::3")), 2**63),
        (PoolConfig("fd00::/127"), 2),
        (PoolConfig("fd00::/128"), 1),
        (PoolConfig("2000::/3"), 2**125 - 1),
    ],
)
def test_the_capacity_is_exact(config: PoolConfig, capacity: int) -> None:
    (pool,) = parse_pools([config])
    assert pool.capacity == capacity


def test_overlapping_exclusions_count_once() -> None:
    pool = pool_of("10.1.0.0/28", "10.1.0.3", ("10.1.0.2-10.1.0.5", "10.1.0.4/30", "10.1.0.5", "10.1.0.15"))
    assert [shown_ip(ip) for ip in every(pool)] == ["10.1.0.1", *(f"10.1.0.{n}" for n in range(8, 15))]


def test_the_text_of_a_pool_is_canonical() -> None:
    pools = pools_of("FD00:0:0::/64", "10.1.0.0/24")
    assert [pool.cidr for pool in pools] == ["fd00::/64", "10.1.0.0/24"]


def test_the_same_config_is_read_once() -> None:
    first = parse_pools([PoolConfig("10.1.0.0/24", exclude=("10.1.0.9",))])
    assert parse_pools([PoolConfig("10.1.0.0/24", exclude=("10.1.0.9",))]) is first


def test_a_config_comes_from_json_and_an_unknown_key_is_refused() -> None:
    text = b'{"cidr": "10.1.0.0/24", "gateway": "10.1.0.1", "exclude": ["10.1.0.9"], "strategy": "random"}'
    config = msgspec.json.decode(text, type=PoolConfig)
    assert config == PoolConfig("10.1.0.0/24", "10.1.0.1", ("10.1.0.9",), "random")
    with pytest.raises(msgspec.ValidationError, match="gatway"):
        msgspec.json.decode(b'{"cidr": "10.1.0.0/24", "gatway": "10.1.0.1"}', type=PoolConfig)
    with pytest.raises(msgspec.ValidationError, match="strategy"):
        msgspec.json.decode(b'{"cidr": "10.1.0.0/24", "strategy": "sticky"}', type=PoolConfig)


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ([], 'configure at least one pool, such as {"cidr": "10.1.0.0/24"}'),
        ([PoolConfig("")], "'' is not a network"),
        ([PoolConfig("ten/8")], "'ten/8' is not a network"),
        ([PoolConfig("10.1.0.0/33")], "'10.1.0.0/33' is not a network"),
        ([PoolConfig("10.1.0.0/-1")], "'10.1.0.0/-1' is not a network"),
        ([PoolConfig("10.1.0.0/24/24")], "'10.1.0.0/24/24' is not a network"),
        ([PoolConfig("10.1.0.0/")], "'10.1.0.0/' is not a network"),
        ([PoolConfig("10.1.0.0/255.255.255.0")], "is not a network"),
        ([PoolConfig("010.1.0.0/24")], "is not a network"),
        ([PoolConfig("fd00::%eth0/64")], "is not a network"),
        ([PoolConfig("10.1.0.0/24\0")], "is not a network"),
        ([PoolConfig("fd00::/129")], "'fd00::/129' is not a network"),
        ([PoolConfig("1" * 5000)], "(5000 characters)"),
        ([PoolConfig("10.1.0.0")], "10.1.0.0 has no prefix length"),
        (
            [PoolConfig("10.1.0.7/24")],
            "for the network write 10.1.0.0/24, for the single address 10.1.0.7/32",
        ),
        ([PoolConfig("fd00::1/64")], "for the network write fd00::/64, for the single address fd00::1/128"),
        ([PoolConfig("0.0.0.0/0")], "0.0.0.0/8 (unspecified)"),
        ([PoolConfig("0.0.0.0/32")], "0.0.0.0/8 (unspecified)"),
        ([PoolConfig("127.0.0.0/16")], "127.0.0.0/8 (loopback)"),
        ([PoolConfig("126.0.0.0/7")], "127.0.0.0/8 (loopback)"),
        ([PoolConfig("169.254.1.0/24")], "169.254.0.0/16 (link-local)"),
        ([PoolConfig("169.254.0.0/15")], "169.254.0.0/16 (link-local)"),
        ([PoolConfig("224.1.0.0/16")], "224.0.0.0/4 (multicast)"),
        ([PoolConfig("240.0.0.0/8")], "240.0.0.0/4 (class E and broadcast)"),
        ([PoolConfig("255.255.255.255/32")], "240.0.0.0/4 (class E and broadcast)"),
        ([PoolConfig("::/0")], "::/128 (unspecified)"),
        ([PoolConfig("::/64")], "::/128 (unspecified)"),
        ([PoolConfig("::1/128")], "::1/128 (loopback)"),
        ([PoolConfig("fd6e:6574:6c6f:6f6d::/64")], "netloom's own"),
        ([PoolConfig("::ffff:10.1.0.0/120")], "::ffff:0:0/96 (IPv4 written as IPv6)"),
        ([PoolConfig("fe80::/64")], "fe80::/10 (link-local)"),
        ([PoolConfig("ff02::/16")], "ff00::/8 (multicast)"),
        ([PoolConfig("10.1.0.0/24"), PoolConfig("10.1.0.0/24")], "10.1.0.0/24 and 10.1.0.0/24 overlap"),
        ([PoolConfig("10.1.1.0/24"), PoolConfig("10.1.0.0/16")], "10.1.0.0/16 and 10.1.1.0/24 overlap"),
        (
            [PoolConfig("10.1.0.0/16"), PoolConfig("10.2.0.0/16"), PoolConfig("10.1.255.255/32")],
            "10.1.0.0/16 and 10.1.255.255/32 overlap",
        ),
        ([PoolConfig("fd00::/48"), PoolConfig("fd00:0:0:7::/64")], "fd00::/48 and fd00:0:0:7::/64 overlap"),
        ([PoolConfig("10.1.0.0/24", gateway="10.2.0.1")], "gateway 10.2.0.1 is not in its pool 10.1.0.0/24"),
        ([PoolConfig("10.1.0.0/24", gateway="fd00::1")], "not of the family of its pool 10.1.0.0/24"),
        ([PoolConfig("10.1.0.0/24", gateway="10.1.0.0")], "is the network address of its pool"),
        ([PoolConfig("10.1.0.0/24", gateway="10.1.0.255")], "is the broadcast address of its pool"),
        ([PoolConfig("fd00::/64", gateway="fd00::")], "is the subnet-router anycast address of its pool"),
        ([PoolConfig("10.1.0.0/24", gateway="")], "'' is not an IP address"),
        ([PoolConfig("10.1.0.0/24", gateway="10.1.0.1/24")], "'10.1.0.1/24' is not an IP address"),
        ([PoolConfig("10.1.0.7/32", gateway="10.1.0.7")], "10.1.0.7/32 has no usable address"),
        ([PoolConfig("10.1.0.0/30", exclude=("10.1.0.1", "10.1.0.2"))], "has no usable address"),
        ([PoolConfig("fd00::/64", exclude=("fd00::/64",))], "fd00::/64 has no usable address"),
        ([PoolConfig("10.1.0.0/24", exclude=("10.2.0.1",))], "'10.2.0.1' is not in the pool"),
        ([PoolConfig("10.1.0.0/24", exclude=("10.0.0.0/8",))], "'10.0.0.0/8' is not in the pool"),
        (
            [PoolConfig("10.1.0.0/24", exclude=("10.1.0.250-10.1.1.5",))],
            "'10.1.0.250-10.1.1.5' is not in the",
        ),
        ([PoolConfig("10.1.0.0/24", exclude=("fd00::1",))], "'fd00::1' is not in the pool"),
        ([PoolConfig("fd00::/64", exclude=("10.1.0.1",))], "'10.1.0.1' is not in the pool"),
        (
            [PoolConfig("10.1.0.0/24", exclude=("10.1.0.9-10.1.0.5",))],
            "does not run from an address to a later",
        ),
        (
            [PoolConfig("10.1.0.0/24", exclude=("10.1.0.9-fd00::1",))],
            "does not run from an address to a later",
        ),
        ([PoolConfig("10.1.0.0/24", exclude=("10.1.0.9-",))], "'' is not an IP address"),
        ([PoolConfig("10.1.0.0/24", exclude=("10.1.0.1-10.1.0.2-10.1.0.3",))], "is not an IP address"),
        ([PoolConfig("10.1.0.0/24", exclude=("10.1.0.9/29",))], "for the network write 10.1.0.8/29"),
        ([PoolConfig("10.1.0.0/24", exclude=("nine",))], "exclude of pool 10.1.0.0/24: 'nine' is not"),
        ([PoolConfig("10.1.0.0/24", exclude=("",))], "'' is not"),
    ],
)
def test_a_bad_pool_is_refused_in_a_sentence_that_names_the_value(
    configs: list[PoolConfig], said: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_pools(configs)
    assert said in str(refused.value)
    assert refused.value.code == 7


@pytest.mark.parametrize(
    ("ip", "reason"),
    [
        ("10.1.0.0", "is the network address of 10.1.0.0/24"),
        ("10.1.0.255", "is the broadcast address of 10.1.0.0/24"),
        ("10.1.0.1", "is the gateway of 10.1.0.0/24"),
        ("10.1.0.9", "is excluded from 10.1.0.0/24"),
        ("10.1.1.1", "is not in 10.1.0.0/24"),
        ("a01:2::", "is not in 10.1.0.0/24"),
        ("::10.1.0.2", "is not in 10.1.0.0/24"),
        ("10.1.0.2", None),
    ],
)
def test_a_pool_says_why_it_does_not_give_an_address(ip: str, reason: str | None) -> None:
    pool = pool_of("10.1.0.0/24", "10.1.0.1", ("10.1.0.8/30",))
    assert pool.refusal(packed_ip(ip)) == reason
    assert (packed_ip(ip) in pool) == (reason is None)
