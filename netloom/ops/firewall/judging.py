"""Decides which firewall drops which traffic, for `doctor`, `connectivity`, `status` and `explain` alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from ...api.findings import Finding
from ...kernel import Namespace
from ...kernel.netfilter.legacy import LegacyTables
from ...kernel.netfilter.nft import Nftables
from ...kernel.netfilter.packet import Link, Marks
from ...kernel.netfilter.rules import BaseChain, Filter
from ...kernel.netfilter.trace import Budget, Outcome, OutOfTime, Traced, trace
from ...networks.table import TABLE
from .flows import Flow, links_of
from .openings import Dropped, enumerated, firewall_of, next_step

CODE = "foreign-drop"

# The worst first.
_OUTCOMES: tuple[Outcome, ...] = ("drops", "drops some", "may drop")


class Judged(Struct, frozen=True):
    """One chain that stops traffic, and what it stops."""

    base: BaseChain
    outcome: Outcome
    dropped: tuple[Dropped, ...]

    @property
    def finding(self) -> Finding:
        flows = [it.flow for it in self.dropped]
        worst = self.outcome == "drops" and any(it.traffic.severity == "error" for it in flows)
        pools = ", ".join(dict.fromkeys(it.pool for it in flows))
        return Finding(
            code=CODE,
            severity="error" if worst else "warning",
            subject=self.base.subject,
            text=f"{firewall_of(self.base, self.dropped).title} "
            f"{'may drop' if self.outcome == 'may drop' else 'drops'} {enumerated(_kinds(flows))} ({pools})"
            f"{', except what its rules accept' if self.outcome == 'drops some' else ''}: "
            f"{self.base}{self._rule()}",
            next=next_step(self.base, self.dropped),
        )

    def _rule(self) -> str:
        """Where in the chain, if it is not the policy that drops."""
        site = self.dropped[0].traced.site
        if site is None or site.rule == 0:
            return ""
        number = f"rule with handle {site.rule}" if self.base.backend == "nft" else f"rule {site.rule}"
        return f", {number}" if site.chain == self.base.name else f", {number} of chain {site.chain}"


def judge(host: Namespace, flows: Iterable[Flow], seconds: float | None = None) -> list[Judged]:
    """Chains that stop flows, in the order in which packets meet them; those of netloom's table do not count.

    `host` must be the namespace of this process. With `seconds`, what cannot be told in that time is not
    told. Raises `KernelError` if the kernel cannot be asked.
    """
    listed = list(flows)
    found: list[tuple[BaseChain, Dropped]] = []
    with suppress(OutOfTime):
        budget = Budget(seconds)
        chains = _chains(host)
        links = links_of(host) if any(base.devices for _, base in chains) else []
        for flow in listed:
            found += _met(flow, chains, links, budget)
    grouped: dict[str, list[tuple[BaseChain, Dropped]]] = {}
    for base, dropped in found:
        grouped.setdefault(base.subject, []).append((base, dropped))
    return [_judged(it) for it in grouped.values()]


def findings_of(host: Namespace, flows: Iterable[Flow], seconds: float | None = None) -> list[Finding]:
    return [it.finding for it in judge(host, flows, seconds)]


def _chains(host: Namespace) -> list[tuple[Filter, BaseChain]]:
    filters: list[Filter] = [Nftables(host.netfilter), LegacyTables()]
    found = [(it, base) for it in filters for base in it.bases()]
    others = [it for it in found if not TABLE.is_at(it[1].family, it[1].table)]
    return sorted(others, key=lambda it: it[1].priority)


def _met(
    flow: Flow, chains: Sequence[tuple[Filter, BaseChain]], links: Sequence[Link], budget: Budget
) -> list[tuple[BaseChain, Dropped]]:
    """All chains that stop it: who opens the first must know of the next."""
    found = []
    marks = Marks(flow.state)
    for hook in flow.hooks:
        for rules, base in chains:
            if base.hook != hook or not base.sees(flow.layer):
                continue
            # Of a chain of some links, the first that is stopped there stands for the others.
            for one in flow.at_link(base, links) if hook in ("ingress", "egress") else (flow,):
                traced: Traced = trace(rules, base, one.at(hook, base.priority), marks, budget)
                if traced.outcome != "passes":
                    found.append((base, Dropped(one, traced)))
                    break
    return found


def _judged(stopped: Sequence[tuple[BaseChain, Dropped]]) -> Judged:
    """What it drops for sure counts before what it may drop."""
    outcomes = [dropped.traced.outcome for _, dropped in stopped]
    outcome: Outcome = min(outcomes, key=_OUTCOMES.index)
    sure = [it for _, it in stopped if it.traced.outcome != "may drop"]
    first = stopped[0][0]
    return Judged(first, outcome, tuple(sure or [it for _, it in stopped]))


def _kinds(flows: Sequence[Flow]) -> list[str]:
    asked = dict.fromkeys(it.traffic.what for it in flows if not it.is_reply)
    answers = dict.fromkeys(it.traffic.what for it in flows if it.is_reply and it.traffic.what not in asked)
    return [*asked, *(f"answers to {it}" for it in answers)]
