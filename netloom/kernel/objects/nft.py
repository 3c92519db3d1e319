"""Tables of nftables, and the elements of their sets and maps.

What an attachment needs of the firewall are elements: rules are laid down once, in a table, and do
not grow with the number of attachments.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from ..difference import Difference, compare, missing
from ..errors import Conflict, InvalidObject, KernelError, Refused
from ..namespace import Namespace
from ..netlink import nftables
from ..nft import NftError, quoted, require_name
from .base import Object, Scope, Undo

Family: TypeAlias = Literal["inet", "ip", "ip6", "arp", "bridge", "netdev"]

# A table whose comment begins so is ours. What follows says which plan's it is.
OWNER = "made by netloom"

_VERDICT = re.compile(r"accept|drop|continue|return|(?:jump|goto) ([A-Za-z_][A-Za-z0-9_.-]*)")
_TEXT_OR_REMARK = re.compile(r'"[^"]*"|#[^\n]*')
_REFUSED_WORDS = re.compile(r"\b(include|define|redefine|undefine)\b|\bflags\s+owner\b")


class NftTable(Object, frozen=True, tag="nft-table"):
    """A table of ours. `body` is what stands between its braces, in nft's language.

    Elements of named sets are no part of it: each is an `NftElement`.
    """

    family: Family
    name: str
    body: str

    def __post_init__(self) -> None:
        require_name(self.name)
        _require_one_table(self.body)

    @property
    def title(self) -> str:
        return f"nft table {self.family} {self.name}"

    @property
    def comment(self) -> str:
        """Says whose it is, and of which body."""
        return f"{OWNER} {hashlib.sha256(self.body.encode()).hexdigest()[:16]}"

    @property
    def _text(self) -> str:
        return f'table {self.family} {self.name} {{\ncomment "{self.comment}"\n{self.body}\n}}\n'

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
        found = nftables.read_structure(connection, self.family, self.name)
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

    def _planned(self) -> dict[str, object]:
        return self._laid_out().structure

    def _laid_out(self) -> _Layout:
        try:
            return _canonical(self.family, self.name, self._text)
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
                namespace.nft.run(f"delete table {self.family} {self.name}")
                return
            except NftError as refused:
                # Somebody else may have taken it away just now.
                if last or refused.errno != errno.ENOENT:
                    raise KernelError(f"cannot remove {self.label}: {refused}", errno=refused.errno) from None


class _Layout(NamedTuple):
    """What the kernel says of a table: what it compares equal by, and its sets."""

    structure: dict[str, object]
    sets: dict[str, nftables.Set | None]


@lru_cache(maxsize=32)
def _canonical(family: str, name: str, text: str) -> _Layout:
    """What the kernel makes of a table: it is laid down in an empty namespace, and read back.

    So a table may not name links, which are not there, but their names.
    """
    with Namespace.new() as scratch:
        scratch.nft.run(text)
        structure = nftables.read_structure(scratch.netfilter, family, name) or {}
        named = [part.removeprefix("set ") for part in structure if part.startswith("set ")]
        sets = {one: nftables.read_set(scratch.netfilter, family, name, one) for one in named}
        return _Layout(structure, sets)


def _compared(wanted: object, found: object) -> tuple[str, str]:
    if wanted is None:
        return "absent", "there"
    return "as planned", "missing" if found is None else "changed"


class NftElement(Object, frozen=True, tag="nft-element"):
    """An element of a set or map: its key, and, of a map, its value or verdict.

    Keys and values are lists, since both may be concatenations: ["tcp", "10.0.0.1", "80"].
    """

    family: Family
    table: str
    set: str
    key: tuple[str, ...]
    value: tuple[str, ...] | None = None
    verdict: str | None = None

    def __post_init__(self) -> None:
        require_name(self.table)
        require_name(self.set)
        if not self.key or self.value == ():
            raise InvalidObject(f"{self.label}: an element needs a key, and a map a value")
        for value in (*self.key, *(self.value or ())):
            quoted(value)
        if self.verdict is not None and not _VERDICT.fullmatch(self.verdict):
            raise InvalidObject(f"{self.label}: {self.verdict[:60]!r} is no verdict")
        if self.verdict is not None and self.value is not None:
            raise InvalidObject(f"{self.label}: it has a value or a verdict, not both")

    @property
    def title(self) -> str:
        return f"nft element {' . '.join(self.key)} of {self.family} {self.table} {self.set}"

    @property
    def _place(self) -> str:
        return f"{self.family} {self.table} {self.set}"

    @property
    def _item(self) -> str:
        wanted = ""
        if self.verdict is not None:
            wanted = f" : {self.verdict}"
        elif self.value is not None:
            wanted = f" : {_concatenated(self.value)}"
        return f"{_concatenated(self.key)}{wanted}"

    def apply(self, scope: Scope) -> Undo | None:
        return self.apply_all([self], scope)[0]

    @staticmethod
    def apply_all(elements: Sequence[NftElement], scope: Scope) -> list[Undo | None]:
        """Elements of one namespace, in one transaction, unless some are there already."""
        namespace = scope.at(elements[0].on)
        kept: set[int] = set()
        for attempt in range(3):
            try:
                items = [element._item_of(namespace, known=attempt == 0) for element in elements]
                fresh = {item: None for number, item in enumerate(items) if number not in kept}
                if fresh:
                    nftables.change_elements(namespace.netfilter, nftables.NEW_ELEMENT, list(fresh))
                first = {item: number for number, item in reversed(list(enumerate(items)))}
                return [
                    None if number in kept or first[items[number]] != number else element._undo(scope)
                    for number, element in enumerate(elements)
                ]
            except Refused as refused:
                # What we knew of the table may be wrong by now, or some of them are there.
                if attempt == 2 or refused.errno not in (errno.EEXIST, errno.ENOENT, errno.EINVAL):
                    raise _explained("add", elements, refused) from None
            if attempt:
                kept = {number for number, element in enumerate(elements) if element._is_there(scope)}
        raise AssertionError("the last attempt returns or raises")

    def _item_of(self, namespace: Namespace, *, known: bool) -> nftables.Item:
        """As the kernel spells it, for a set of a table that is ours.

        What a set is made of is asked once. It may be out of date: then the kernel refuses the element.
        """
        place = (self.family, self.table, self.set)
        of = namespace.findings.get(("set", *place)) if known else None
        if not isinstance(of, nftables.Set):
            namespace.findings.pop(("set", *place), None)
            comment = nftables.read_table(namespace.netfilter, self.family, self.table)
            if comment is not None and not comment.startswith(OWNER):
                label = f"nft table {self.family} {self.table}"
                raise Conflict(compare(label, ("owner", OWNER, comment or "nobody")))
            of = nftables.read_set(namespace.netfilter, *place)
        spelled = self._spelled(of)
        assert of is not None
        namespace.findings["set", *place] = of
        return nftables.Item(*place, of, spelled.key, spelled.value, spelled.verdict)

    def _spelled(self, of: nftables.Set | None) -> NftElement:
        """What libnftables would take for a name and look up, or what we could not find again, is refused."""
        if of is None:
            raise KernelError(f"cannot add {self.label}: there is no such set", errno=errno.ENOENT)
        if of.key is None or of.interval or (of.value is None and not of.verdicts and of.is_map):
            raise KernelError(f"cannot add {self.label}: netloom cannot compare elements of such a set")
        if (self.verdict is not None) != of.verdicts or (self.value is not None) != (of.value is not None):
            wanted = "a verdict" if of.verdicts else "a value" if of.is_map else "neither value nor verdict"
            raise InvalidObject(f"{self.label}: elements of this set have {wanted}")
        try:
            key = nftables.show(of.key, nftables.pack(of.key, self.key))
            value = self.value and nftables.show(of.value or (), nftables.pack(of.value or (), self.value))
        except InvalidObject as wrong:
            raise InvalidObject(f"{self.label}: {wrong}") from None
        return replace(self, key=key, value=value)

    def _undo(self, scope: Scope) -> Undo:
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        namespace = scope.at(self.on)
        of = namespace.findings.get(("set", self.family, self.table, self.set))
        if isinstance(of, nftables.Set):
            with suppress(KernelError):
                differences = self._compared(of, namespace)
                if not differences:
                    return []
        # What we knew of the set may be out of date.
        of = nftables.read_set(namespace.netfilter, self.family, self.table, self.set)
        if of is None or of.key is None or of.interval:
            return missing(self.label)  # such a set never took it from us
        return self._compared(of, namespace)

    def _compared(self, of: nftables.Set, namespace: Namespace) -> list[Difference]:
        try:
            found = nftables.read_element(
                namespace.netfilter, self.family, self.table, self.set, of, self.key
            )
            wanted = self.value and nftables.show(of.value or (), nftables.pack(of.value or (), self.value))
        except InvalidObject:
            return missing(self.label)
        if found is None:
            return missing(self.label)
        if self.verdict is not None or found.verdict is not None:
            return compare(self.label, ("verdict", self.verdict, found.verdict))
        return compare(self.label, ("value", _joined(wanted), _joined(found.value)))

    def remove(self, scope: Scope) -> None:
        self.remove_all([self], scope)

    @staticmethod
    def remove_all(elements: Sequence[NftElement], scope: Scope) -> None:
        """In one transaction. What is not ours stays, and all others go."""
        namespace = scope.at(elements[0].on)
        if all(element.value is None and element.verdict is None for element in elements):
            # Of a plain set there is nothing to compare, and nearly always they are there.
            with suppress(KernelError):
                items = [element._item_of(namespace, known=True) for element in elements]
                nftables.change_elements(
                    namespace.netfilter, nftables.DELETE_ELEMENT, list(dict.fromkeys(items))
                )
                return
        _remove_what_is_there(elements, scope)


def _remove_what_is_there(elements: Sequence[NftElement], scope: Scope) -> None:
    """What is there is asked first: a transaction that fails costs the kernel 10 ms and more."""
    namespace = scope.at(elements[0].on)
    strange: list[Difference] = []
    for last in (False, True):
        strange = []
        ours: dict[nftables.Item, None] = {}
        for element in elements:
            differences = element.check(scope)
            if not differences:
                with suppress(KernelError):  # the set is gone by now, and the element with it
                    ours[element._item_of(namespace, known=False)] = None
            elif differences[0].what == "different":
                strange += differences
        try:
            if ours:
                nftables.change_elements(namespace.netfilter, nftables.DELETE_ELEMENT, list(ours))
            break
        except Refused as refused:
            # Somebody else may have taken one of them away just now.
            if last or refused.errno != errno.ENOENT:
                raise _explained("remove", elements, refused) from None
    if strange:
        raise Conflict(strange)


def lay_down(namespace: Namespace, table: NftTable, elements: Sequence[NftElement]) -> None:
    """A table with its elements in place of the one that we had there, if any, all in one transaction.

    For a table that somebody has flushed, or that an older version of us made: no packet ever meets it
    without its elements, and if anything is wrong, all stays as it was.
    """
    additions = _additions(table, elements)
    # To create it, and not only to add to it, says that nobody else's may be there.
    creation = (
        f'create table {table.family} {table.name} {{\ncomment "{table.comment}"\n}}\n'
        f"table {table.family} {table.name} {{\n{table.body}\n}}\n"
    )
    for last in (False, True):
        comment = nftables.read_table(namespace.netfilter, table.family, table.name)
        if comment is not None and not comment.startswith(OWNER):
            raise Conflict(compare(table.label, ("owner", OWNER, comment or "nobody")))
        deletion = "" if comment is None else f"delete table {table.family} {table.name}\n"
        try:
            namespace.nft.run(deletion + creation + additions)
            return
        except NftError as refused:
            # It may have come or gone just now.
            if last or refused.errno not in (errno.ENOENT, errno.EEXIST):
                raise KernelError(f"cannot lay down {table.label}: {refused}", errno=refused.errno) from None


def _additions(table: NftTable, elements: Sequence[NftElement]) -> str:
    """A command for each set, not for each element: 20,000 take 70 ms instead of 170."""
    sets = table._laid_out().sets
    items: dict[str, list[str]] = {}
    for element in elements:
        if (element.on, element.family, element.table) != (table.on, table.family, table.name):
            raise InvalidObject(f"{element.label} is not of {table.label}")
        items.setdefault(element._place, []).append(element._spelled(sets.get(element.set))._item)
    return "".join(f"add element {place} {{ {', '.join(some)} }}\n" for place, some in items.items())


def _explained(verb: str, elements: Sequence[NftElement], refused: Refused) -> KernelError:
    return KernelError(f"cannot {verb} {elements[0].label}: {refused}", errno=refused.errno)


def _concatenated(values: Sequence[str]) -> str:
    return " . ".join(map(quoted, values))


def _joined(values: Sequence[str] | None) -> str | None:
    return None if values is None else " . ".join(values)


def _require_one_table(body: str) -> None:
    """A body that closes its table could go on with commands of its own, and so could what it includes."""
    words = _TEXT_OR_REMARK.sub(" ", body)
    if '"' in words:
        raise InvalidObject("the quotes of the table's body do not match")
    refused = _REFUSED_WORDS.search(words)
    if refused:
        raise InvalidObject(f"the table's body has {refused[0]!r} in it, which a plan cannot have")
    depth = 0
    for character in words:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            break
    if depth:
        raise InvalidObject("the braces of the table's body do not match")
