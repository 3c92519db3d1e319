"""What the node's table holds, and what it should: the elements of all attachments, and networks' chains.

One row of the journal that cannot be read, or has nonsense, must not keep the others from being guarded. So
what comes from there is judged before it is laid down.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ..cni.learning import learned
from ..kernel import Conflict, InvalidObject, KernelError, Namespace, NftChain, NftElement
from ..kernel.netlink.nftables import read_elements, read_plain_chains, read_table
from ..kernel.objects.link import link_names
from ..kernel.objects.nft import OWNER
from ..modes import isolation, masquerade, table

log = logging.getLogger(__name__)

Content: TypeAlias = NftChain | NftElement

# How the names of such objects begin.
_LABELS = ("nft chain ", "nft element ")


class _Part(Struct, frozen=True):
    type: str


class _Parts(Struct, frozen=True):
    objects: tuple[msgspec.Raw, ...]


_KINDS: dict[str, type[Content]] = {"nft-element": NftElement, "nft-chain": NftChain}


def of_plan(plan: bytes) -> list[Content]:
    """A plan's part of the table, without making the rest of it: of ten thousand, that is a second saved."""
    try:
        parts = msgspec.json.decode(plan, type=learned(_Parts)).objects
        found = [
            msgspec.json.decode(part, type=learned(kind))
            for part in parts
            if (kind := _KINDS.get(msgspec.json.decode(part, type=learned(_Part)).type)) is not None
        ]
        chains = {it.name: it for it in found if isinstance(it, NftChain)}
        for it in found:
            if isinstance(it, NftElement):
                table.TABLE.require_element(it, chains)
            elif not _is_sound(it):
                raise InvalidObject(f"{it.label}: it is not what its name says")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KernelError) as error:
        log.error("a plan in the journal cannot be read, and its elements are left out: %s", error)
        return []
    return found


def _is_sound(chain: NftChain) -> bool:
    if (chain.on, chain.family, chain.table) != (table.TABLE.on, table.TABLE.family, table.TABLE.name):
        return False
    return masquerade.is_sound(chain) or isolation.is_sound(chain)


def there(host: Namespace) -> list[NftElement]:
    """All elements of the table, if it is ours."""
    sets = [*table.SETS, *(name for name in chains_there(host) if name.startswith(table.KEEP_APART))]
    return list(_elements(host, sets))


def is_of_table(conflict: Conflict) -> bool:
    """Whether it is about something in our own table: that is laid down anew, and nobody has to be asked."""
    return any(it.object.startswith(_LABELS) for it in conflict.differences)


def _is_ours(host: Namespace) -> bool:
    of = table.TABLE
    return (read_table(host.netfilter, of.family, of.name) or "").startswith(OWNER)


def chains_there(host: Namespace) -> list[str]:
    """Names of the chains beside the table."""
    of = table.TABLE
    if not _is_ours(host):
        return []
    found = read_plain_chains(host.netfilter, of.family, of.name)
    return sorted(name for name in found if name.startswith(of.beside))


def _elements(host: Namespace, sets: Iterable[str]) -> Iterator[NftElement]:
    of = table.TABLE
    if not _is_ours(host):
        return
    for name in sets:
        for key, found in (read_elements(host.netfilter, of.family, of.name, name) or {}).items():
            yield table.element(name, *key, value=found.value, verdict=found.verdict)


def dropped_of_gone(host: Namespace) -> list[NftElement]:
    """What the guard has counted for links that are gone. No attachment has it, and no DEL removes it."""
    counted = list(_elements(host, [table.DROPPED]))
    links = link_names(host) if counted else {}
    return [it for it in counted if it.key[0] not in links]


def of_others(host: Namespace, known: Collection[str]) -> list[Content]:
    """Of the table, what belongs to links that are there and not among the known.

    Chains of networks that masquerade cannot be told from their names, so what leads to them stays behind.
    """
    elements = there(host)
    links = link_names(host)
    kept: list[Content] = []
    for it, link in table.owners(elements).items():
        if link not in links or link in known:
            continue
        if it.leads_to is not None:
            if it.leads_to.startswith(table.LEAVE):
                continue
            kept.append(isolation.chain_named(it.leads_to))
        kept.append(it)
    return kept


def strays(
    there: Iterable[NftElement], links: Collection[str], planned: Collection[Content]
) -> list[NftElement]:
    """What no attachment has. Links that are in no journal keep theirs: it was lost, and they still work."""
    elements = {(it.set, it.key) for it in planned if isinstance(it, NftElement)}
    known = {it.key[0] for it in planned if isinstance(it, NftElement) and it.set in table.SOURCES}
    lost = set(links) - known
    there = list(there)
    owners = table.owners(there)
    return [it for it in there if (it.set, it.key) not in elements and owners.get(it) not in lost]


def unused(chains: Iterable[str], elements: Iterable[NftElement], planned: Collection[Content]) -> list[str]:
    """Of the chains beside the table, those that neither an attachment has nor an element leads to."""
    used = {it.leads_to for it in elements} | {it.name for it in planned if isinstance(it, NftChain)}
    return [name for name in chains if name not in used]
