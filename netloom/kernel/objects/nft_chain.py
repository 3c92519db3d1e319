"""Chains that many attachments share, and that are deleted with the last of them.

A chain holds what no element can express: rules of a network, to which the elements of its attachments lead.
It is in a table of ours but not part of it.
"""

from __future__ import annotations

import errno
import re
from functools import lru_cache
from typing import Literal, TypeAlias

from ..errors import Conflict, Difference, InvalidObject, KernelError, Refused, compare, missing
from ..namespace import Namespace
from ..netlink import nft_elements, nftables
from ..nft import NftError, require_name, words_of
from .base import Object, Scope, Undo

Family: TypeAlias = Literal["inet", "ip", "ip6", "arp", "bridge", "netdev"]

# A table whose comment begins like this is ours. The rest identifies the body.
OWNER = "made by netloom"


def is_ours(namespace: Namespace, family: Family, table: str) -> bool:
    """Says whether our table exists. One without our comment is a `Conflict` and is not changed."""
    comment = nftables.read_table(namespace.netfilter, family, table)
    if comment is not None and not comment.startswith(OWNER):
        raise Conflict(compare(f"nft table {family} {table}", ("owner", OWNER, comment or "unknown")))
    return comment is not None


_UNPRINTABLE = re.compile(r"[\0-\x1f\x7f]")
_BEYOND_A_RULE = re.compile(r"[;{}#\\$]")
_REFERENCE = re.compile(r"@([^\s,]*)(\s*,)?")
_HEADERS = frozenset({"ll", "nh", "th", "ih"})  # offset and size of a packet's field: @th,16,16
_WAY = re.compile(r"\b(?:jump|goto)\s+([A-Za-z_][A-Za-z0-9_.-]*)")
_LOOKS = 5


class NftChain(Object, frozen=True, tag="nft-chain"):
    """A chain of rules, each in nft's language, that the kernel does not call itself: elements lead to it.

    With `members`, a set of such keys is created and deleted with it. The set has the chain's name, and is
    the only one that the rules can refer to.
    """

    family: Family
    table: str
    name: str
    rules: tuple[str, ...]
    members: str = ""

    def __post_init__(self) -> None:
        require_name(self.table)
        require_name(self.name)
        _require_rules(self.name, self.rules, self.members)

    @property
    def title(self) -> str:
        return f"nft chain {self.family} {self.table} {self.name}"

    @property
    def commands(self) -> str:
        """Commands that create it in an existing table. Each rule is one command, so its text cannot add
        others.
        """
        place = f"{self.family} {self.table} {self.name}"
        members = f"create set {place} {{ type {self.members}; }}\n" if self.members else ""
        rules = "".join(f"add rule {place} {rule}\n" for rule in self.rules)
        return f"{members}create chain {place}\n{rules}"

    @property
    def layout(self) -> nft_elements.Set | None:
        """Returns the layout of the set of its members, if it has one."""
        return nft_elements.plain_set(self.members)

    def apply(self, scope: Scope) -> Undo | None:
        namespace = scope.at(self.on)
        planned = self._planned()
        # Once the chain was found to be as planned, its set cannot be deleted before its rules: querying the
        # rules is enough.
        known = ("chain", self.family, self.table, self.name, self.members, *self.rules)
        if known in namespace.findings and self.rules:
            found = nftables.read_rules(namespace.netfilter, self.family, self.table, self.name)
            if found == planned.rules:
                return None
        for last in (False, True):
            if not is_ours(namespace, self.family, self.table):
                raise KernelError(f"cannot add {self.label}: there is no such table", errno=errno.ENOENT)
            if self._is_there(scope):
                namespace.findings[known] = True
                return None
            try:
                namespace.nft.run(self.commands)
                break
            except NftError as refused:
                # It may have been created, or its table deleted, just now.
                if last or refused.errno not in (errno.ENOENT, errno.EEXIST):
                    raise KernelError(f"cannot add {self.label}: {refused}", errno=refused.errno) from None
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        return self._compared(self._found(scope))

    def _found(self, scope: Scope) -> nftables.Chain | None:
        """Returns the chain as planned, or as two reads agree: a program may change it between queries."""
        former: nftables.Chain | None = None
        for _ in range(_LOOKS):
            found = self._look(scope)
            if found is None or found.content == self._planned().content:
                return found
            if former is not None and found.content == former.content:
                return found
            former = found
        return former

    def _look(self, scope: Scope) -> nftables.Chain | None:
        return nftables.read_chain(scope.at(self.on).netfilter, self.family, self.table, self.name)

    def _compared(self, found: nftables.Chain | None) -> list[Difference]:
        if found is None:
            return missing(self.label)
        planned = self._planned()
        rules = "as planned"
        if (found.hook, found.rules) != (planned.hook, planned.rules):
            rules = "missing" if found.hook is None else "changed"
        members = self.members or "none"
        if found.members != planned.members:
            members = "none" if found.members is None else "another set"
        return compare(
            self.label, ("rules", "as planned", rules), ("members", self.members or "none", members)
        )

    def _planned(self) -> nftables.Chain:
        try:
            return _canonical(self)
        except NftError as refused:
            raise KernelError(
                f"{self.label} is invalid, or uses iif or oif instead of iifname or oifname: {refused}",
                errno=errno.EINVAL,
            ) from None

    def remove(self, scope: Scope) -> None:
        """Deletes the chain unless a rule leads to it, by a query first: a refusal costs the kernel 10 ms."""
        namespace = scope.at(self.on)
        for last in (False, True):
            found = self._look(scope)
            if found is None or found.is_led_to:
                return
            is_ours(namespace, self.family, self.table)
            found = self._found(scope)
            if found is None:
                return
            differences = self._compared(found)
            if differences:
                raise Conflict(differences)
            try:
                nftables.delete_chain(
                    namespace.netfilter, self.family, self.table, self.name, members=bool(self.members)
                )
                return
            except Refused as refused:
                if refused.errno == errno.EBUSY:
                    return
                # Another program may have removed it just now.
                if last or refused.errno != errno.ENOENT:
                    raise refused.during(f"cannot remove {self.label}") from None


