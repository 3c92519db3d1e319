"""Finds firewalls that drop traffic of containers, and the commands that open them, in each one's syntax."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from ...api.findings import Finding
from ...kernel import Namespace
from ...kernel.netfilter.legacy import LegacyTables
from ...kernel.netfilter.nft import Nftables
from ...kernel.netfilter.packet import DNAT, NEIGHBOUR_SOLICITATION, Hook, Marks, PacketLink
from ...kernel.netfilter.rules import BaseChain, PacketFilter
from ...kernel.netfilter.trace import Budget, Outcome, OutOfTime, Traced, trace
from ...networks.table import TABLE
from .flows import Flow, links_of

CODE = "foreign-drop"

# The worst first.
_OUTCOMES: tuple[Outcome, ...] = ("drops", "drops some", "may drop")


class Judged(Struct, frozen=True):
    """A chain that drops traffic, and the traffic that it drops."""

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
        """Names the rule that drops; empty if the chain's policy does."""
        site = self.dropped[0].traced.site
        if site is None or site.rule == 0:
            return ""
        number = f"rule with handle {site.rule}" if self.base.backend == "nft" else f"rule {site.rule}"
        return f", {number}" if site.chain == self.base.name else f", {number} of chain {site.chain}"


def judge(host: Namespace, flows: Iterable[Flow], seconds: float | None = None) -> list[Judged]:
    """Returns chains that drop flows, in the order in which packets pass them, except those of netloom.

    `host` must be the namespace of this process. After `seconds`, it stops, and returns what it found. Raises
    `KernelError` if the kernel cannot be asked.
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


def _chains(host: Namespace) -> list[tuple[PacketFilter, BaseChain]]:
    filters: list[PacketFilter] = [Nftables(host.netfilter), LegacyTables()]
    found = [(it, base) for it in filters for base in it.bases()]
    others = [it for it in found if not TABLE.is_at(it[1].family, it[1].table)]
    return sorted(others, key=lambda it: it[1].priority)


def _met(
    flow: Flow, chains: Sequence[tuple[PacketFilter, BaseChain]], links: Sequence[PacketLink], budget: Budget
) -> list[tuple[BaseChain, Dropped]]:
    """Returns all chains that drop the flow: a person who opens the first needs to know the next."""
    found = []
    marks = Marks(flow.state)
    for hook in flow.hooks:
        for rules, base in chains:
            if base.hook != hook or not base.sees(flow.layer):
                continue
            # For a chain of several links, the first dropped flow stands for the others.
            for one in flow.at_link(base, links) if hook in ("ingress", "egress") else (flow,):
                traced: Traced = trace(rules, base, one.at(hook, base.priority), marks, budget)
                if traced.outcome != "passes":
                    found.append((base, Dropped(one, traced)))
                    break
    return found


def _judged(stopped: Sequence[tuple[BaseChain, Dropped]]) -> Judged:
    """Prefers flows that the chain certainly drops to those that it may drop."""
    outcomes = [dropped.traced.outcome for _, dropped in stopped]
    outcome: Outcome = min(outcomes, key=_OUTCOMES.index)
    sure = [it for _, it in stopped if it.traced.outcome != "may drop"]
    first = stopped[0][0]
    return Judged(first, outcome, tuple(sure or [it for _, it in stopped]))


def _kinds(flows: Sequence[Flow]) -> list[str]:
    asked = dict.fromkeys(it.traffic.what for it in flows if not it.is_reply)
    answers = dict.fromkeys(it.traffic.what for it in flows if it.is_reply and it.traffic.what not in asked)
    return [*asked, *(f"answers to {it}" for it in answers)]


_What: TypeAlias = Literal["all", "answers", "translated", "local", "solicitations", "advertisements", "arp"]

_HOOK_CHAINS: dict[Hook, str] = {
    "prerouting": "PREROUTING",
    "input": "INPUT",
    "forward": "FORWARD",
    "output": "OUTPUT",
    "postrouting": "POSTROUTING",
}
_IPTABLES_TABLES = frozenset({"filter", "mangle", "raw", "security"})
# Chains of ufw with the administrator's rules, of either family.
_UFW_USERS = tuple(f"{ufw}-user-{way}" for ufw in ("ufw", "ufw6") for way in ("input", "output", "forward"))
_DOCKER = "DOCKER-USER"
# Parts of the name of a firewalld chain, which has what a zone accepts for the host.
_ZONE_BEFORE, _ZONE_BEHIND = "filter_IN_", "_allow"
_FIREWALLD_CHAINS = frozenset({"INPUT_ZONES", "FORWARD_ZONES", "FORWARD_IN_ZONES"})
# Priorities at which the kernel starts to track connections, and after which it translates host ports.
_TRACKED, _DNAT = -200, -95
_SAVE = "save the change where this firewall keeps its rules, so that it survives a reboot"
_NFT_WHAT = {
    "all": "", "answers": " ct state established,related", "translated": " ct status dnat",
    "local": " fib daddr type local", "solicitations": " icmpv6 type nd-neighbor-solicit",
    "advertisements": " icmpv6 type nd-neighbor-advert", "arp": " meta protocol arp",
}  # fmt: skip
_IPTABLES_WHAT = {
    "all": "", "answers": " -m conntrack --ctstate RELATED,ESTABLISHED",
    "translated": " -m conntrack --ctstate DNAT", "local": " -m addrtype --dst-type LOCAL",
    "solicitations": " -p icmpv6 --icmpv6-type neighbour-solicitation",
    "advertisements": " -p icmpv6 --icmpv6-type neighbour-advertisement",
}  # fmt: skip


_ICMP_TYPES = {"solicitations": "neighbour-solicitation", "advertisements": "neighbour-advertisement"}


class Dropped(NamedTuple):
    flow: Flow
    traced: Traced


class Firewall(NamedTuple):
    """The program that manages a chain. `chain` is the place for an administrator's rules."""

    kind: Literal["ufw", "firewalld", "docker", "iptables", "nft"]
    title: str
    chain: str


