"""What the node's table holds, and what it should: the elements of all attachments, and networks' chains.

One row of the journal that cannot be read, or has nonsense, must not keep the others from being guarded. So
what comes from there is judged before it is laid down.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...cni.learning import learned
from ...kernel import Conflict, InvalidObject, KernelError, Namespace, NftChain, NftElement, Scope
from ...kernel.netlink.nftables import read_elements, read_plain_chains, read_spelled_rules, read_table
from ...kernel.objects.link import link_names
from ...kernel.objects.nft import OWNER
from ...networks import table
from ...networks.features import isolation, masquerade

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
    """Names of the chains beside the table that attachments lead to."""
    of = table.TABLE
    if not _is_ours(host):
        return []
    found = read_plain_chains(host.netfilter, of.family, of.name)
    return sorted(name for name in found if name.startswith((table.LEAVE, table.KEEP_APART)))


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


class Found(NamedTuple):
    """What the table has for one link. `unreadable`: of what leads to a chain, what cannot be read back."""

    contents: tuple[Content, ...]
    unreadable: tuple[NftElement, ...] = ()


def by_link(host: Namespace, links: Collection[str]) -> dict[str, Found]:
    """What the table has for each of these links, with the chains that it needs: enough to lay it down.

    A chain that keeps a network apart follows from its name. The rules of one that masquerades are read from
    the kernel.
    """
    contents: dict[str, dict[Content, None]] = {}
    unreadable: dict[str, list[NftElement]] = {}
    chains: dict[str, NftChain | None] = {}
    for it, link in table.owners(there(host)).items():
        if link not in links:
            continue
        beside = it.set if it.set.startswith(table.KEEP_APART) else it.leads_to
        if beside is not None and beside not in chains:
            chains[beside] = _read_back(host, beside)
        chain = None if beside is None else chains[beside]
        if beside is not None and chain is None:
            unreadable.setdefault(link, []).append(it)
            continue
        element = it if chain is None or it.leads_to is None else replace(it, verdict=f"goto {chain.name}")
        if not _fits(element, chain):
            continue
        if chain is not None:
            contents.setdefault(link, {})[chain] = None
        contents.setdefault(link, {})[element] = None
    return {
        link: Found(tuple(contents.get(link, ())), tuple(unreadable.get(link, ())))
        for link in {**contents, **unreadable}
    }


def _read_back(host: Namespace, name: str) -> NftChain | None:
    """A chain beside the table, under the name that its rules have; None if it cannot be laid down again."""
    of = table.TABLE
    if name.startswith(table.KEEP_APART):
        return isolation.chain_named(name)
    rules = read_spelled_rules(host.netfilter, of.family, of.name, name)
    if rules is None or not name.startswith(table.LEAVE):
        return None
    # What was read is compared with what the kernel makes of it.
    return None if table.chain(name, rules).check(Scope(host)) else masquerade.chain_of(rules)


def _fits(element: NftElement, chain: NftChain | None) -> bool:
    """An older table may have had sets of the same names and other types."""
    try:
        table.TABLE.require_element(element, {} if chain is None else {chain.name: chain})
    except KernelError as error:
        log.warning("the table has an element that does not fit into this version's: %s", error)
        return False
    return True


def are_sound(contents: Iterable[Content]) -> bool:
    """Whether all of it can be laid down: for what comes from a file."""
    contents = list(contents)
    chains = {it.name: it for it in contents if isinstance(it, NftChain)}
    try:
        for it in contents:
            if isinstance(it, NftElement):
                table.TABLE.require_element(it, chains)
    except KernelError:
        return False
    return all(map(_is_sound, chains.values()))


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
