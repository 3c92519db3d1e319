"""Follows a model packet through one base chain and all chains that it leads to."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from .field import Truth
from .packet import Marks, Packet
from .rules import Action, BaseChain, PacketFilter

# `drops some`: all but packets that rules accept by something the model packet leaves open, such as a port.
Outcome: TypeAlias = Literal["passes", "drops", "drops some", "may drop"]

# NFT_JUMP_STACK_SIZE: the kernel refuses rulesets with deeper calls between chains.
_DEPTH = 16
# How many rules to evaluate between two checks of the clock.
_RULES = 256


class Site(NamedTuple):
    """Where a packet is dropped: at a rule of a chain, or by the policy (`rule` is 0)."""

    chain: str
    rule: int


class Traced(Struct, frozen=True):
    """`visited` are the chains that the packet certainly passes."""

    outcome: Outcome
    site: Site | None
    visited: frozenset[str]


class OutOfTime(Exception):
    """The tracer ran out of time: there are too many rules."""


class Budget:
    """The time for tracing; None means unlimited."""

    def __init__(self, seconds: float | None = None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._count = 0

    def spend(self) -> None:
        self._count += 1
        if self._deadline is not None and self._count % _RULES == 0 and time.monotonic() > self._deadline:
            raise OutOfTime


def trace(rules: PacketFilter, base: BaseChain, packet: Packet, marks: Marks, budget: Budget) -> Traced:
    """Traces a packet. Rules that match on bits which the packet leaves open are about particular traffic.

    A drop by such a rule is ignored, and an accept is an exception. A match that cannot be evaluated makes
    the outcome unsure.
    """
    walk = _Walk(rules, base, packet, marks, budget)
    end = walk.through(base.name, Truth.YES, depth=0)
    if end is None and base.policy == "drop":
        end = _Drop(Site(base.name, 0))
    outcome: Outcome = "passes"
    site = None
    if isinstance(end, _Drop):
        site = end.site
        outcome = "may drop" if walk.accepts.unclear else "drops some" if walk.accepts.some else "drops"
    elif walk.drops.some is not None:
        outcome, site = "drops some", walk.drops.some
    elif walk.drops.unclear is not None:
        outcome, site = "may drop", walk.drops.unclear
    return Traced(outcome, site, frozenset(walk.visited))


class _Drop(NamedTuple):
    site: Site


_ACCEPT: Literal["accept"] = "accept"
_End: TypeAlias = _Drop | Literal["accept"]


class _Doubts:
    """The first place that decides about some of the traffic, and the first that may decide about it."""

    def __init__(self) -> None:
        self.some: Site | None = None
        self.unclear: Site | None = None

    def note(self, how: Truth, site: Site) -> None:
        if how is Truth.OPEN:
            self.some = self.some or site
        else:
            self.unclear = self.unclear or site


class _Walk:
    def __init__(
        self, rules: PacketFilter, base: BaseChain, packet: Packet, marks: Marks, budget: Budget
    ) -> None:
        self._rules = rules
        self._base = base
        self._packet = packet
        self._marks = marks
        self._budget = budget
        self.visited: set[str] = set()
        self.accepts = _Doubts()
        self.drops = _Doubts()

    def through(self, chain: str, reached: Truth, depth: int) -> _End | None:
        """Returns the packet's verdict in this chain; None if it leaves the chain, or may leave it.

        `reached` says whether the packet gets to the chain at all.
        """
        if depth > _DEPTH:
            self._doubt(Truth.UNCLEAR, Action("unclear"), Site(chain, 0))
            return None
        if reached is Truth.YES:
            self.visited.add(chain)
        # Whether the packet is still in the chain: a rule that may match may have returned it.
        stays = Truth.YES
        for rule in self._rules.rules(self._base, chain):
            self._budget.spend()
            here = reached & stays
            for holds, action in rule.evaluate(self._packet, self._marks, sure=here is Truth.YES):
                decided = reached & holds
                if decided is Truth.NO:
                    continue
                site = Site(chain, rule.number)
                if action.kind in ("jump", "goto"):
                    end = self.through(action.chain, here & holds, depth + 1)
                    if end is not None:
                        return end
                    if action.kind == "goto":
                        if holds is Truth.YES:
                            return None
                        stays &= holds
                    elif holds is Truth.YES:
                        break  # after a jump, the next rule follows
                elif action.kind == "return":
                    if holds is Truth.YES:
                        return None
                    stays &= holds
                elif decided is not Truth.YES or action.kind == "unclear":
                    # A drop of particular traffic is intended.
                    if decided is not Truth.OPEN or action.kind != "drop":
                        self._doubt(decided, action, site)
                    if holds is Truth.YES and action.kind != "unclear":
                        return None
                elif stays is not Truth.YES:
                    self._doubt(stays, action, site)
                    return None
                else:
                    return _ACCEPT if action.kind == "accept" else _Drop(site)
        return None

    def _doubt(self, how: Truth, action: Action, site: Site) -> None:
        """Records what a rule does that may not be reached, or may not match."""
        if action.kind == "unclear":
            how = Truth.UNCLEAR
        if action.kind in ("accept", "unclear"):
            self.accepts.note(how, site)
        if action.kind in ("drop", "unclear"):
            self.drops.note(how, site)