@lru_cache(maxsize=4096)
def _canonical(chain: NftChain) -> nftables.Chain:
    """Returns the kernel's form of a chain: installs it in an empty namespace and reads it back.

    Chains that it leads to need only exist.
    """
    others = {way for rule in chain.rules for way in _WAY.findall(words_of(rule, "a rule"))}
    place = f"{chain.family} {chain.table}"
    with Namespace.new() as scratch:
        scratch.nft.run(
            f"add table {place}\n"
            + "".join(f"add chain {place} {other}\n" for other in sorted(others))
            + chain.commands
        )
        found = nftables.read_chain(scratch.netfilter, chain.family, chain.table, chain.name)
    assert found is not None
    if len(found.rules) != len(chain.rules):
        raise InvalidObject(f"{chain.label}: one of its rules is not exactly one rule")
    return found


@lru_cache(maxsize=4096)
def _require_rules(name: str, rules: tuple[str, ...], members: str) -> None:
    """Checks the rules, once for the many plans that share them."""
    what = f"a rule of chain {name}"
    if members and nft_elements.plain_set(members) is None:
        raise InvalidObject(f"chain {name} cannot have members of type {members[:80]!r}")
    for rule in rules:
        words = words_of(rule, what)
        refused = _UNPRINTABLE.search(rule) or _BEYOND_A_RULE.search(words)
        if refused:
            raise InvalidObject(f"{what} contains {refused[0]!r}, which rules must not use: {rule[:80]!r}")
        if not words.strip():
            raise InvalidObject(f"{what} is empty")
        if name in _WAY.findall(words):
            raise InvalidObject(f"{what} leads to the chain itself: {rule[:80]!r}")
        for reference, comma in _REFERENCE.findall(words):
            if (reference in _HEADERS and comma) or (members and reference == name):
                continue
            raise InvalidObject(f"{what} refers to {reference[:80]!r}; it may only refer to its own members")
