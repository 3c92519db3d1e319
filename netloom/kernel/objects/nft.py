"""Tables of nftables: rules that are installed once and do not grow with the number of attachments.

An attachment's firewall rules are elements of a table's sets and maps. If they lead to rules of their own,
those are in a chain beside the table's.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..errors import Conflict, Difference, InvalidObject, KernelError, compare, missing
from ..namespace import Namespace
from ..netlink import nft_elements, nftables
from ..nft import NftError, require_name, words_of
from .base import Object, Scope, Undo
from .nft_chain import OWNER, Family, NftChain, is_ours
from .nft_element import NftElement

__all__ = ["OWNER", "NftTable", "lay_down"]

_NONE: Mapping[str, NftChain] = {}


class NftTable(Object, frozen=True, tag="nft-table"):
    """A table of netloom. `body` is the text between its braces, in nft's language.

    Elements of named sets are not part of it: each is an `NftElement`. Chains and sets whose names begin with
    one of `beside` are not part of it either: each is an `NftChain`.

    `arp` is the body of a table of the same name in the family arp, whose packets no other family's chains
    see. Both tables are created and deleted together.
    """

    family: Family
    name: str
    body: str
    beside: tuple[str, ...] = ()
    arp: str = ""

    def __post_init__(self) -> None:
        require_name(self.name)
        for prefix in self.beside:
            require_name(prefix)
        _require_one_table(self.body)
        _require_one_table(self.arp)
        if self.arp and self.family == "arp":
            raise InvalidObject(f"{self.label}: a table of the family arp cannot have an `arp` body as well")

    @property
    def title(self) -> str:
        return f"nft table {self.family} {self.name}"

    @property
    def comment(self) -> str:
        """Marks the table as ours, and names its body by a hash."""
        return f"{OWNER} {hashlib.sha256((self.body + self.arp).encode()).hexdigest()[:16]}"

    @property
    def bodies(self) -> dict[Family, str]:
        """Yields the body of the table itself, and of the one for ARP, by family."""
        arp: dict[Family, str] = {"arp": self.arp} if self.arp else {}
        return {self.family: self.body, **arp}

    def is_at(self, family: str, name: str) -> bool:
        """Says whether a table of that family and name is this one, or its table for ARP."""
        return name == self.name and family in self.bodies

    @property
    def _place(self) -> str:
        return f"{self.family} {self.name}"

    @property
    def _text(self) -> str:
        return "".join(
            f'table {family} {self.name} {{\ncomment "{self.comment}"\n{body}\n}}\n'
            for family, body in self.bodies.items()
        )

    def apply(self, scope: Scope) -> Undo | None:
        namespace = scope.at(self.on)
        if any(self._comments(namespace).values()):
            return self._keep(scope)
        self._planned()
        try:
            namespace.nft.run(self._text)
        except NftError as refused:
            raise KernelError(f"cannot add {self.label}: {refused}", errno=refused.errno) from None
        return lambda: self.remove(scope)

    def _comments(self, namespace: Namespace) -> dict[Family, str]:
        """Returns the comments of the existing tables; "unknown" for a table without a comment."""
        found = {it: nftables.read_table(namespace.netfilter, it, self.name) for it in self.bodies}
        return {family: comment or "unknown" for family, comment in found.items() if comment is not None}

    def check(self, scope: Scope) -> list[Difference]:
        namespace = scope.at(self.on)
        comments = self._comments(namespace)
        found = self._structure(namespace)
        if not comments or not found:
            return missing(self.label)
        strange = next((it for it in comments.values() if it != self.comment), None)
        if strange is not None:
            return compare(self.label, ("owner", self.comment, strange))
        wanted = self._planned()
        return compare(
            self.label,
            *(
                (part, *_compared(wanted.get(part), found.get(part)))
                for part in {**wanted, **found}
                if wanted.get(part) != found.get(part)
            ),
        )

    def _structure(self, namespace: Namespace, beside: tuple[str, ...] | None = None) -> dict[str, object]:
        """Returns the table's parts by name. For a part of the ARP table, the family precedes the name."""
        left_out = self.beside if beside is None else beside
        parts: dict[str, object] = {}
        for family in self.bodies:
            found = nftables.read_structure(namespace.netfilter, family, self.name, left_out) or {}
            prefix = "" if family == self.family else f"{family} "
            parts |= {f"{prefix}{part}": value for part, value in found.items()}
        return parts

    def require_element(self, element: NftElement, chains: Mapping[str, NftChain] = _NONE) -> None:
        """Checks that it fits the table with these chains beside it, by name.

        Raises `InvalidObject`, or `KernelError` if there is no such set. One query to the kernel serves all
        elements.
        """
        element.packed(self._set_of(element, chains))

    def _set_of(self, element: NftElement, chains: Mapping[str, NftChain]) -> nft_elements.Set | None:
        """Returns the layout of the element's set. The caller checks that the element fits."""
        if (element.on, element.family, element.table) != (self.on, self.family, self.name):
            raise InvalidObject(f"{element.label} does not belong to {self.label}")
        layout = self._layout()
        chain = element.leads_to
        if chain is not None and chain not in layout.chains and chain not in chains:
            raise InvalidObject(f"{element.label}: the chain {chain} does not exist")
        if element.set in chains:
            return chains[element.set].layout
        return layout.sets.get(element.set)

    def _require_beside(self, chain: NftChain) -> None:
        if (chain.on, chain.family, chain.table) != (self.on, self.family, self.name):
            raise InvalidObject(f"{chain.label} does not belong to {self.label}")
        if not chain.name.startswith(self.beside):
            raise InvalidObject(f"{chain.label}: {self.label} allows no chain of this name")

    def _planned(self) -> dict[str, object]:
        return self._layout().structure

    def _layout(self) -> _Layout:
        try:
            return _canonical(self)
        except NftError as refused:
            raise KernelError(
                f"{self.label} is invalid, or uses iif or oif instead of iifname or oifname: {refused}",
                errno=refused.errno,
            ) from None

    def remove(self, scope: Scope) -> None:
        namespace = scope.at(self.on)
        for last in (False, True):
            comments = self._comments(namespace)
            for comment in comments.values():
                if comment != self.comment:
                    raise Conflict(compare(self.label, ("owner", self.comment, comment)))
            if not comments:
                return
            try:
                namespace.nft.run("".join(f"delete table {it} {self.name}\n" for it in comments))
                return
            except NftError as refused:
                # Another program may have removed it just now.
                if last or refused.errno != errno.ENOENT:
                    raise KernelError(f"cannot remove {self.label}: {refused}", errno=refused.errno) from None