class Opening(NamedTuple):
    """What a rule has to accept: packets that enter or leave by a link, or those of a pool.

    `solicitations`, `advertisements` and `arp` concern neighbours on the uplink.
    """

    by: Literal["iif", "oif", "pool"]
    value: str
    what: _What
    family: int

    @property
    def icmp(self) -> str:
        """The ICMP type as firewalld names it; empty if it is not about ICMP alone."""
        return _ICMP_TYPES.get(self.what, "")


def firewall_of(base: BaseChain, dropped: Sequence[Dropped]) -> Firewall:
    if base.devices:
        return Firewall("nft", "nftables", base.name)
    visited = frozenset[str]().union(*(it.traced.visited for it in dropped))
    if base.table == "firewalld" or visited & _FIREWALLD_CHAINS:
        if base.hook not in ("output", "postrouting"):
            return Firewall("firewalld", "firewalld", base.name)
        return Firewall("nft", "firewalld", base.name)
    if not _is_iptables(base):
        return Firewall("nft", "nftables", base.name)
    if visited.intersection(_UFW_USERS) and base.table == "filter":
        return Firewall("ufw", "ufw", base.name)
    if _DOCKER in visited:
        return Firewall("docker", "Docker", _DOCKER)
    return Firewall("iptables", "iptables-legacy" if base.backend == "legacy" else "iptables", base.name)


