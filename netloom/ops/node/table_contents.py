"""The nft table of the node in the kernel: its owner and its contents."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...api.paths import journal_of
from ...cni.files import is_same_path
from ...cni.wire import thread_safe
from ...journal import JournalError, Ledger, read_only
from ...journal.lock import holder
from ...kernel import Conflict, InvalidObject, KernelError, Namespace, NftChain, NftElement, Scope
from ...kernel.netlink.nft_elements import read_elements
from ...kernel.netlink.nftables import (
    delete_chain,
    read_comments,
    read_plain_chains,
    read_spelled_rules,
    read_table,
)
from ...kernel.objects.link import link_names
from ...kernel.objects.nft import OWNER
from ...kernel.objects.nft import OWNER as OURS
from ...networks import names, table
from ...networks.features import isolation, masquerade
from ...networks.table import Owner, owner_of

CODE = "node-of-another"
# The journal's fact with its identity.
IDENTITY = "identity"


class Another(Struct, frozen=True):
    """The agent that the node belongs to. `process` is None if it does not run, or cannot be seen."""

    state_dir: str
    process: int | None

    def text(self) -> str:
        runs = "which does not run" if self.process is None else f"which runs (process {self.process})"
        return (
            f"this host's nft table and links belong to the agent with its state in {self.state_dir}, {runs}"
        )

    def advice(self, state_dir: str) -> str:
        theirs = self.state_dir
        if self.process is not None:
            return f"use that one: give --state-dir {theirs}; `netloom down --state-dir {theirs}` stops it"
        return (
            f"`netloom up --state-dir {theirs}` starts that one again; to continue in {state_dir} with its "
            f"journal, `netloom journal restore --state-dir {state_dir} {journal_of(theirs)}`, `netloom up "
            f"--state-dir {state_dir}`; without it, `netloom up --adopt --state-dir {state_dir}`: its "
            "containers keep their networks and become orphaned"
        )


class NodeOfAnother(Exception):
    """The node belongs to another agent. It is raised before anything is changed."""

    def __init__(self, another: Another) -> None:
        super().__init__(another.text())
        self.another = another


def mark_at(host: Namespace) -> Owner | None:
    """Returns the owner of netloom's table; None without a table, or if it names no owner."""
    of = table.TABLE
    if not (read_table(host.netfilter, of.family, of.name) or "").startswith(OURS):
        return None
    return owner_of(read_comments(host.netfilter, of.family, of.name, table.OWNER))


def another_at(host: Namespace, state_dir: str, identity: str | None) -> Another | None:
    """Returns the agent that owns the node, if it is not the one with this state directory and journal."""
    mark = mark_at(host)
    if mark is None or is_same_path(mark.state_dir, state_dir):
        return None
    process = holder(journal_of(mark.state_dir))
    if process is None and (identity == mark.journal or not _has_links(host)):
        return None
    return Another(mark.state_dir, process)


def is_as_marked(host: Namespace, state_dir: str, identity: str | None) -> bool:
    """Whether the mark, if there is one, names this state directory and this journal."""
    mark = mark_at(host)
    return mark is None or (is_same_path(mark.state_dir, state_dir) and mark.journal == identity)


def identity_of(path: str) -> str | None:
    """Returns the identity of a journal, or None if it cannot be read: opening it reports the error."""
    try:
        with closing(read_only(path)) as connection:
            return Ledger(connection).fact(IDENTITY)
    except (JournalError, sqlite3.DatabaseError, OSError):
        return None


def adopt(host: Namespace) -> None:
    """Deletes the owner's mark, so that the node belongs to the next agent."""
    of = table.TABLE
    delete_chain(host.netfilter, of.family, of.name, table.OWNER, members=False)


def _has_links(host: Namespace) -> bool:
    return any(names.host_link_of(it) == it for it in link_names(host))


log = logging.getLogger(__name__)

Content: TypeAlias = NftChain | NftElement

# Labels of objects in the table begin with these.
_LABELS = ("nft chain ", "nft element ")


class _Part(Struct, frozen=True):
    type: str


class _Parts(Struct, frozen=True):
    objects: tuple[msgspec.Raw, ...]


_KINDS: dict[str, type[Content]] = {"nft-element": NftElement, "nft-chain": NftChain}