class _Layout(NamedTuple):
    """The kernel's form of a table: what it is compared by, its sets, and where verdicts can lead."""

    structure: dict[str, object]
    sets: dict[str, nft_elements.Set | None]
    chains: frozenset[str]


@lru_cache(maxsize=32)
def _canonical(table: NftTable) -> _Layout:
    """Returns the kernel's form of a table: installs it in an empty namespace and reads it back.

    So a table must name links by iifname and oifname, since no links exist there.
    """
    place = (table.family, table.name)
    with Namespace.new() as scratch:
        scratch.nft.run(table._text)
        structure = table._structure(scratch, beside=())
        named = [part.removeprefix("set ") for part in structure if part.startswith("set ")]
        sets = {one: nft_elements.read_set(scratch.netfilter, *place, one) for one in named}
        chains = nftables.read_plain_chains(scratch.netfilter, *place)
    for part in structure:
        what, _, name = part.partition(" ")
        if what in ("chain", "set") and name.startswith(table.beside):
            raise InvalidObject(f"{table.label} contains {part}, but declares it to be beside the table")
    return _Layout(structure, sets, chains)


def _compared(wanted: object, found: object) -> tuple[str, str]:
    if wanted is None:
        return "absent", "there"
    return "as planned", "missing" if found is None else "changed"


def lay_down(namespace: Namespace, table: NftTable, contents: Iterable[NftChain | NftElement]) -> None:
    """Installs a table with its contents in one transaction, in place of an earlier one of ours, if any.

    Use it for a table that was flushed, or that an older version made: no packet ever meets the table without
    its contents, and an error changes nothing. Chains may be given more than once.
    """
    additions = _additions(table, contents)
    # `create`, unlike `add`, fails if another table exists.
    creation = "".join(
        f'create table {family} {table.name} {{\ncomment "{table.comment}"\n}}\n'
        f"table {family} {table.name} {{\n{body}\n}}\n"
        for family, body in table.bodies.items()
    )
    for last in (False, True):
        there = [it for it in table.bodies if is_ours(namespace, it, table.name)]
        deletion = "".join(f"delete table {family} {table.name}\n" for family in there)
        try:
            namespace.nft.run(deletion + creation + additions)
            break
        except NftError as refused:
            # It may have been created or deleted just now.
            if last or refused.errno not in (errno.ENOENT, errno.EEXIST):
                raise KernelError(f"cannot install {table.label}: {refused}", errno=refused.errno) from None
    # The known layout of the former table's sets.
    for found in [it for it in namespace.findings if it[:3] == ("set", table.family, table.name)]:
        del namespace.findings[found]


def _additions(table: NftTable, contents: Iterable[NftChain | NftElement]) -> str:
    """Builds a command for each set, not for each element: 20,000 elements take 70 ms instead of 170."""
    chains: dict[str, NftChain] = {}
    elements: list[NftElement] = []
    for it in contents:
        if isinstance(it, NftElement):
            elements.append(it)
        elif it.name not in chains:
            table._require_beside(it)
            chains[it.name] = it
        elif chains[it.name] != it:
            raise InvalidObject(f"{it.label} is given twice with different values")
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
    """Refuses a body that closes its table, after which it could contain other commands, and includes."""
    words = words_of(body, "the table's body")
    depth = 0
    for character in words:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            break
    if depth:
        raise InvalidObject("the table's body has unbalanced braces")