def enumerated(items: Sequence[str]) -> str:
    """Joins items as in a sentence.

    >>> enumerated(["a", "b", "c"])
    'a, b and c'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def next_step(base: BaseChain, dropped: Sequence[Dropped]) -> str:
    """Returns the commands to type, and a further step if they do not survive a reboot."""
    commands = [f"`{it}`" for it in commands_of(base, dropped)]
    listed = enumerated(commands)
    kind = firewall_of(base, dropped).kind
    # ufw has no command for ICMP.
    lasts = kind == "firewalld" or (kind == "ufw" and not any(it.flow.resolves for it in dropped))
    return f"run {listed}" if lasts else f"run {listed}; {_SAVE}"


def commands_of(base: BaseChain, dropped: Sequence[Dropped]) -> list[str]:
    """Returns each command once: a chain of both families may need the same one for both."""
    return list(dict.fromkeys(_commands(base, dropped)))


def _commands(base: BaseChain, dropped: Sequence[Dropped]) -> Iterator[str]:
    firewall = firewall_of(base, dropped)
    if firewall.kind == "firewalld":
        for it in dropped:
            if not it.flow.resolves:
                yield f"firewall-cmd --permanent --zone=trusted --add-interface={_wildcard(it.flow.links)}"
        zone = _zone_of([it for it in dropped if it.flow.resolves])
        yield from (_rich_rule(it, zone) for it in _needed(base, dropped) if it.icmp)
        yield "firewall-cmd --reload"
        return
    is_denied = any(it.traced.site is not None and it.traced.site.chain in _UFW_USERS for it in dropped)
    table = "" if base.table == "filter" else f" -t {base.table}"
    for opening in _needed(base, dropped):
        if firewall.kind == "ufw" and not opening.icmp:
            yield _ufw(base, opening, first=is_denied)
        elif firewall.kind == "nft":
            yield f"nft insert rule {base.family} {base.table} {base.name} {_nft(opening)} accept"
        else:
            yield f"{_program(base)}{table} -I {firewall.chain} {_iptables(opening)} -j ACCEPT"


def _is_iptables(base: BaseChain) -> bool:
    if base.backend == "legacy":
        return True
    return (
        base.family in ("ip", "ip6")
        and base.table in _IPTABLES_TABLES
        and base.name == _HOOK_CHAINS.get(base.hook)
    )


def _needed(base: BaseChain, dropped: Sequence[Dropped]) -> list[Opening]:
    """Returns openings without those that another one includes."""
    found = list(dict.fromkeys(it for one in dropped for it in _openings(base, one.flow)))
    return [it for it in found if it.what == "all" or it._replace(what="all") not in found]


def _openings(base: BaseChain, flow: Flow) -> Iterator[Opening]:
    hook, packet = base.hook, flow.at(base.hook, base.priority)
    if flow.resolves:
        yield _of_neighbours(flow)
        return
    prefix = flow.links.removesuffix("*")
    what: _What = "answers" if flow.is_reply else "translated" if flow.nat & DNAT else "all"
    if hook in ("ingress", "egress"):  # where rules cannot match connections
        what = "all"
    elif hook in ("prerouting", "output"):
        if what == "answers" and base.priority <= _TRACKED:
            what = "all"
        if what == "translated" and base.priority <= _DNAT:
            what = "local"
    for by, link in (("iif", packet.iif), ("oif", packet.oif)):
        if link is not None and link.name.startswith(prefix) and hook != "postrouting":
            yield Opening(by, flow.links, what, flow.family)  # type: ignore[arg-type]
            return
    if packet.oif is not None and packet.oif.name.startswith(prefix):
        yield Opening("oif", flow.links, what, flow.family)
    elif packet.iif is not None and hook in ("ingress", "prerouting"):
        yield Opening("iif", packet.iif.name, what, flow.family)
    elif packet.oif is not None and hook == "egress":
        yield Opening("oif", packet.oif.name, what, flow.family)
    else:
        yield Opening("pool", flow.pool, what, flow.family)


def _of_neighbours(flow: Flow) -> Opening:
    what: _What = "solicitations" if flow.icmp == NEIGHBOUR_SOLICITATION else "advertisements"
    if flow.arp is not None:
        what = "arp"
    if flow.oif is not None:
        return Opening("oif", flow.oif.name, what, flow.family)
    return Opening("iif", flow.iif.name if flow.iif else "", what, flow.family)


def _zone_of(dropped: Sequence[Dropped]) -> str:
    """Returns the firewalld zone that packets to the host pass; empty if they pass none of its chains."""
    visited = sorted(frozenset[str]().union(*(it.traced.visited for it in dropped)))
    ends = [it for it in visited if it.startswith(_ZONE_BEFORE) and it.endswith(_ZONE_BEHIND)]
    return ends[0].removeprefix(_ZONE_BEFORE).removesuffix(_ZONE_BEHIND) if ends else ""


def _rich_rule(opening: Opening, zone: str) -> str:
    """Without a zone, the rule is for the default one."""
    of = f" --zone={zone}" if zone else ""
    rule = f'rule family="ipv6" icmp-type name="{opening.icmp}" accept'
    return f"firewall-cmd --permanent{of} --add-rich-rule='{rule}'"


def _ufw(base: BaseChain, opening: Opening, *, first: bool) -> str:
    """With `first`, puts the rule before existing ones, of which one denies the traffic."""
    allow = "prepend allow" if first else "allow"
    link = _wildcard(opening.value)
    if base.hook == "forward":
        return f"ufw route {allow} {'in' if opening.by == 'iif' else 'out'} on {link}"
    return f"ufw {allow} {'in' if base.hook == 'input' else 'out'} on {link}"


def _iptables(opening: Opening) -> str:
    match = {"iif": "-i", "oif": "-o", "pool": "-s"}[opening.by]
    value = opening.value if opening.by == "pool" else _wildcard(opening.value)
    return f"{match} {value}{_IPTABLES_WHAT[opening.what]}"


def _nft(opening: Opening) -> str:
    if opening.by == "pool":
        match = f"{'ip' if opening.family == 4 else 'ip6'} saddr {opening.value}"
    else:
        match = f'{opening.by}name "{opening.value}"'
    return f"{match}{_NFT_WHAT[opening.what]}"


def _wildcard(links: str) -> str:
    return f"{links[:-1]}+" if links.endswith("*") else links


def _program(base: BaseChain) -> str:
    """Names the program exactly, since `iptables` may be the variant that writes other tables."""
    name = "iptables" if base.family == "ip" else "ip6tables"
    if base.backend == "legacy":
        return f"{name}-legacy"
    import shutil  # imported only when a firewall drops traffic

    installed = shutil.which(name)
    is_legacy = installed is not None and "legacy" in os.path.basename(os.path.realpath(installed))
    return f"{name}-nft" if is_legacy else name
