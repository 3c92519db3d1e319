"""Whether journal, pools and kernel agree. Tests, `netloom doctor` and recovery ask the same questions.

Reads only. What is under way looks like a difference, so an audit of a busy agent may name what is fine a
moment later; of one that rests, every finding is a defect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

from ...api.findings import Finding, remedy_of
from ...ipam import Pool, SqlHoldings, count_free, usage
from ...journal import Attachment, Ledger, boottime
from ...kernel import (
    AnyObject,
    Difference,
    KernelError,
    Namespace,
    NftChain,
    NftElement,
    Plan,
    Route,
    Scope,
    check,
)
from ...kernel.objects.link import link_names
from ...kernel.sighting import Sighting
from ...kernel.values import packed_network, shown_ip
from ...networks import names, table
from ...networks.attachment import port_of, readable_plan
from ...networks.features import ports
from ...networks.scope import SCOPE
from ..health import attachments, kernel
from ..health import pools as pools_health
from ..node import orphans, ways
from ..node import table_contents as contents
from ..node.own_addresses import ADDRESSES, address_missing, is_local
from ..node.presence import leads_there, namespace_of
from .bulk_check import as_planned

# Pools up to this size are counted address by address.
_COUNTABLE = 1 << 16


# Of the attachments whose plans can be read, by their numbers.
Plans: TypeAlias = Mapping[int, Plan]


def audit(
    ledger: Ledger,
    host: Namespace,
    pools: Sequence[Pool] = (),
    *,
    glance: Callable[[Sequence[Attachment], Plans, Sequence[NftElement]], Collection[int]] | None = None,
) -> list[Finding]:
    """`glance` tells which attachments need not be looked at object by object: see there."""
    rows = list(ledger.attachments())
    plans = plans_of(rows)
    elements = contents.there(host)
    fine = as_planned(rows, plans, host, elements) if glance is None else glance(rows, plans, elements)
    kernel_found = list(
        _kernel([row for row in rows if row.id not in fine], plans, host, frozenset(elements))
    )
    told = {it.subject for it in kernel_found}
    return [
        *_table(host),
        *_own_addresses(ledger, host),
        *_unreadable(rows, plans),
        *_states(rows),
        *_addresses(ledger, rows, plans),
        *_ports(ledger, rows, plans),
        *_pools(ledger, pools),
        *kernel_found,
        *_ways([row for row in rows if str(row.key) not in told], plans, host),
        *_strangers(ledger, rows, plans, host, elements),
    ]


def _table(host: Namespace) -> Iterable[Finding]:
    differences = table.TABLE.check(Scope(host))
    if differences:
        yield kernel.table_broken(differences)


def _own_addresses(ledger: Ledger, host: Namespace) -> Iterable[Finding]:
    """Of each family that attachments have addresses of."""
    for (family, route), held in zip(ADDRESSES.items(), ledger.count_held(), strict=True):
        differences = route.check(Scope(host)) if held else []
        if not is_local(differences):
            yield address_missing(family, "; ".join(map(str, differences)))


def plans_of(rows: Iterable[Attachment]) -> Plans:
    return {row.id: plan for row in rows if (plan := readable_plan(row)) is not None}


def _unreadable(rows: Iterable[Attachment], plans: Plans) -> Iterable[Finding]:
    for row in rows:
        if row.id not in plans:
            yield attachments.unreadable(row.key)


def _states(rows: Iterable[Attachment]) -> Iterable[Finding]:
    for row in rows:
        if row.state != "committed":
            yield attachments.unfinished(row)


def _addresses(ledger: Ledger, rows: Sequence[Attachment], plans: Plans) -> Iterable[Finding]:
    """Who holds an address and whose plan routes it must be the same, both ways."""
    routed_by: dict[bytes, list[str]] = {}
    held_by: dict[int, set[bytes]] = {row.id: set() for row in rows}
    for _, ip, number in ledger.held():
        if number in held_by:
            held_by[number].add(ip)
        else:
            yield pools_health.address_orphaned(ip)
    for row in rows:
        held, planned = held_by[row.id], set(_planned_addresses(plans.get(row.id)))
        for ip in planned:
            routed_by.setdefault(ip, []).append(str(row.key))
        for ip in held ^ planned:
            shown = shown_ip(ip)
            text = (
                f"{row.key} holds {shown}, and its plan has no route to it"
                if ip in held
                else f"{row.key} has a route to {shown}, and does not hold it"
            )
            yield _defect("address-inconsistent", text, row.key)
    links = Counter(row.host_link for row in rows)
    shared = [
        (shown_ip(ip), f"{shown_ip(ip)} is of {' and of '.join(keys)}")
        for ip, keys in routed_by.items()
        if len(keys) > 1
    ]
    shared += [(name, f"link {name} is of {times} attachments") for name, times in links.items() if times > 1]
    for subject, text in shared:
        yield _defect("address-twice", text, subject)


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
        key = keys[number]
        yield _defect("port-inconsistent", f"{key} {does} host port {shown}, and {lacks} it", key)


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
        free = count_free(pool, holdings, SCOPE)
        if free + used.held + used.resting != used.capacity:
            yield pools_health.miscounted(used.cidr, used.held, used.resting, used.capacity)


def _kernel(
    rows: Iterable[Attachment], plans: Plans, host: Namespace, elements: frozenset[NftElement]
) -> Iterable[Finding]:
    """Elements were read all at once, and a network's chain is asked for once, whoever has it."""
    links = frozenset(link_names(host))
    outside = Sighting(host, neighbours=True)
    chains: dict[AnyObject, list[Difference]] = {}
    for row in rows:
        plan = plans.get(row.id)
        if plan is None:
            continue
        namespace = namespace_of(row)
        if namespace is None and not leads_there(row):
            yield attachments.busy(row) if row.host_link in links else attachments.stale(row)
            continue
        try:
            scope = Scope(host, namespace)
            for item in plan.objects:
                if isinstance(item, NftChain) and item not in chains:
                    chains[item] = item.check(scope)
            known = [it for item in plan.objects for it in chains.get(item, ())]
            others = [it for it in plan.objects if it not in elements and it not in chains]
            inside = None if namespace is None else Sighting(namespace)
            for difference in (*known, *_differences(others, scope, outside, inside)):
                yield _different(row, plan, difference)
        except KernelError as error:
            yield kernel.silent(str(error), row.key)
        finally:
            if namespace is not None:
                namespace.close()


