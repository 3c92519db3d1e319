"""Rules that are read back from the kernel as text say what they said when they were laid down."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import pytest

from netloom.kernel import Namespace, NftChain
from netloom.kernel.netlink.nftables import read_spelled_rules
from netloom.networks.features import masquerade
from netloom.networks.features.options import MasqueradeScope

pytestmark = pytest.mark.kernel

PLACE = ("inet", "netloom")
# Of each length, a range of both families, with bits in its last byte.
RANGES = [
    str(ipaddress.ip_network((address, length), strict=False))
    for address, longest in (("203.171.85.255", 32), ("fdab:cdef:5555:aaaa:ffff:1:2:3", 128))
    for length in range(longest + 1)
]


@pytest.fixture(scope="module")
def host() -> Iterator[Namespace]:
    with Namespace.new("a host") as made:
        made.nft.run("add table inet netloom")
        yield made


def laid_down(host: Namespace, chain: NftChain) -> tuple[str, ...] | None:
    host.nft.run(chain.commands)
    try:
        return read_spelled_rules(host.netfilter, *PLACE, chain.name)
    finally:
        host.nft.run(f"delete chain inet netloom {chain.name}")


def test_a_chain_that_masquerades_is_read_back_to_the_letter(host: Namespace) -> None:
    chain = masquerade.chain(MasqueradeScope(exceptions=tuple(RANGES)), ["10.9.0.0/16", "fd09::/64"])
    assert laid_down(host, chain) == chain.rules
    assert masquerade.chain_of(chain.rules).name == chain.name


@pytest.mark.parametrize(
    "rule",
    [
        "tcp dport 25 drop",
        "ip saddr 10.0.0.0/8 return",
        "ip daddr 10.0.0.0/8 drop",
        "ip daddr 10.0.0.1-10.0.0.7 return",
        "ip daddr & 255.0.255.0 == 10.0.1.0 return",
        "counter masquerade",
    ],
)
def test_of_another_form_nothing_is_claimed(host: Namespace, rule: str) -> None:
    chain = NftChain(family="inet", table="netloom", name="leave-x", rules=(rule, "masquerade"))
    assert laid_down(host, chain) is None


def test_of_a_chain_that_is_not_there_nothing_is_claimed(host: Namespace) -> None:
    assert read_spelled_rules(host.netfilter, *PLACE, "leave-none") is None
