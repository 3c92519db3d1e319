"""Elements of nftables sets and maps: the firewall rules of an attachment."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from contextlib import suppress

from ..errors import Conflict, Difference, InvalidObject, KernelError, Refused, compare, missing
from ..namespace import Namespace
from ..netlink import nft_elements
from ..netlink.nft_types import pack, show
from ..nft import quoted, require_name
from .base import Object, Scope, Undo
from .nft_chain import Family, is_ours

_VERDICT = re.compile(r"(?:accept|drop|continue|return|(?:jump|goto) ([A-Za-z_][A-Za-z0-9_.-]{0,127}))")


class NftElement(Object, frozen=True, tag="nft-element"):
    """An element of a set or map: its key, and for a map its value or verdict.

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
            raise InvalidObject(f"{self.label}: an element needs a key, and a map element a value")
        for value in (*self.key, *(self.value or ())):
            quoted(value)
        if self.verdict is not None and not _VERDICT.fullmatch(self.verdict):
            raise InvalidObject(f"{self.label}: {self.verdict[:60]!r} is not a verdict")
        if self.verdict is not None and self.value is not None:
            raise InvalidObject(f"{self.label}: give a value or a verdict, not both")

    @property
    def title(self) -> str:
        return f"nft element {' . '.join(self.key)} of {self.family} {self.table} {self.set}"

    @property
    def place(self) -> tuple[str, str, str]:
        return self.family, self.table, self.set

    @property
    def leads_to(self) -> str | None:
        """The chain that its verdict names."""
        found = None if self.verdict is None else _VERDICT.fullmatch(self.verdict)
        return found and found[1]

    def apply(self, scope: Scope) -> Undo | None:
        return self.apply_all([self], scope)[0]

    @staticmethod
    def apply_all(elements: Sequence[NftElement], scope: Scope) -> list[Undo | None]:
        """Adds elements of one namespace in one transaction, unless some exist already."""
        namespace = scope.at(elements[0].on)
        kept: set[int] = set()
        for attempt in range(3):
            try:
                items = [element._item_of(namespace) for element in elements]
                fresh = {item: None for number, item in enumerate(items) if number not in kept}
                if fresh:
                    nft_elements.change_elements(namespace.netfilter, nft_elements.NEW_ELEMENT, list(fresh))
                first = {item: number for number, item in reversed(list(enumerate(items)))}
                return [
                    None if number in kept or first[items[number]] != number else element._undo(scope)
                    for number, element in enumerate(elements)
                ]
            except Refused as refused:
                # The known layout of the table may be outdated, or some elements exist already.
                if attempt == 2 or refused.errno not in (errno.EEXIST, errno.ENOENT, errno.EINVAL):
                    raise _explained("add", elements, refused) from None
                some_are_there = attempt == 1 or refused.errno == errno.EEXIST
            _forget(elements, namespace)
            if some_are_there:
                kept = {number for number, element in enumerate(elements) if element._is_there(scope)}
        raise AssertionError("the last attempt returns or raises")

    def _item_of(self, namespace: Namespace) -> nft_elements.Item:
        """Returns the element as the kernel stores it, for a set of a table of ours.

        The layout of a set is queried once. If it is outdated, the kernel refuses the element.
        """
        of = namespace.findings.get(("set", *self.place))
        if isinstance(of, nft_elements.Set):
            return self.packed(of)
        is_ours(namespace, self.family, self.table)
        of = nft_elements.read_set(namespace.netfilter, *self.place)
        item = self.packed(of)
        namespace.findings["set", *self.place] = of
        return item

    def packed(self, of: nft_elements.Set | None) -> nft_elements.Item:
        """Packs the element for a set of this layout; None for no layout. Raises what makes it impossible.

        Refuses what libnftables would take for a name and look up, and what netloom could not find again.
        """
        if of is None:
            raise KernelError(f"cannot add {self.label}: there is no such set", errno=errno.ENOENT)
        if of.key is None or of.interval or (of.value is None and not of.verdicts and of.is_map):
            raise KernelError(f"cannot add {self.label}: netloom cannot compare elements of such a set")
        if (self.verdict is not None) != of.verdicts or (self.value is not None) != (of.value is not None):
            wanted = "a verdict" if of.verdicts else "a value" if of.is_map else "neither value nor verdict"
            raise InvalidObject(f"{self.label}: elements of this set have {wanted}")
        try:
            data = nft_elements.data_of(of, self.value, self.verdict)
            return nft_elements.Item(self.place, pack(of.key, self.key), data)
        except InvalidObject as wrong:
            raise InvalidObject(f"{self.label}: {wrong}") from None

    def spelled(self, of: nft_elements.Set | None) -> str:
        """Returns the element in nft's language, for a set of this layout."""
        item = self.packed(of)
        assert of is not None
        key = _quoted(show(of.key or (), item.key))
        if self.verdict is not None:
            return f"{key} : {self.verdict}"
        if self.value is None:
            return key
        return f"{key} : {_quoted(show(of.value or (), pack(of.value or (), self.value)))}"

    def _undo(self, scope: Scope) -> Undo:
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        namespace = scope.at(self.on)
        of = namespace.findings.get(("set", *self.place))
        if isinstance(of, nft_elements.Set):
            with suppress(KernelError):
                differences = self._compared(of, namespace)
                if not differences:
                    return []
        # The known layout of the set may be outdated.
        of = nft_elements.read_set(namespace.netfilter, *self.place)
        if of is None or of.key is None or of.interval:
            return missing(self.label)  # such a set never accepted it from netloom
        return self._compared(of, namespace)

    def _compared(self, of: nft_elements.Set, namespace: Namespace) -> list[Difference]:
        try:
            found = nft_elements.read_element(namespace.netfilter, *self.place, of, self.key)
            wanted = self.value and show(of.value or (), pack(of.value or (), self.value))
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
        """Removes all elements in one transaction, except those that are not ours."""
        namespace = scope.at(elements[0].on)
        connection = namespace.netfilter
        # Nearly always, all exist as netloom made them. In a plain set there is nothing to compare.
        with suppress(KernelError):
            items = dict.fromkeys(element._item_of(namespace) for element in elements)
            if nft_elements.are_there(connection, [item for item in items if item.data]):
                nft_elements.change_elements(connection, nft_elements.DELETE_ELEMENT, list(items))
                return
        _remove_what_is_there(elements, scope)


