"""The kernel's state, as far as netloom has to do with it: asked over netlink, changed in nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import to_builtins

from ...kernel import KernelError, Namespace
from ...kernel.errors import ABSENT
from ...kernel.netlink import address, link, neighbour, route, rule
from ...kernel.netlink.nftables import read_table
from ...kernel.values import shown_ip
from ...networks.table import TABLE
from ..connectivity.firewall import foreign_chains, legacy_tables
from .member import Asked, Found, Member, Trouble

_MOST = 20_000
_FOR_ROOT = "only root may read nftables: run it as root"
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_OF_A_LINK = (
    "index", "name", "kind", "up", "mac", "mtu", "txqlen", "parent", "parent_netnsid", "master", "group",
    "port_kind",
)  # fmt: skip


def links(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        yield from map(_link, host.route.dump(link.GET, link.everything()))

    yield _dumped("links", "links of the host", listed)


def addresses(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            for payload in host.route.dump(address.GET, address.of_link(0, family)):
                yield to_builtins(address.decode(payload))

    yield _dumped("addresses", "addresses of the host", listed)


def routes(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            yield from map(_route, _all(host, route.GET, route.everything(family)))

    yield _dumped("routes", "routes of the host, of all tables", listed)


def rules(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            for payload in _all(host, rule.GET, rule.everything(family)):
                yield _readable(to_builtins(rule.decode(payload), builtin_types=(bytes,)))

    yield _dumped("rules", "policy rules of the host", listed)


def neighbours(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            for payload in _all(host, neighbour.GET, neighbour.everything(family)):
                yield _readable(to_builtins(neighbour.decode(payload), builtin_types=(bytes,)))

    yield _dumped("neighbours", "neighbours of the host", listed)


def firewall(_asked: Asked) -> Iterator[Found]:
    about = f"the nft table {TABLE.family} {TABLE.name}"
    if os.geteuid() != 0:  # libnftables would say so on our standard error, and not where
        yield Trouble("kernel/nft-netloom.txt", about, _FOR_ROOT)
        yield Trouble("kernel/nft-others.json", "base chains of others", _FOR_ROOT)
        return
    try:
        with Namespace.own() as host:
            try:
                # One that an older version has laid down is without the family arp.
                there = [it for it in TABLE.bodies if read_table(host.netfilter, it, TABLE.name) is not None]
                yield Member(
                    name="kernel/nft-netloom.txt",
                    about=about,
                    text="".join(
                        host.nft.run(f"list table {it} {TABLE.name}") for it in there or [TABLE.family]
                    ),
                )
            except KernelError as error:
                yield Trouble("kernel/nft-netloom.txt", about, _first_line(error))
            chains = foreign_chains(host)
    except KernelError as error:
        yield Trouble("kernel/nft-others.json", "base chains of others", _first_line(error))
        return
    yield Member(
        name="kernel/nft-others.json",
        about="base chains of others: their names, hooks and policies, not their rules",
        document={
            "chains": to_builtins(chains),
            "legacy": {family: legacy_tables(family) for family in ("ipv4", "ipv6")},
        },
    )


def _dumped(name: str, about: str, listed: Callable[[Namespace], Iterable[Any]]) -> Found:
    place = f"kernel/{name}.jsonl"
    rows: list[Any] = []
    total = 0
    try:
        with Namespace.own() as host:
            for row in listed(host):
                total += 1
                if len(rows) < _MOST:
                    rows.append(row)
    except KernelError as error:
        return Trouble(place, about, _first_line(error))
    cut = f"{len(rows)} of {total} rows" if total > len(rows) else ""
    return Member(name=place, about=about, rows=rows, cut=cut)


def _all(host: Namespace, kind: int, question: bytes) -> list[bytes]:
    try:
        return host.route.dump(kind, question)
    except KernelError as error:
        if error.errno in ABSENT:
            return []
        raise


def _link(payload: bytes) -> dict[str, Any]:
    found = link.decode(payload)
    return {name: getattr(found, name) for name in _OF_A_LINK}


def _route(payload: bytes) -> Any:
    return _readable(to_builtins(route.decode(payload), builtin_types=(bytes,)))


def _readable(value: Any) -> Any:
    """Addresses as people write them."""
    if isinstance(value, bytes):
        return shown_ip(value) if len(value) in (4, 16) else value.hex()
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
