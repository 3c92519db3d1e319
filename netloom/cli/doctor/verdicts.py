"""What a chain of nftables does with a packet, as far as can be told by reading its rules.

An accept that may match makes what follows unsure. A drop that may match is passed over: it is about
something in particular, and somebody meant it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .packet import Packet as Packet
from .packet import both, matches

_Verdict: TypeAlias = Literal["accept", "drop", "continue"]

# Deeper than the kernel lets chains call each other.
_DEPTH = 16
_REFUSALS = frozenset({"drop", "reject"})
_REJECTED_FAMILY = {"icmp": 4, "icmpv6": 6}
# Statements after which a rule goes on, whatever they do.
_PASSING = frozenset(
    {"counter", "log", "mangle", "notrack", "comment", "meter", "set", "map", "dup", "ct helper", "flow",
     "ct timeout", "ct expectation", "secmark", "synproxy"}
)  # fmt: skip


class Chain(Struct, frozen=True, kw_only=True):
    """A base chain. `family` is that of its table."""

    family: str
    table: str
    name: str
    hook: str
    policy: str

    def __str__(self) -> str:
        return f"table {self.family} {self.table}, chain {self.name} (hook {self.hook}, policy {self.policy})"

    def sees(self, packet: Packet) -> bool:
        return self.family == "inet" or self.family == ("ip" if packet.family == 4 else "ip6")


class Ruleset:
    """As `nft -j list ruleset` has it."""

    def __init__(self, listed: Sequence[Mapping[str, Any]]) -> None:
        self._rules: dict[tuple[str, str, str], list[list[dict[str, Any]]]] = {}
        self.bases: list[Chain] = []
        for it in listed:
            if "chain" in it:
                chain = it["chain"]
                self._rules.setdefault((chain["family"], chain["table"], chain["name"]), [])
                if chain.get("type") == "filter":
                    self.bases.append(
                        Chain(
                            family=chain["family"],
                            table=chain["table"],
                            name=chain["name"],
                            hook=chain["hook"],
                            policy=chain.get("policy", "accept"),
                        )
                    )
            elif "rule" in it:
                rule = it["rule"]
                key = rule["family"], rule["table"], rule["chain"]
                self._rules.setdefault(key, []).append(rule.get("expr", []))

    def has(self, family: str, table: str, chain: str) -> bool:
        return (family, table, chain) in self._rules

    def drops(self, chain: Chain, packet: Packet) -> bool | None:
        """Whether a packet that meets the chain is dropped; None if it may be."""
        walk = _Walk(self._rules, packet)
        verdict = walk.through((chain.family, chain.table, chain.name), 0)
        if verdict == "accept" or (verdict == "continue" and chain.policy != "drop"):
            return False
        return None if walk.is_unsure else True


class _Walk:
    def __init__(
        self, rules: Mapping[tuple[str, str, str], list[list[dict[str, Any]]]], packet: Packet
    ) -> None:
        self._rules = rules
        self._packet = packet
        # Whether it may have been accepted already, or have left before what comes.
        self.is_unsure = False

    def through(self, key: tuple[str, str, str], depth: int) -> _Verdict:
        if depth > _DEPTH:
            self.is_unsure = True
            return "continue"
        for rule in self._rules.get(key, ()):
            verdict = self._rule(rule, key, depth)
            if verdict == "return":
                return "continue"
            if verdict is not None:
                return verdict
        return "continue"

    def _rule(
        self, rule: Sequence[dict[str, Any]], key: tuple[str, str, str], depth: int
    ) -> _Verdict | Literal["return"] | None:
        """None: the next rule is to be looked at."""
        holds: bool | None = True
        for statement in rule:
            for what, value in statement.items():
                if what in _PASSING:
                    continue
                if what == "match":
                    holds = both(holds, matches(value, self._packet))
                elif what == "xt":
                    if isinstance(value, dict) and value.get("type") == "target":
                        return self._end(str(value.get("name", "")).lower(), None, holds, key, depth)
                    holds = both(holds, None)
                elif what == "vmap":
                    return self._map(value, holds, key, depth)
                else:
                    return self._end(what, value, holds, key, depth)
                if holds is False:
                    return None
        return None

    def _map(
        self, value: Mapping[str, Any], holds: bool | None, key: tuple[str, str, str], depth: int
    ) -> _Verdict | Literal["return"] | None:
        data = value.get("data")
        entries = data.get("set") if isinstance(data, dict) else None
        if not isinstance(entries, list):
            self.is_unsure = True  # what a named map says cannot be told
            return None
        for wanted, verdict in entries:
            here = both(holds, matches({"op": "==", "left": value.get("key"), "right": wanted}, self._packet))
            if here is False or not isinstance(verdict, dict):
                continue
            for what, target in verdict.items():
                ended = self._end(what, target, here, key, depth)
                if ended is not None:
                    return ended
        return None

    def _end(
        self, what: str, value: Any, holds: bool | None, key: tuple[str, str, str], depth: int
    ) -> _Verdict | Literal["return"] | None:
        if what in _REFUSALS:
            if what == "reject" and isinstance(value, dict):
                family = _REJECTED_FAMILY.get(str(value.get("type")))
                if family is not None and family != self._packet.family:
                    return None
                if value.get("type") == "tcp reset":
                    return None  # of TCP alone
            return "drop" if holds else None
        if what in ("jump", "goto"):
            return self._call(what, (*key[:2], str(value.get("target"))), holds, depth)
        if what == "accept":
            if holds:
                return "accept"
            self.is_unsure = True
            return None
        if what == "return":
            if holds:
                return "return"
            self.is_unsure = True
            return None
        if what in ("continue", "log", "mark", "connmark", "ct", "tcpmss", "nflog", "classify"):
            return None
        self.is_unsure = True  # to user space, or something that is not known here
        return None

    def _call(
        self, what: str, target: tuple[str, str, str], holds: bool | None, depth: int
    ) -> _Verdict | Literal["return"] | None:
        if holds:
            verdict = self.through(target, depth + 1)
            if verdict == "continue":
                return "return" if what == "goto" else None
            return verdict
        inner = _Walk(self._rules, self._packet)
        if inner.through(target, depth + 1) == "accept" or inner.is_unsure or what == "goto":
            self.is_unsure = True
        return None