def _differences(
    items: Iterable[AnyObject], scope: Scope, outside: Sighting, inside: Sighting | None
) -> Iterable[Difference]:
    """As `check` says them, in the plan's order; a question of its own is for what no list has as planned."""
    for it in items:
        here, other = (outside, inside) if it.on == "host" else (inside, outside)
        if here is None or other is None:
            yield from check(Plan((it,)), scope)
            continue
        if not here.has(it, scope, other):
            listed = here.checked(it)
            yield from check(Plan((it,)), scope) if listed is None else listed


def _different(row: Attachment, plan: Plan, difference: Difference) -> Finding:
    if difference.what == "missing":
        return attachments.missing(row.key, [difference.object])
    return attachments.changed(row.key, plan, [difference])


def _ways(rows: Iterable[Attachment], plans: Plans, host: Namespace) -> Iterable[Finding]:
    """Of attachments whose objects are as planned. What settings of the kernel refuse is told by `netloom
    doctor`, with the setting."""
    for row in rows:
        plan = plans.get(row.id)
        if plan is not None and row.state == "committed":
            found = ways.diverted(host, row.host_link, ways.addresses_of(plan), by_settings=False)
            yield from (attachments.diverted(row.key, it) for it in found)


def _defect(code: str, text: str, subject: object) -> Finding:
    return Finding(code=code, subject=str(subject), text=text, next=remedy_of(code))


def _without_owner(what: str, subject: str) -> Finding:
    return Finding(
        code="element-orphaned",
        subject=subject,
        text=f"{what} belongs to no attachment",
        next="it goes with the agent's next start (`netloom down`, `netloom up`)",
    )


def _strangers(
    ledger: Ledger, rows: Iterable[Attachment], plans: Plans, host: Namespace, there: Sequence[NftElement]
) -> Iterable[Finding]:
    """Links and elements of ours that belong to no attachment.

    What a link that is there has in the table guards whoever uses it, and the agent leaves it. So of an
    orphan it is a part, as its queue is, and of an attachment whose plan cannot be read, too.
    """
    links = link_names(host)
    lost = orphans.orphans_at(host, lambda ask: ask(ledger))
    yield from orphans.every_finding_of(lost)
    known = {*lost, *(row.host_link for row in rows)}
    for name in sorted(links):
        host_link = names.host_link_of(name)
        if host_link not in (None, name) and host_link not in known:
            yield orphans.finding_of(name, ())
    owners = table.owners(there)
    unplanned = {*lost, *(row.host_link for row in rows if row.id not in plans and row.host_link in links)}
    theirs = {it for it in there if owners.get(it) in unplanned}
    planned = [it for plan in plans.values() for it in plan.objects if isinstance(it, NftElement | NftChain)]
    elements = {(it.set, it.key) for it in planned if isinstance(it, NftElement)}
    for it in there:
        if (it.set, it.key) not in elements and it not in theirs:
            what = " . ".join(it.key)
            yield _without_owner(f"nft element {what} of {it.set}", f"{it.set} {what}")
    chains = {it.name for it in planned if isinstance(it, NftChain)} | {it.leads_to for it in theirs}
    for name in contents.chains_there(host):
        if name not in chains:
            yield _without_owner(f"nft chain {name}", name)