def _remove_what_is_there(elements: Sequence[NftElement], scope: Scope) -> None:
    """Queries what exists first: a transaction that fails costs the kernel 10 ms and more."""
    namespace = scope.at(elements[0].on)
    strange: list[Difference] = []
    for last in (False, True):
        _forget(elements, namespace)
        strange = []
        ours: dict[nft_elements.Item, None] = {}
        for element in elements:
            differences = element.check(scope)
            if not differences:
                with suppress(KernelError):  # the set was deleted, and the element with it
                    ours[element._item_of(namespace)] = None
            elif differences[0].what == "different":
                strange += differences
        try:
            if ours:
                nft_elements.change_elements(namespace.netfilter, nft_elements.DELETE_ELEMENT, list(ours))
            break
        except Refused as refused:
            # Another program may have removed one of them just now.
            if last or refused.errno != errno.ENOENT:
                raise _explained("remove", elements, refused) from None
    if strange:
        raise Conflict(strange)


def _forget(elements: Sequence[NftElement], namespace: Namespace) -> None:
    """Discards the known layouts of their sets, which may be outdated."""
    for place in {element.place for element in elements}:
        namespace.findings.pop(("set", *place), None)


def _explained(verb: str, elements: Sequence[NftElement], refused: Refused) -> KernelError:
    return KernelError(f"cannot {verb} {elements[0].label}: {refused}", errno=refused.errno)


def _quoted(values: Sequence[str]) -> str:
    return " . ".join(f'"{value}"' for value in values)


def _joined(values: Sequence[str] | None) -> str | None:
    return None if values is None else " . ".join(values)
