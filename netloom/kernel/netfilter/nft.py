"""Reads nftables rules from the kernel chain by chain, and evaluates them as the kernel does.

A rule is a small program: expressions load parts of a packet into registers and compare them there. Tables
that today's `iptables` writes have the same form, with iptables matches among the expressions.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ..errors import Refused
from ..netlink.connection import NetlinkConnection
from ..netlink.message import Attributes, each, text
from .field import Truth
from .nft_expressions import Run, Step, big, compiled
from .nft_sets import SetReader
from .packet import HOOKS, Hook, Marks, Packet
from .rules import Action, BaseChain, FirewallRule

_GET_CHAIN, _GET_RULE, _GET_GENERATION = 10 << 8 | 4, 10 << 8 | 7, 10 << 8 | 16
_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 10: "ip6"}
_NUMBERS = {name: number for number, name in _FAMILIES.items()}
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_POLICY, _CHAIN_TYPE = 1, 3, 4, 5, 7
_HOOK_NUMBER, _HOOK_PRIORITY, _HOOK_DEVICE, _HOOK_DEVICES = 1, 2, 3, 4
_DEVICE_PREFIX = 2
_UP_TO_HOOK = frozenset({_CHAIN_HOOK})
_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS = 1, 2, 3, 4
_RULE_PARTS = frozenset({_RULE_TABLE, _RULE_CHAIN, _RULE_HANDLE, _RULE_EXPRESSIONS})
_NAME = 1
_GENERATION = 1

# A chain of type `nat` sees only the first packet of a connection, to translate it; `route` is for output.
_TYPES = frozenset({"filter", "route"})


def generation(connection: NetlinkConnection) -> int:
    """Returns a number that changes with every change of nftables rules by any program."""
    answer = connection.ask(_GET_GENERATION, bytes(4))
    return int.from_bytes(Attributes((answer or b"")[4:]).raw(_GENERATION) or b"", "big")


class Nftables:
    """Reads only the chains that a packet passes: a cluster's proxy has tens of thousands of rules."""

    def __init__(self, connection: NetlinkConnection) -> None:
        self._connection = connection
        self._chains: dict[tuple[str, str, str], list[FirewallRule]] = {}
        self._sets: dict[tuple[str, str], SetReader] = {}

    def bases(self) -> list[BaseChain]:
        try:
            listed = self._connection.dump(_GET_CHAIN, bytes(4))
        except Refused as refused:
            if refused.errno == errno.ENOENT:
                return []
            raise
        found = []
        for payload in listed:
            if _CHAIN_HOOK not in Attributes.some(payload, 4, _UP_TO_HOOK):
                continue
            family, chain = _FAMILIES.get(payload[0]), Attributes(payload[4:])
            hook = chain.nested(_CHAIN_HOOK)
            if family is None or hook is None or chain.text(_CHAIN_TYPE) not in _TYPES:
                continue
            named = _hooks_of(family)
            number = big(hook, _HOOK_NUMBER)
            if number >= len(named):
                continue
            priority = big(hook, _HOOK_PRIORITY)
            found.append(
                BaseChain(
                    backend="nft",
                    family=family,
                    table=chain.text(_CHAIN_TABLE) or "",
                    name=chain.text(_CHAIN_NAME) or "",
                    hook=named[number],
                    priority=priority - (1 << 32) if priority >> 31 else priority,
                    policy="accept" if big(chain, _CHAIN_POLICY) else "drop",
                    devices=_devices(hook),
                )
            )
        return found

    def rules(self, base: BaseChain, chain: str) -> Sequence[FirewallRule]:
        place = base.family, base.table, chain
        if place not in self._chains:
            sets = self._sets.get(place[:2])
            if sets is None:
                sets = SetReader(self._connection, _NUMBERS[base.family], base.table)
                self._sets[place[:2]] = sets
            self._chains[place] = self._read(place, sets)
        return self._chains[place]

    def _read(self, place: tuple[str, str, str], sets: SetReader) -> list[FirewallRule]:
        family, table, chain = place
        head = bytes([_NUMBERS[family], 0, 0, 0])
        try:
            listed = self._connection.dump(
                _GET_RULE, head + text(_RULE_TABLE, table) + text(_RULE_CHAIN, chain)
            )
        except Refused as refused:
            if refused.errno == errno.ENOENT:  # it was deleted meanwhile
                return []
            raise
        found: list[FirewallRule] = []
        for payload in listed:
            rule = Attributes.some(payload, 4, _RULE_PARTS)
            # Some kernels take the chain only as a hint.
            if (rule.text(_RULE_TABLE), rule.text(_RULE_CHAIN)) == (table, chain):
                handle = int.from_bytes(rule.raw(_RULE_HANDLE) or b"", "big")
                found.append(NftRule(handle, rule.raw(_RULE_EXPRESSIONS) or b"", sets))
        return found


def _hooks_of(family: str) -> tuple[Hook, ...]:
    """Returns the kernel's hook numbers of a family (enum nf_dev_hooks, NF_ARP_*, enum nf_inet_hooks)."""
    if family == "netdev":
        return ("ingress", "egress")
    if family == "arp":
        return ("input", "output")
    return (*HOOKS, "ingress") if family == "inet" else HOOKS


def _devices(hook: Attributes) -> tuple[str, ...]:
    """Returns the links of a chain. A prefix has its own attribute, or is a name without a trailing zero."""
    listed = each(hook.raw(_HOOK_DEVICES) or b"")
    if not listed and _HOOK_DEVICE in hook:
        listed = [(_NAME, hook.raw(_HOOK_DEVICE) or b"")]
    found = []
    for kind, data in listed:
        name = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        is_prefix = kind == _DEVICE_PREFIX or not data.endswith(b"\0")
        found.append(f"{name}*" if is_prefix else name)
    return tuple(found)


class NftRule:
    """Parses a rule lazily: in a long chain, most rules end at their first match."""

    def __init__(self, number: int, expressions: bytes, sets: SetReader) -> None:
        self._number = number
        self._packed: bytes | list[tuple[int, bytes]] = expressions
        self._steps: list[Step] = []
        self._sets = sets

    @property
    def number(self) -> int:
        return self._number

    def evaluate(self, packet: Packet, marks: Marks, *, sure: bool) -> Sequence[tuple[Truth, Action]]:
        run = Run(packet, marks, self._sets, sure=sure)
        number = 0
        while (step := self._step(number)) is not None:
            ends = step(run)
            if ends is not None:
                return ends
            if run.holds is Truth.NO:
                return ()
            number += 1
        return ()

    def _step(self, number: int) -> Step | None:
        if number < len(self._steps):
            return self._steps[number]
        if isinstance(self._packed, bytes):
            self._packed = each(self._packed)
        if number == len(self._packed):
            return None
        self._steps.append(compiled(self._packed[number][1]))
        return self._steps[-1]