def of_plan(plan: bytes) -> list[Content]:
    """Decodes only a plan's chains and elements, which saves a second for ten thousand plans."""
    try:
        parts = msgspec.json.decode(plan, type=thread_safe(_Parts)).objects
        found = [
            msgspec.json.decode(part, type=thread_safe(kind))
            for part in parts
            if (kind := _KINDS.get(msgspec.json.decode(part, type=thread_safe(_Part)).type)) is not None
        ]
        chains = {it.name: it for it in found if isinstance(it, NftChain)}
        for it in found:
            if isinstance(it, NftElement):
                table.TABLE.require_element(it, chains)
            elif not _is_sound(it):
                raise InvalidObject(f"{it.label}: its content does not match its name")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KernelError) as error:
        log.error("cannot read a plan in the journal; its elements are left out: %s", error)
        return []
    return found


def _is_sound(chain: NftChain) -> bool:
    if (chain.on, chain.family, chain.table) != (table.TABLE.on, table.TABLE.family, table.TABLE.name):
        return False
    return masquerade.is_sound(chain) or isolation.is_sound(chain)


def there(host: Namespace) -> list[NftElement]:
    """Returns all elements of the table, if it is netloom's."""
    sets = [*table.SETS, *(name for name in chains_there(host) if name.startswith(table.KEEP_APART))]
    return list(_elements(host, sets))


def is_of_table(conflict: Conflict) -> bool:
    """Whether a conflict concerns netloom's own table, which the agent may write again without asking."""
    return any(it.object.startswith(_LABELS) for it in conflict.differences)


def _is_ours(host: Namespace) -> bool:
    of = table.TABLE
    return (read_table(host.netfilter, of.family, of.name) or "").startswith(OWNER)


def chains_there(host: Namespace) -> list[str]:
    """Returns names of the chains in the table that attachments add to its fixed ones."""
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
    """Returns the guard's counters of deleted links, which neither an attachment nor a DEL removes."""
    counted = list(_elements(host, [table.DROPPED]))
    links = link_names(host) if counted else {}
    return [it for it in counted if it.key[0] not in links]


class LinkElements(NamedTuple):
    """What the table has for a link. `unreadable`: elements whose chain cannot be read back."""

    contents: tuple[Content, ...]
    unreadable: tuple[NftElement, ...] = ()


def by_link(host: Namespace, links: Collection[str]) -> dict[str, LinkElements]:
    """Returns the elements of these links, with their chains: enough to write both again.

    The rules of an isolation chain follow from its name; those of a masquerade chain are read from the
    kernel.
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
        link: LinkElements(tuple(contents.get(link, ())), tuple(unreadable.get(link, ())))
        for link in {**contents, **unreadable}
    }


def _read_back(host: Namespace, name: str) -> NftChain | None:
    """Reads such a chain, under the name that its rules determine; None if it cannot be written again."""
    of = table.TABLE
    if name.startswith(table.KEEP_APART):
        return isolation.chain_named(name)
    rules = read_spelled_rules(host.netfilter, of.family, of.name, name)
    if rules is None or not name.startswith(table.LEAVE):
        return None
    # Compares the rules that were read with the kernel's form of them.
    return None if table.chain(name, rules).check(Scope(host)) else masquerade.chain_of(rules)


def _fits(element: NftElement, chain: NftChain | None) -> bool:
    """False if an older table has a set of the same name and another type."""
    try:
        table.TABLE.require_element(element, {} if chain is None else {chain.name: chain})
    except KernelError as error:
        log.warning("the nft table has an element that does not fit this version's sets: %s", error)
        return False
    return True


def are_sound(contents: Iterable[Content]) -> bool:
    """Whether all contents, which come from a file, can be written to the table."""
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
    """Returns elements that no attachment has, except those of orphans, which still need theirs."""
    elements = {(it.set, it.key) for it in planned if isinstance(it, NftElement)}
    known = {it.key[0] for it in planned if isinstance(it, NftElement) and it.set in table.SOURCES}
    lost = set(links) - known
    there = list(there)
    owners = table.owners(there)
    return [it for it in there if (it.set, it.key) not in elements and owners.get(it) not in lost]


def unused(chains: Iterable[str], elements: Iterable[NftElement], planned: Collection[Content]) -> list[str]:
    """Returns chains that no attachment has, and no element leads to."""
    used = {it.leads_to for it in elements} | {it.name for it in planned if isinstance(it, NftChain)}
    return [name for name in chains if name not in used]
