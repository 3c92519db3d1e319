"""Orphans: links of ours that no attachment in the journal has, as after a journal was lost.

Each may lead to a container that works as before, so its addresses stay reserved. It goes when its container
is deleted, with its namespace, or by hand. What it has in the nft table is kept by `orphan_table`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from ...api.findings import Finding
from ...journal import Ledger
from ...kernel import Namespace
from ...kernel.errors import ABSENT, Refused
from ...kernel.netlink import route
from ...kernel.objects.link import link_names
from ...kernel.values import shown_ip
from ...networks import names

# Whoever answers a question about the journal.
Survey: TypeAlias = Callable[[Callable[[Ledger], list[str]]], list[str]]

CODE = "link-orphaned"

_FAMILIES = {2: 32, 10: 128}
# Of as many, each is told of by itself.
_SHOWN = 3


def orphans_at(host: Namespace, survey: Survey) -> dict[str, frozenset[bytes]]:
    """By name, with the addresses that are routed to each.

    An attachment is in the journal from before its link is made until after it is gone. So what is there
    before and after the journal was asked, and is not in it, is nobody's.
    """
    there = {it.name: it.index for it in link_names(host).values() if names.host_link_of(it.name) == it.name}

    def unknown(ledger: Ledger) -> list[str]:
        return [name for name in sorted(there) if not ledger.has_link(name)]

    lost = survey(unknown) if there else []
    if not lost:
        return {}
    routed = _routed(host, {there[name] for name in lost})
    return {
        name: frozenset(routed.get(there[name], ())) for name in lost if _index(host, name) == there[name]
    }


def _index(host: Namespace, name: str) -> int | None:
    try:
        return host.route.index(name)
    except Refused:
        return None


def _routed(host: Namespace, indexes: Collection[int]) -> dict[int, set[bytes]]:
    """By the index of a link, the addresses to which our own routes lead by it."""
    found: dict[int, set[bytes]] = {index: set() for index in indexes}
    for family, prefix in _FAMILIES.items():
        try:
            listed = host.route.dump(route.GET, route.of_table(family, route.MAIN, protocol=route.PROTOCOL))
        except Refused as refused:
            if refused.errno not in ABSENT:
                raise
            continue
        for one in map(route.decode, listed):
            for hop in one.hops:
                if hop.index in found and one.prefix == prefix:
                    found[hop.index].add(one.destination)
    return found


def in_order(ips: Iterable[bytes]) -> list[bytes]:
    """IPv4 first."""
    return sorted(ips, key=lambda ip: (len(ip), ip))


def finding_of(name: str, ips: Iterable[bytes]) -> Finding:
    """In the same words, whoever tells of it."""
    addresses = _shown(ips)
    kept = f"; its addresses stay reserved: {addresses}" if addresses else ""
    return Finding(
        code=CODE,
        severity="warning",
        subject=name,
        text=f"link {name} is not in the journal (orphaned){kept}",
        next="a container may use it, as after a journal was lost: delete that with its runtime, and the "
        f"link goes, too; if none does, `ip link del {name}`",
    )


def _shown(ips: Iterable[bytes]) -> str:
    return ", ".join(map(shown_ip, in_order(ips)))


def findings_of_services(
    orphans: Mapping[str, frozenset[bytes]], unknown: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """`unknown`: by link, services that its container may have had and that can no longer be known."""
    for name, services in sorted(unknown.items()):
        if services and name in orphans:
            *others, last = services
            lost = f"{', '.join(others)} and {last}" if others else last
            addresses = _shown(orphans[name])
            whose = f" ({addresses})" if addresses else ""
            text = (
                f"the container behind link {name}{whose} may have lost {lost}: the journal was lost, and "
                "the nft table did not have it any more"
            )
            yield Finding(
                code="orphan-incomplete",
                subject=name,
                text=text,
                next="delete that container with its runtime and create it again; or, if you have a copy of "
                "the journal that knows it: `netloom down`, `netloom journal restore FILE`, `netloom up`",
            )


def every_finding_of(orphans: Mapping[str, frozenset[bytes]]) -> list[Finding]:
    return [finding_of(name, ips) for name, ips in sorted(orphans.items(), key=lambda it: in_order(it[1]))]


def findings_of(orphans: Mapping[str, frozenset[bytes]]) -> Iterator[Finding]:
    """Of very many, some by name: `netloom doctor` has all of them."""
    yield from every_finding_of(orphans)[:_SHOWN]
    more = len(orphans) - _SHOWN
    if more > 0:
        what = "link is" if more == 1 else "links are"
        yield replace(
            every_finding_of(orphans)[0],
            subject="",
            text=f"{more} more {what} not in the journal (orphaned)",
            next="`netloom doctor` names each, with what to do about it",
        )
