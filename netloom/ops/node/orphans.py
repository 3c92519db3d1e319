"""Orphans: links of netloom that no attachment in the journal has, and their elements in the nft table."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import ORPHANS, orphans_of
from ...cni.files import Replacement, read_document
from ...cni.wire import thread_safe
from ...journal import Ledger
from ...kernel import Namespace, NftChain, NftElement
from ...kernel.errors import ABSENT, Refused
from ...kernel.netlink import route
from ...kernel.objects.link import link_names
from ...kernel.values import shown_ip
from ...networks import names, table
from ...networks.features import ports
from ...networks.features.options import MappedPort
from . import table_contents as contents
from .table_contents import Content, LinkElements

log = logging.getLogger(__name__)

# A thousand orphans with ten ports each are 3 MB.
_LONGEST = 64 << 20

Service: TypeAlias = Literal["masquerade", "isolation", "host ports"]
_EVERY: tuple[Service, ...] = ("masquerade", "isolation", "host ports")


class KeptServices(Struct, frozen=True, kw_only=True):
    """What is known about an orphan. `unknown`: services that it may have had, but can no longer be known."""

    index: int
    contents: tuple[NftChain | NftElement, ...] = ()
    unknown: tuple[Service, ...] = ()


class _Document(Struct, frozen=True, kw_only=True):
    boot_id: str
    orphans: dict[str, KeptServices]


OrphanTable: TypeAlias = Mapping[str, KeptServices]


def read(state_dir: str, boot_id: str) -> dict[str, KeptServices]:
    """Reads the file of orphans; nothing if it cannot be read: then only the nft table has information."""
    path = orphans_of(state_dir)
    try:
        document = msgspec.json.decode(read_document(path, limit=_LONGEST), type=thread_safe(_Document))
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as cause:
        log.error("cannot read %s; the agent writes it again: %s", path, cause)
        return {}
    if document.boot_id != boot_id:
        return {}
    return {link: it for link, it in document.orphans.items() if contents.are_sound(it.contents)}


def write(state_dir: str, boot_id: str, kept: OrphanTable) -> None:
    """Writes the file durably, or deletes it if there are no orphans."""
    if not kept:
        with suppress(FileNotFoundError):
            os.unlink(orphans_of(state_dir))
        return
    content = msgspec.json.encode(_Document(boot_id=boot_id, orphans=dict(kept)))
    replacement = Replacement(state_dir, ORPHANS)
    try:
        replacement.reserve(len(content))
        replacement.commit(content)
    finally:
        replacement.close()


class OrphanSnapshot(NamedTuple):
    """The services of orphans, and whether the table lacks some of their elements."""

    kept: OrphanTable
    lacks: bool


def snapshot_of(
    host: Namespace, orphans: Mapping[str, frozenset[bytes]], kept: OrphanTable
) -> OrphanSnapshot:
    """Combines the table, the kept services and the routes of orphans."""
    links = link_names(host)
    there = contents.by_link(host, orphans)
    found = {
        link: _joined(link, links[link].index, ips, there.get(link, LinkElements(())), kept.get(link))
        for link, ips in orphans.items()
        if link in links
    }
    laid_down = {it for of_one in there.values() for it in of_one.contents}
    return OrphanSnapshot(
        found, any(it not in laid_down for of_one in found.values() for it in of_one.contents)
    )


def _joined(
    link: str, index: int, ips: Collection[bytes], there: LinkElements, before: KeptServices | None
) -> KeptServices:
    if before is not None and before.index != index:
        before = None  # another link of the same name
    if before is None:
        before = KeptServices(index=index, unknown=_unknown(link, ips, there))
    return KeptServices(
        index=index,
        contents=tuple(_merged([*_sources(link, ips), *before.contents], there.contents)),
        unknown=before.unknown,
    )


def _sources(link: str, ips: Iterable[bytes]) -> list[NftElement]:
    shown = map(shown_ip, sorted(ips))
    return [table.element(table.SOURCES[":" in address], link, address) for address in shown]


def _unknown(link: str, ips: Collection[bytes], there: LinkElements) -> tuple[Service, ...]:
    """The table lists the addresses of every attachment as sources: if one is missing, it was lost."""
    have = {(it.set, it.key) for it in there.contents if isinstance(it, NftElement)}
    if any((it.set, it.key) not in have for it in _sources(link, ips)):
        return _EVERY
    lost: dict[Service, None] = {
        "masquerade" if it.set in table.LEAVING else "isolation": None for it in there.unreadable
    }
    return tuple(lost)


def _merged(kept: Iterable[Content], there: Iterable[Content]) -> list[Content]:
    """Merges both, without chains that no element leads to, and no set of which has an element."""
    elements: dict[tuple[str, tuple[str, ...]], NftElement] = {}
    chains: dict[str, NftChain] = {}
    for it in (*kept, *there):
        if isinstance(it, NftElement):
            elements[it.set, it.key] = it
        else:
            chains[it.name] = it
    used = {name for it in elements.values() for name in (it.leads_to, it.set)}
    return [
        *(chains[name] for name in sorted(chains) if name in used),
        *(elements[place] for place in sorted(elements)),
    ]


def to_lay_down(
    host: Namespace, known: Collection[str], planned: Iterable[Content], kept: OrphanTable
) -> list[Content]:
    """Returns the elements and chains, from the table and the kept ones, of links that are not in `known`.

    A key that an attachment plans, too, such as a host port, belongs to the attachment.
    """
    links = {name: it.index for name, it in link_names(host).items() if name not in known}
    there = contents.by_link(host, links)
    taken = {(it.set, it.key) for it in planned if isinstance(it, NftElement)}
    found: list[Content] = []
    for link, index in links.items():
        before = kept.get(link)
        held = before.contents if before is not None and before.index == index else ()
        of_table = there.get(link, LinkElements(())).contents
        found += [
            it
            for it in _merged(held, of_table)
            if not isinstance(it, NftElement) or (it.set, it.key) not in taken
        ]
    return found


def ports_of(kept: OrphanTable) -> list[tuple[MappedPort, str]]:
    """Returns ports of the host that lead to orphans, each with its link."""
    return [
        (port, link)
        for link, it in kept.items()
        for port in ports.of_elements(one for one in it.contents if isinstance(one, NftElement))
    ]


# Runs a query on the journal.
Survey: TypeAlias = Callable[[Callable[[Ledger], list[str]]], list[str]]

CODE = "link-orphaned"

_FAMILIES = {2: 32, 10: 128}
# The number of orphans that get a finding of their own.
_SHOWN = 3


def orphans_at(host: Namespace, survey: Survey) -> dict[str, frozenset[bytes]]:
    """Returns orphans by name, with the addresses that are routed to each.

    The journal has an attachment from before its link is made until after it is deleted. So a link that
    exists both before and after the query, and is not in the journal, is an orphan.
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
    """Returns addresses of netloom's routes, by the index of their link."""
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
    """Sorts addresses, IPv4 first."""
    return sorted(ips, key=lambda ip: (len(ip), ip))


