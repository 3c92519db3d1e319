"""Whether journal, pools and kernel agree. Tests, `netloom doctor` and recovery ask the same questions.

Reads only. What is under way looks like a difference, so an audit of a busy agent may name what is fine a
moment later; of one that rests, every finding is a defect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

from msgspec import Struct

from ..ipam import Pool, SqlHoldings, free_addresses, usage
from ..journal import Attachment, Ledger, boottime
from ..kernel import KernelError, Namespace, NftChain, NftElement, Plan, Route, Scope, check
from ..kernel.objects.link import link_names
from ..kernel.values import packed_network, shown_ip
from ..modes import names, ports, table
from . import contents
from .held_port import port_of
from .node import namespace_of
from .planned import readable_plan
from .presence import leads_there
from .reservation import SCOPE

# Pools up to this size are counted address by address.
_COUNTABLE = 1 << 16


# Of the attachments whose plans can be read, by their numbers.
Plans: TypeAlias = Mapping[int, Plan]


class Finding(Struct, frozen=True):
    """One thing that is not as it must be. `what` is for programs, `text` for people."""

    what: str
    text: str


def audit(ledger: Ledger, host: Namespace, pools: Sequence[Pool] = ()) -> list[Finding]:
    rows = list(ledger.attachments())
    plans = {row.id: plan for row in rows if (plan := readable_plan(row)) is not None}
    return [
        *(Finding("table", str(difference)) for difference in table.TABLE.check(Scope(host))),
        *_unreadable(rows, plans),
        *_states(rows),
        *_addresses(ledger, rows, plans),
        *_ports(ledger, rows, plans),
        *_pools(ledger, pools),
        *_kernel(rows, plans, host),
        *_strangers(rows, plans, host),
    ]


def _unreadable(rows: Iterable[Attachment], plans: Plans) -> Iterable[Finding]:
    for row in rows:
        if row.id not in plans:
            yield Finding("plan", f"{row.key}: its plan cannot be read; it can only be deleted")


def _states(rows: Iterable[Attachment]) -> Iterable[Finding]:
    for row in rows:
        if row.state != "committed":
            yield Finding("unfinished", f"{row.key} is {row.state}")


def _addresses(ledger: Ledger, rows: Sequence[Attachment], plans: Plans) -> Iterable[Finding]:
    """Who holds an address and whose plan routes it must be the same, both ways."""
    routed_by: dict[bytes, list[str]] = {}
    for row in rows:
        held = {ip for _, ip in ledger.addresses_of(row.id)}
        planned = set(_planned_addresses(plans.get(row.id)))
        for ip in planned:
            routed_by.setdefault(ip, []).append(str(row.key))
        for ip in held ^ planned:
            if ip in held:
                yield Finding("address", f"{row.key} holds {shown_ip(ip)}, and its plan has no route to it")
            else:
                yield Finding("address", f"{row.key} has a route to {shown_ip(ip)}, and does not hold it")
    for ip, keys in routed_by.items():
        if len(keys) > 1:
            yield Finding("twice", f"{shown_ip(ip)} is of {' and of '.join(keys)}")
    known = {row.id for row in rows}
    for _, ip, number in ledger.held():
        if number not in known:
            yield Finding("orphan", f"{shown_ip(ip)} is held by an attachment that is not there")
    links = Counter(row.host_link for row in rows)
    for name, times in links.items():
        if times > 1:
            yield Finding("twice", f"link {name} is of {times} attachments")


def _ports(ledger: Ledger, rows: Iterable[Attachment], plans: Plans) -> Iterable[Finding]:
    """Who holds a port of the host and whose plan maps it must be the same, both ways."""
    held = set(ledger.ports())
    planned = {(number, port_of(port)) for number, plan in plans.items() for port in ports.of_plan(plan)}
    keys = {row.id: row.key for row in rows}
    for number, port in held ^ planned:
        if number not in plans:
            continue  # which is told of already
        does, lacks = ("holds", "does not map") if (number, port) in held else ("maps", "does not hold")
        shown = f"{port.host_port}/{port.protocol} of {shown_ip(port.host_ip)}"
        yield Finding("port", f"{keys[number]} {does} host port {shown}, and {lacks} it")


def _planned_addresses(plan: Plan | None) -> Iterable[bytes]:
    for item in () if plan is None else plan.objects:
        if isinstance(item, Route) and item.on == "host":
            yield packed_network(item.destination)[0]


def _pools(ledger: Ledger, pools: Sequence[Pool]) -> Iterable[Finding]:
    """Every address of a pool is free, held or resting, and only one of them."""
    holdings = SqlHoldings(ledger.connection)
    for pool, used in zip(pools, usage(pools, holdings, SCOPE, boottime(), inf), strict=True):
        if used.capacity > _COUNTABLE:
            continue
        free = sum(1 for _ in free_addresses(pool, holdings, SCOPE))
        if free + used.held + used.resting != used.capacity:
            found = f"{free} free, {used.held} held and {used.resting} resting"
            yield Finding("pool", f"{used.cidr}: {found} are not {used.capacity}")


def _kernel(rows: Iterable[Attachment], plans: Plans, host: Namespace) -> Iterable[Finding]:
    for row in rows:
        plan = plans.get(row.id)
        if plan is None:
            continue
        namespace = namespace_of(row)
        if namespace is None and not leads_there(row):
            yield Finding("namespace", f"{row.key}: its namespace {row.netns} is gone")
            continue
        try:
            for difference in check(plan, Scope(host, namespace)):
                yield Finding("drift", f"{row.key}: {difference}")
        except KernelError as error:
            yield Finding("kernel", f"{row.key}: {error}")
        finally:
            if namespace is not None:
                namespace.close()


def _strangers(rows: Iterable[Attachment], plans: Plans, host: Namespace) -> Iterable[Finding]:
    """Links and elements of ours that belong to no attachment."""
    links = {row.host_link for row in rows}
    for name in link_names(host):
        host_link = names.host_link_of(name)
        if host_link is not None and host_link not in links:
            yield Finding("link", f"link {name} belongs to no attachment")
    planned = [it for plan in plans.values() for it in plan.objects if isinstance(it, NftElement | NftChain)]
    elements = {(it.set, it.key) for it in planned if isinstance(it, NftElement)}
    for it in contents.there(host):
        if (it.set, it.key) not in elements:
            yield Finding("element", f"nft element {' . '.join(it.key)} of {it.set} belongs to no attachment")
    chains = {it.name for it in planned if isinstance(it, NftChain)}
    for name in contents.chains_there(host):
        if name not in chains:
            yield Finding("element", f"nft chain {name} belongs to no attachment")
