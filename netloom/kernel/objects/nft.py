"""Tables of nftables: rules that are laid down once, and do not grow with the number of attachments.

What an attachment needs of the firewall are elements of a table's sets and maps, and, if they lead to rules
of its own, a chain beside the table's.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..difference import Difference, compare, missing
from ..errors import Conflict, InvalidObject, KernelError
from ..namespace import Namespace
from ..netlink import nftables
from ..nft import NftError, require_name, words_of
from .base import Object, Scope, Undo
from .nft_chain import NftChain
from .nft_element import NftElement
from .nft_owner import OWNER, Family, is_ours

__all__ = ["OWNER", "NftTable", "lay_down"]

_NONE: Mapping[str, NftChain] = {}


class NftTable(Object, frozen=True, tag="nft-table"):
    """A table of ours. `body` is what stands between its braces, in nft's language.

    Elements of named sets are no part of it: each is an `NftElement`. Nor are chains, and sets, whose names
    begin with one of `beside`: each is an `NftChain`.
    """

    family: Family
    name: str
    body: str
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_name(self.name)
        for prefix in self.beside:
            require_name(prefix)
        _require_one_table(self.body)

    @property
    def title(self) -> str:
        return f"nft table {self.family} {self.name}"

    @property
    def comment(self) -> str:
        """Says whose it is, and of which body."""
        return f"{OWNER} {hashlib.sha256(self.body.encode()).hexdigest()[:16]}"

    @property
    def _place(self) -> str:
        return f"{self.family} {self.name}"

    @property
    def _text(self) -> str:
        return f'table {self._place} {{\ncomment "{self.comment}"\n{self.body}\n}}\n'

    def apply(self, scope: Scope) -> Undo | None:
        namespace = scope.at(self.on)
        if nftables.read_table(namespace.netfilter, self.family, self.name) is not None:
            return self._keep(scope)
        self._planned()
        try:
            namespace.nft.run(self._text)
        except NftError as refused:
            raise KernelError(f"cannot add {self.label}: {refused}", errno=refused.errno) from None
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        connection = scope.at(self.on).netfilter
        comment = nftables.read_table(connection, self.family, self.name)
        found = nftables.read_structure(connection, self.family, self.name, self.beside)
        if comment is None or found is None:
            return missing(self.label)
        if comment != self.comment:
            return compare(self.label, ("owner", self.comment, comment or "nobody"))
        wanted = self._planned()
        return compare(
            self.label,
            *(
                (part, *_compared(wanted.get(part), found.get(part)))
                for part in {**wanted, **found}
                if wanted.get(part) != found.get(part)
            ),
        )

    def require_element(self, element: NftElement, chains: Mapping[str, NftChain] = _NONE) -> None:
        """That it fits the table with these chains beside it, by name.

        Raises `InvalidObject`, or `KernelError` if there is no such set. The kernel is asked once for all.
        """
        element.packed(self._set_of(element, chains))

    def _set_of(self, element: NftElement, chains: Mapping[str, NftChain]) -> nftables.Set | None:
        """What the element's set is made of. Whether it fits there is the caller's to see."""
        if (element.on, element.family, element.table) != (self.on, self.family, self.name):
            raise InvalidObject(f"{element.label} is not of {self.label}")
        layout = self._layout()
        chain = element.leads_to
        if chain is not None and chain not in layout.chains and chain not in chains:
            raise InvalidObject(f"{element.label}: there is no chain {chain} that it could lead to")
        if element.set in chains:
            return chains[element.set].layout
        return layout.sets.get(element.set)

    def _require_beside(self, chain: NftChain) -> None:
        if (chain.on, chain.family, chain.table) != (self.on, self.family, self.name):
            raise InvalidObject(f"{chain.label} is not of {self.label}")
        if not chain.name.startswith(self.beside):
            raise InvalidObject(f"{chain.label}: a chain of such a name cannot be beside {self.label}")

    def _planned(self) -> dict[str, object]:
        return self._layout().structure

    def _layout(self) -> _Layout:
        try:
            return _canonical(self)
        except NftError as refused:
            raise KernelError(
                f"{self.label} is wrong, or names links (iif, oif; give iifname, oifname): {refused}",
                errno=refused.errno,
            ) from None

    def remove(self, scope: Scope) -> None:
        namespace = scope.at(self.on)
        for last in (False, True):
            comment = nftables.read_table(namespace.netfilter, self.family, self.name)
            if comment is None:
                return
            if comment != self.comment:
                raise Conflict(compare(self.label, ("owner", self.comment, comment or "nobody")))
            try:
                namespace.nft.run(f"delete table {self._place}")
                return
            except NftError as refused:
                # Somebody else may have taken it away just now.
                if last or refused.errno != errno.ENOENT:
                    raise KernelError(f"cannot remove {self.label}: {refused}", errno=refused.errno) from None


class _Layout(NamedTuple):
    """What the kernel says of a table: what it compares equal by, its sets, and where verdicts can lead."""

    structure: dict[str, object]
    sets: dict[str, nftables.Set | None]
    chains: frozenset[str]


@lru_cache(maxsize=32)
def _canonical(table: NftTable) -> _Layout:
    """What the kernel makes of a table: it is laid down in an empty namespace, and read back.

    So a table may not name links, which are not there, but their names.
    """
    place = (table.family, table.name)
    with Namespace.new() as scratch:
        scratch.nft.run(table._text)
        structure = nftables.read_structure(scratch.netfilter, *place) or {}
        named = [part.removeprefix("set ") for part in structure if part.startswith("set ")]
        sets = {one: nftables.read_set(scratch.netfilter, *place, one) for one in named}
        chains = nftables.read_plain_chains(scratch.netfilter, *place)
    for part in structure:
        what, _, name = part.partition(" ")
        if what in ("chain", "set") and name.startswith(table.beside):
            raise InvalidObject(f"{table.label} has {part} in it, and says that it is beside it")
    return _Layout(structure, sets, chains)


def _compared(wanted: object, found: object) -> tuple[str, str]:
    if wanted is None:
        return "absent", "there"
    return "as planned", "missing" if found is None else "changed"


def lay_down(namespace: Namespace, table: NftTable, contents: Iterable[NftChain | NftElement]) -> None:
    """A table with its contents in place of the one that we had there, if any, all in one transaction.

    For a table that somebody has flushed, or that an older version of us made: no packet ever meets it
    without its contents, and if anything is wrong, all stays as it was. Chains may be given often.
    """
    additions = _additions(table, contents)
    # To create it, and not only to add to it, says that nobody else's may be there.
    creation = (
        f'create table {table._place} {{\ncomment "{table.comment}"\n}}\n'
        f"table {table._place} {{\n{table.body}\n}}\n"
    )
    for last in (False, True):
        is_there = is_ours(namespace, table.family, table.name)
        deletion = f"delete table {table._place}\n" if is_there else ""
        try:
            namespace.nft.run(deletion + creation + additions)
            break
        except NftError as refused:
            # It may have come or gone just now.
            if last or refused.errno not in (errno.ENOENT, errno.EEXIST):
                raise KernelError(f"cannot lay down {table.label}: {refused}", errno=refused.errno) from None
    # What was known of the former one's sets.
    for found in [it for it in namespace.findings if it[:3] == ("set", table.family, table.name)]:
        del namespace.findings[found]


def _additions(table: NftTable, contents: Iterable[NftChain | NftElement]) -> str:
    """A command for each set, not for each element: 20,000 take 70 ms instead of 170."""
    chains: dict[str, NftChain] = {}
    elements: list[NftElement] = []
    for it in contents:
        if isinstance(it, NftElement):
            elements.append(it)
        elif it.name not in chains:
            table._require_beside(it)
            chains[it.name] = it
        elif chains[it.name] != it:
            raise InvalidObject(f"{it.label} is given twice, and not the same")
    items: dict[str, list[str]] = {}
    for element in elements:
        spelled = element.spelled(table._set_of(element, chains))
        items.setdefault(element.set, []).append(spelled)
    commands = [chain.commands for chain in chains.values()]
    commands += [
        f"add element {table._place} {name} {{ {', '.join(some)} }}\n" for name, some in items.items()
    ]
    return "".join(commands)


def _require_one_table(body: str) -> None:
    """A body that closes its table could go on with commands of its own, and so could what it includes."""
    words = words_of(body, "the table's body")
    depth = 0
    for character in words:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            break
    if depth:
        raise InvalidObject("the braces of the table's body do not match")
