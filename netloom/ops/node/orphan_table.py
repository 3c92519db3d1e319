"""What orphaned links have in the nft table: masquerade, isolation, host ports, and who may send what.

Of an attachment, the journal knows it. Of an orphan, only the table does, until somebody flushes it. So the
agent reads it back as soon as it finds an orphan, and keeps it in memory and in a file of the state
directory. The file is no part of the journal: it survives when that is lost, or replaced by a copy.

Invariants:

1. An entry is of one link of one boot, by name and index. It goes with the link, and when an attachment has
   the link.
2. What the table has counts more than what was kept: it is what works now.
3. The addresses that are routed to a link are those that it may send from, whatever else is lost.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from ...cni.files import Replacement, read_document
from ...cni.learning import learned
from ...kernel import Namespace, NftChain, NftElement
from ...kernel.objects.link import link_names
from ...kernel.values import shown_ip
from ...networks import table
from ...networks.features import ports
from ...networks.features.wanted import HostPort
from . import table_contents as contents
from .table_contents import Content, Found

log = logging.getLogger(__name__)

FILE = "orphans.json"
# A thousand orphans with ten ports each are 3 MB.
_LONGEST = 64 << 20

Service: TypeAlias = Literal["masquerade", "isolation", "host ports"]
_EVERY: tuple[Service, ...] = ("masquerade", "isolation", "host ports")


class Kept(Struct, frozen=True, kw_only=True):
    """Of one orphan. `unknown`: services that it may have had, and that can no longer be known."""

    index: int
    contents: tuple[NftChain | NftElement, ...] = ()
    unknown: tuple[Service, ...] = ()


class _Document(Struct, frozen=True, kw_only=True):
    boot_id: str
    orphans: dict[str, Kept]


OrphanTable: TypeAlias = Mapping[str, Kept]


def read(state_dir: str, boot_id: str) -> dict[str, Kept]:
    """What was kept. Nothing, if that cannot be read: then the table is all that tells."""
    path = os.path.join(state_dir, FILE)
    try:
        document = msgspec.json.decode(read_document(path, limit=_LONGEST), type=learned(_Document))
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as cause:
        log.error("%s cannot be read, and is written again: %s", path, cause)
        return {}
    if document.boot_id != boot_id:
        return {}
    return {link: it for link, it in document.orphans.items() if contents.are_sound(it.contents)}


def write(state_dir: str, boot_id: str, kept: OrphanTable) -> None:
    """Durably. Without orphans there is no file."""
    if not kept:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(state_dir, FILE))
        return
    content = msgspec.json.encode(_Document(boot_id=boot_id, orphans=dict(kept)))
    replacement = Replacement(state_dir, FILE)
    try:
        replacement.reserve(len(content))
        replacement.commit(content)
    finally:
        replacement.close()


class Look(NamedTuple):
    """What orphans have, and whether the table lacks some of it."""

    kept: OrphanTable
    lacks: bool


def look(host: Namespace, orphans: Mapping[str, frozenset[bytes]], kept: OrphanTable) -> Look:
    """By the table, by what was kept, and by their routes."""
    links = link_names(host)
    there = contents.by_link(host, orphans)
    found = {
        link: _joined(link, links[link].index, ips, there.get(link, Found(())), kept.get(link))
        for link, ips in orphans.items()
        if link in links
    }
    laid_down = {it for of_one in there.values() for it in of_one.contents}
    return Look(found, any(it not in laid_down for of_one in found.values() for it in of_one.contents))


def _joined(link: str, index: int, ips: Collection[bytes], there: Found, before: Kept | None) -> Kept:
    if before is not None and before.index != index:
        before = None  # another link of the same name
    if before is None:
        before = Kept(index=index, unknown=_unknown(link, ips, there))
    return Kept(
        index=index,
        contents=tuple(_merged([*_sources(link, ips), *before.contents], there.contents)),
        unknown=before.unknown,
    )


def _sources(link: str, ips: Iterable[bytes]) -> list[NftElement]:
    shown = map(shown_ip, sorted(ips))
    return [table.element(table.SOURCES[":" in address], link, address) for address in shown]


def _unknown(link: str, ips: Collection[bytes], there: Found) -> tuple[Service, ...]:
    """Every attachment has its addresses among the sources: where one is missing, the table was lost."""
    have = {(it.set, it.key) for it in there.contents if isinstance(it, NftElement)}
    if any((it.set, it.key) not in have for it in _sources(link, ips)):
        return _EVERY
    lost: dict[Service, None] = {
        "masquerade" if it.set in table.LEAVING else "isolation": None for it in there.unreadable
    }
    return tuple(lost)


def _merged(kept: Iterable[Content], there: Iterable[Content]) -> list[Content]:
    """Chains without an element that leads to them, or is in their set, are left out."""
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
    """Of links that are there and not among the known: what the table has, and what was kept.

    Where an attachment has the same key, such as a host port, it is the attachment's.
    """
    links = {name: it.index for name, it in link_names(host).items() if name not in known}
    there = contents.by_link(host, links)
    taken = {(it.set, it.key) for it in planned if isinstance(it, NftElement)}
    found: list[Content] = []
    for link, index in links.items():
        before = kept.get(link)
        held = before.contents if before is not None and before.index == index else ()
        of_table = there.get(link, Found(())).contents
        found += [
            it
            for it in _merged(held, of_table)
            if not isinstance(it, NftElement) or (it.set, it.key) not in taken
        ]
    return found


def ports_of(kept: OrphanTable) -> list[tuple[HostPort, str]]:
    """Ports of the host that lead to orphans, each with its link."""
    return [
        (port, link)
        for link, it in kept.items()
        for port in ports.of_elements(one for one in it.contents if isinstance(one, NftElement))
    ]
