"""Tables of nftables, and the elements of their sets and maps.

What an attachment needs of the firewall are elements: rules are laid down once, in a table, and do
not grow with the number of attachments.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from ..difference import Difference, compare, missing
from ..errors import Conflict, InvalidObject, KernelError
from ..namespace import Namespace
from ..netlink import nftables
from ..nft import NftError, quoted, require_name
from .base import Object, Scope, Undo

Family: TypeAlias = Literal["inet", "ip", "ip6", "arp", "bridge", "netdev"]

# A table with this comment is ours; nothing else is ever changed or removed.
COMMENT = "made by netloom"

_VERDICT = re.compile(r"accept|drop|continue|return|(?:jump|goto) ([A-Za-z_][A-Za-z0-9_.-]*)")


class NftTable(Object, frozen=True, tag="nft-table"):
    """A table of ours. `body` is what stands between its braces, in nft's language.

    Elements of named sets are no part of it: each is an `NftElement`.
    """

    family: Family
    name: str
    body: str

    def __post_init__(self) -> None:
        require_name(self.name)
        _require_balance(self.body)

    @property
    def title(self) -> str:
        return f"nft table {self.family} {self.name}"

    @property
    def _text(self) -> str:
        return f'table {self.family} {self.name} {{\ncomment "{COMMENT}"\n{self.body}\n}}\n'

    def apply(self, scope: Scope) -> Undo | None:
        namespace = scope.at(self.on)
        if nftables.read_table(namespace.netfilter, self.family, self.name) is not None:
            return self._keep(scope)
        try:
            namespace.nft.run(self._text)
        except NftError as refused:
            raise KernelError(f"cannot add {self.label}: {refused}", errno=refused.errno) from None
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        namespace = scope.at(self.on)
        comment = nftables.read_table(namespace.netfilter, self.family, self.name)
        if comment is None:
            return missing(self.label)
        if comment != COMMENT:
            return compare(self.label, ("owner", COMMENT, comment or "nobody"))
        wanted = _canonical(self._text, f"{self.family} {self.name}")
        found = _parts(namespace.nft.listing(f"table {self.family} {self.name}"))
        return compare(
            self.label,
            *((part, wanted.get(part), found.get(part)) for part in {**wanted, **found}),
        )

    def remove(self, scope: Scope) -> None:
        namespace = scope.at(self.on)
        comment = nftables.read_table(namespace.netfilter, self.family, self.name)
        if comment is None:
            return
        if comment != COMMENT:
            raise Conflict(compare(self.label, ("owner", COMMENT, comment or "nobody")))
        namespace.nft.run(f"delete table {self.family} {self.name}")


@lru_cache(maxsize=32)
def _canonical(text: str, table: str) -> dict[str, str]:
    """How the kernel would list it: laid down in an empty namespace, and read back."""
    with Namespace.new() as scratch:
        scratch.nft.run(text)
        return _parts(scratch.nft.listing(f"table {table}"))


def _parts(listing: list[dict[str, Any]]) -> dict[str, str]:
    """Chains, with their rules, and sets of a table, each as text that is equal for equals."""
    parts: dict[str, str] = {}
    rules: dict[str, list[Any]] = {}
    for item in listing:
        for kind, found in item.items():
            if kind == "rule":
                rules.setdefault(f"chain {found['chain']}", []).append(_still(found["expr"]))
            elif kind != "table":
                parts[f"{kind} {found['name']}"] = _as_text(_still(found, _MOVING | {"elem"}))
    for chain, listed in rules.items():
        parts[chain] = f"{parts.get(chain, '')} {_as_text(listed)}"
    return parts


# What differs from one listing to the next of the same thing; and, of sets, what is no part of a table.
_MOVING = frozenset({"handle", "packets", "bytes", "used"})


def _still(value: Any, moving: frozenset[str] = _MOVING) -> Any:
    if isinstance(value, dict):
        return {key: _still(item) for key, item in value.items() if key not in moving}
    return [_still(item) for item in value] if isinstance(value, list) else value


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


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

    def addition(self) -> str:
        wanted = ""
        if self.verdict is not None:
            wanted = f" : {self.verdict}"
        elif self.value is not None:
            wanted = f" : {_concatenated(self.value)}"
        return f"create element {self._place} {{ {_concatenated(self.key)}{wanted} }}\n"

    def apply(self, scope: Scope) -> Undo | None:
        return self.apply_all([self], scope)[0]

    @staticmethod
    def apply_all(elements: Sequence[NftElement], scope: Scope) -> list[Undo | None]:
        """Elements of one namespace, in one transaction, unless some are there already."""
        for element in elements:
            element._require_fit(scope)
        try:
            _add(elements, scope)
        except NftError as refused:
            if refused.errno != errno.EEXIST:
                raise _explained("add", elements, refused) from None
        else:
            return [element._undo(scope) for element in elements]
        present = [element._is_kept(scope) for element in elements]
        fresh = [element for element, kept in zip(elements, present, strict=True) if not kept]
        try:
            _add(fresh, scope)
        except NftError as refused:
            raise _explained("add", fresh, refused) from None
        return [
            None if kept else element._undo(scope) for element, kept in zip(elements, present, strict=True)
        ]

    def _require_fit(self, scope: Scope) -> None:
        """What libnftables would take for a name and look up, or what we could not find again, is refused."""
        of = self._set(scope)
        if of is None:
            raise KernelError(f"cannot add {self.label}: there is no such set", errno=errno.ENOENT)
        if of.key is None or of.interval or (of.value is None and not of.verdicts and of.is_map):
            raise KernelError(f"cannot add {self.label}: netloom cannot compare elements of such a set")
        nftables.pack(of.key, self.key)
        if (self.verdict is not None) != of.verdicts or (self.value is not None) != (of.value is not None):
            wanted = "a verdict" if of.verdicts else "a value" if of.is_map else "neither value nor verdict"
            raise InvalidObject(f"{self.label}: elements of this set have {wanted}")
        if self.value is not None:
            nftables.pack(of.value or (), self.value)

    def _set(self, scope: Scope) -> nftables.Set | None:
        return nftables.read_set(scope.at(self.on).netfilter, self.family, self.table, self.set)

    def _undo(self, scope: Scope) -> Undo:
        return lambda: self.remove(scope)

    def _is_kept(self, scope: Scope) -> bool:
        differences = self.check(scope)
        if differences and differences[0].what == "different":
            raise Conflict(differences)
        return not differences

    def check(self, scope: Scope) -> list[Difference]:
        of = self._set(scope)
        if of is None or of.key is None or of.interval:
            return missing(self.label)  # such a set never took it from us
        try:
            found = nftables.read_element(
                scope.at(self.on).netfilter, self.family, self.table, self.set, of, self.key
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
        """In one transaction. What is there is asked first: a failed one costs the kernel 10 ms and more."""
        commands = []
        for element in elements:
            differences = element.check(scope)
            if not differences:
                commands.append(f"delete element {element._place} {{ {_concatenated(element.key)} }}\n")
            elif differences[0].what == "different":
                raise Conflict(differences)
        if not commands:
            return
        try:
            scope.at(elements[0].on).nft.run("".join(commands))
        except NftError as refused:
            raise _explained("remove", elements, refused) from None


def _add(elements: Sequence[NftElement], scope: Scope) -> None:
    if elements:
        scope.at(elements[0].on).nft.run("".join(element.addition() for element in elements))


def _explained(verb: str, elements: Sequence[NftElement], refused: NftError) -> KernelError:
    return KernelError(f"cannot {verb} {elements[0].label}: {refused}", errno=refused.errno)


def _concatenated(values: Sequence[str]) -> str:
    return " . ".join(map(quoted, values))


def _joined(values: Sequence[str] | None) -> str | None:
    return None if values is None else " . ".join(values)


def _require_balance(body: str) -> None:
    """A body that closes its table could go on with commands of its own."""
    depth, text, remark = 0, False, False
    for character in body:
        if remark or (character == "#" and not text):
            remark = character != "\n"
        elif character == '"':
            text = not text
        elif not text:
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth < 0:
                break
    if depth or text:
        raise InvalidObject("the braces or quotes of the table's body do not match")
