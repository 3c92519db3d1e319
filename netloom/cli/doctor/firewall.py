"""Rules of others that drop what containers send. In nftables, every table has to let a packet pass."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...findings import Finding
from ...ipam import Pool
from ...kernel.nft_listing import listed
from ...modes.names import PREFIX
from ...modes.table import TABLE
from .ground import Ground
from .legacy import legacy_findings
from .packet import Packet
from .verdicts import Chain, Ruleset

# As any two containers' links are named; and somewhere else, by family.
_ONE, _OTHER = f"{PREFIX}00000000001", f"{PREFIX}00000000002"
_FAR_AWAY = {4: ipaddress.ip_network("198.41.0.4/32"), 6: ipaddress.ip_network("2001:503:ba3e::2:30/128")}


class Traffic(NamedTuple):
    """A kind of packets that has to pass, in words and as it is at the hook `forward`."""

    what: str
    pool: str
    packet: Packet


def look(ground: Ground) -> Iterator[Finding]:
    traffic = list(_traffic(ground.pools, ground.uplink.link if ground.uplink else ""))
    yield from legacy_findings({pool.family for pool in ground.pools})
    if not traffic:
        return
    rules = Ruleset(listed(ground.host))
    for chain in rules.bases:
        if not TABLE.is_at(chain.family, chain.table):
            yield from _judged(chain, rules, traffic)


def _traffic(pools: Sequence[Pool], uplink: str) -> Iterator[Traffic]:
    for pool in pools:
        own, far = ipaddress.ip_network(pool.cidr, strict=False), _FAR_AWAY[pool.family]
        yield Traffic(
            "what containers send to each other",
            pool.cidr,
            Packet(iif=_ONE, oif=_OTHER, source=own, destination=own),
        )
        if uplink:
            yield Traffic(
                "what they send to the outside",
                pool.cidr,
                Packet(iif=_ONE, oif=uplink, source=own, destination=far),
            )
            yield Traffic(
                "answers to them",
                pool.cidr,
                Packet(iif=uplink, oif=_ONE, source=far, destination=own, state="established"),
            )


def _judged(chain: Chain, rules: Ruleset, traffic: Sequence[Traffic]) -> Iterator[Finding]:
    dropped = [(it, _dropped(chain, rules, it.packet)) for it in traffic if chain.sees(it.packet)]
    sure = [it for it, verdict in dropped if verdict]
    maybe = [it for it, verdict in dropped if verdict is None]
    if sure or maybe:
        does = "drops" if sure else "may drop"
        kinds = dict.fromkeys(it.what for it in sure or maybe)
        pools = dict.fromkeys(it.pool for it in sure or maybe)
        yield Finding(
            code="foreign-drop",
            severity="error" if sure else "warning",
            subject=f"{chain.family} {chain.table} {chain.name}",
            text=f"{chain} {does} {', '.join(kinds)} ({', '.join(pools)})",
            next=_remedy(chain, rules),
        )


def _dropped(chain: Chain, rules: Ruleset, packet: Packet) -> bool | None:
    if chain.hook == "prerouting":
        return rules.drops(chain, replace(packet, oif=""))
    if chain.hook == "postrouting":
        return rules.drops(chain, replace(packet, iif=""))
    return rules.drops(chain, packet) if chain.hook == "forward" else False


def _remedy(chain: Chain, rules: Ruleset) -> str:
    """With the firewall's own words where it is known; else with nft's."""
    if chain.table == "firewalld":
        return (
            f"`firewall-cmd --permanent --zone=trusted --add-interface={PREFIX}+`, then "
            "`firewall-cmd --reload`"
        )
    if chain.family in ("ip", "ip6") and chain.table == "filter" and chain.name == "FORWARD":
        command = "iptables" if chain.family == "ip" else "ip6tables"
        has_own = rules.has(chain.family, chain.table, "DOCKER-USER")
        into = "DOCKER-USER" if has_own else "FORWARD"
        return (
            f"`{command} -I {into} -i {PREFIX}+ -j ACCEPT` and `{command} -I {into} -o {PREFIX}+ -j ACCEPT`; "
            "keep them where that firewall keeps its rules"
        )
    insert = f"nft insert rule {chain.family} {chain.table} {chain.name}"
    ways = [f'`{insert} iifname "{PREFIX}*" accept`'] if chain.hook != "postrouting" else []
    ways += [f'`{insert} oifname "{PREFIX}*" accept`'] if chain.hook != "prerouting" else []
    return f"{' and '.join(ways)}; keep them where that firewall keeps its rules"