def finding_of(name: str, ips: Iterable[bytes]) -> Finding:
    """Returns the finding about an orphan, the same for all commands."""
    addresses = _shown(ips)
    kept = f"; its addresses stay reserved: {addresses}" if addresses else ""
    return Finding(
        code=CODE,
        severity="warning",
        subject=name,
        text=f"link {name} is not in the journal (orphaned){kept}",
        next="a container may use it, as after a journal was lost: delete that container with its runtime, "
        f"which also deletes the link; if no container uses it, `ip link del {name}`",
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
                "so were the container's rules in the nft table"
            )
            yield Finding(
                code="orphan-incomplete",
                subject=name,
                text=text,
                next="delete that container with its runtime and create it again; or, if you have a copy of "
                "the journal that has it: `netloom down`, `netloom journal restore FILE`, `netloom up`",
            )


def every_finding_of(orphans: Mapping[str, frozenset[bytes]]) -> list[Finding]:
    return [finding_of(name, ips) for name, ips in sorted(orphans.items(), key=lambda it: in_order(it[1]))]


def findings_of(orphans: Mapping[str, frozenset[bytes]]) -> Iterator[Finding]:
    """Names only the first few orphans: `netloom doctor` names all."""
    yield from every_finding_of(orphans)[:_SHOWN]
    more = len(orphans) - _SHOWN
    if more > 0:
        what = "link is" if more == 1 else "links are"
        yield replace(
            every_finding_of(orphans)[0],
            subject="",
            text=f"{more} more {what} not in the journal (orphaned)",
            next="`netloom doctor` names each, with the next step",
        )
