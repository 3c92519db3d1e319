"""Compares journal, pools and kernel, and reports where they disagree. It only reads.

`netloom doctor`, `netloom check`, recovery and tests share it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from math import inf
from typing import TypeAlias

from ..api.findings import Finding, remedy_of
from ..ipam import Pool, SqlHoldings, count_free, usage
from ..journal import Attachment, Ledger, boottime
from ..kernel import (
    Address,
    AnyObject,
    Difference,
    KernelError,
    Namespace,
    NftChain,
    NftElement,
    Plan,
    Scope,
    check,
)
from ..kernel.objects.link import link_names
from ..kernel.snapshot import Snapshot
from ..kernel.values import shown_ip
from ..networks import names, table
from ..networks.attachment import planned_addresses, port_of, readable_plan
from ..networks.features import ports
from ..networks.modes import mode_names
from ..networks.names import SCOPE
from .findings import attachments
from .findings import kernel as kernel_findings
from .findings import pools as pool_findings
from .findings.kernel import ADDRESSES, address_missing, is_local
from .node import orphans
from .node import table_contents as contents
from .node.host import diverted
from .node.namespaces import leads_there, namespace_of

# The scope of addresses that others can reach.
_GLOBAL = 0


def _silent(done: int, of: int) -> None:
    del done, of


def as_planned(
    rows: Iterable[Attachment],
    plans: Mapping[int, Plan],
    host: Namespace,
    elements: Collection[NftElement],
    notify: Callable[[int, int], None] = _silent,
) -> frozenset[int]:
    """Returns the IDs of attachments that are as planned.

    Each is committed, in the namespace that it was made in, has every object of its plan, and no address that
    is not in its plan. `elements` are all elements of the node's table; `notify` receives the progress.
    """
    by_namespace: dict[tuple[str, int, int], list[Attachment]] = defaultdict(list)
    for row in rows:
        by_namespace[row.netns, row.netns_device, row.netns_inode].append(row)
    total = sum(map(len, by_namespace.values()))
    bulk = _AuditCheck(host, elements)
    fine: set[int] = set()
    done = 0
    for together in by_namespace.values():
        fine |= bulk.fine_of(together, plans)
        done += len(together)
        notify(done, total)
    return frozenset(fine)


class _AuditCheck:
    def __init__(self, host: Namespace, elements: Collection[NftElement]) -> None:
        self._host = Snapshot(host, neighbours=True)
        self._elements = frozenset(elements)
        # The chain of a network is checked once for all its attachments.
        self._chains: dict[NftChain, bool] = {}

    def fine_of(self, rows: list[Attachment], plans: Mapping[int, Plan]) -> set[int]:
        """Judges attachments of one namespace."""
        namespace = namespace_of(rows[0])
        if namespace is None:
            return set()
        with namespace:
            try:
                inside = Snapshot(namespace)
                scope = Scope(self._host.namespace, namespace)
                return {
                    row.id
                    for row in rows
                    if row.state == "committed"
                    and row.netns_cookie in (0, namespace.cookie)
                    and (plan := plans.get(row.id)) is not None
                    and all(self._is_fine(it, scope, inside) for it in plan.objects)
                    and not any(foreign_addresses(plan, inside))
                }
            except KernelError:  # the check object by object reports it
                return set()

    def _is_fine(self, item: AnyObject, scope: Scope, inside: Snapshot) -> bool:
        if isinstance(item, NftElement):
            return item in self._elements
        if isinstance(item, NftChain):
            if item not in self._chains:
                self._chains[item] = not item.check(scope)
            return self._chains[item]
        here, other = (self._host, inside) if item.on == "host" else (inside, self._host)
        if here.has(item, scope, other):
            return True
        differences = here.checked(item)
        return not (item.check(scope) if differences is None else differences)


def foreign_addresses(plan: Plan, inside: Snapshot) -> Iterable[str]:
    """Returns addresses that others added to the container's links; not link-local ones of the kernel."""
    planned = [it for it in plan.objects if isinstance(it, Address) and it.on == "attachment"]
    ours = {it.address.partition("/")[0] for it in planned}
    links = (inside.links.get(name) for name in sorted({it.link for it in planned}))
    there = chain.from_iterable(inside.addresses.get(it.index, ()) for it in links if it is not None)
    return (f"{it.address}/{it.prefix}" for it in there if it.scope == _GLOBAL and it.address not in ours)


# Pools up to this size are counted address by address.
_COUNTABLE = 1 << 16


# The readable plans, by the IDs of their attachments.
Plans: TypeAlias = Mapping[int, Plan]


def audit(
    ledger: Ledger,
    host: Namespace,
    pools: Sequence[Pool] = (),
    *,
    bulk_check: Callable[[Sequence[Attachment], Plans, Sequence[NftElement]], Collection[int]] | None = None,
) -> list[Finding]:
    """`bulk_check` replaces `as_planned`: it returns attachments that need no check object by object."""
    rows = list(ledger.attachments())
    plans = plans_of(rows)
    elements = contents.there(host)
    fine = (
        as_planned(rows, plans, host, elements) if bulk_check is None else bulk_check(rows, plans, elements)
    )
    kernel_found = list(
        _kernel([row for row in rows if row.id not in fine], plans, host, frozenset(elements))
    )
    reported = {it.subject for it in kernel_found}
    return [
        *_table(host),
        *_own_addresses(ledger, host),
        *_unreadable(rows, plans),
        *_states(rows),
        *_addresses(ledger, rows, plans),
        *_ports(ledger, rows, plans),
        *_pools(ledger, pools),
        *kernel_found,
        *_ways([row for row in rows if str(row.key) not in reported], plans, host),
        *_strangers(ledger, rows, plans, host, elements),
    ]


def _table(host: Namespace) -> Iterable[Finding]:
    differences = table.TABLE.check(Scope(host))
    if differences:
        yield kernel_findings.table_broken(differences)


def _own_addresses(ledger: Ledger, host: Namespace) -> Iterable[Finding]:
    """Checks the node's address of each family that attachments use."""
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
        if row.mode not in mode_names():
            yield attachments.mode_unknown(row, is_readable=row.id in plans)


def _states(rows: Iterable[Attachment]) -> Iterable[Finding]:
    for row in rows:
        if row.state != "committed":
            yield attachments.unfinished(row)


def _addresses(ledger: Ledger, rows: Sequence[Attachment], plans: Plans) -> Iterable[Finding]:
    """The holder of an address and the attachment whose plan routes it must be the same."""
    led_to: dict[tuple[str, bytes], list[str]] = {}
    held_by: dict[int, set[bytes]] = {row.id: set() for row in rows}
    for _, ip, number in ledger.held():
        if number in held_by:
            held_by[number].add(ip)
        else:
            yield pool_findings.address_orphaned(ip)
    for row in rows:
        plan = plans.get(row.id)
        led = None if plan is None else planned_addresses(row, plan)
        if led is None:
            continue  # its plan cannot be read or its mode is unknown, which is reported already
        held, planned = held_by[row.id], set(led)
        for ip in planned:
            led_to.setdefault((row.address_scope, ip), []).append(str(row.key))
        for ip in held ^ planned:
            shown = shown_ip(ip)
            text = (
                f"{row.key} holds {shown}, but its plan has no route to it"
                if ip in held
                else f"{row.key} has a route to {shown}, but does not hold it"
            )
            yield _defect("address-inconsistent", text, row.key)
    links = Counter(row.host_link for row in rows)
    shared = [
        (shown_ip(ip), f"{shown_ip(ip)} belongs to {' and to '.join(keys)}")
        for (_, ip), keys in led_to.items()
        if len(keys) > 1
    ]
    shared += [
        (name, f"link {name} belongs to {times} attachments") for name, times in links.items() if times > 1
    ]
    for subject, text in shared:
        yield _defect("address-twice", text, subject)


def _ports(ledger: Ledger, rows: Iterable[Attachment], plans: Plans) -> Iterable[Finding]:
    """The holder of a host port and the attachment whose plan maps it must be the same."""
    held = set(ledger.ports())
    planned = {(number, port_of(port)) for number, plan in plans.items() for port in ports.of_plan(plan)}
    keys = {row.id: row.key for row in rows}
    for number, port in held ^ planned:
        if number not in plans:
            continue  # an unreadable plan is reported already
        does, lacks = ("holds", "does not map") if (number, port) in held else ("maps", "does not hold")
        shown = f"{port.host_port}/{port.protocol} of {shown_ip(port.host_ip)}"
        key = keys[number]
        yield _defect("port-inconsistent", f"{key} {does} host port {shown}, but {lacks} it", key)


def _pools(ledger: Ledger, pools: Sequence[Pool]) -> Iterable[Finding]:
    """Checks that each address of a pool is either free, held or resting."""
    holdings, now = SqlHoldings(ledger.connection), boottime()
    for scope in ledger.scopes() or (SCOPE,):
        for pool, used in zip(pools, usage(pools, holdings, scope, now, inf), strict=True):
            if used.capacity > _COUNTABLE:
                continue
            free = count_free(pool, holdings, scope)
            if free + used.held + used.resting != used.capacity:
                yield pool_findings.miscounted(used.cidr, used.held, used.resting, used.capacity)


def _kernel(
    rows: Iterable[Attachment], plans: Plans, host: Namespace, elements: frozenset[NftElement]
) -> Iterable[Finding]:
    """Compares plans with the kernel. Elements were read before, and a network's chain is checked once."""
    links = frozenset(link_names(host))
    outside = Snapshot(host, neighbours=True)
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
            inside = None if namespace is None else Snapshot(namespace)
            for difference in (*known, *_differences(others, scope, outside, inside)):
                yield _different(row, plan, difference)
        except KernelError as error:
            yield kernel_findings.silent(str(error), row.key)
        finally:
            if namespace is not None:
                namespace.close()


def _differences(
    items: Iterable[AnyObject], scope: Scope, outside: Snapshot, inside: Snapshot | None
) -> Iterable[Difference]:
    """Returns the differences that `check` finds, in the plan's order; asks only for what snapshots lack."""
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
    """Judges the routes of attachments whose objects are as planned. `netloom doctor` reports packets that
    kernel settings refuse, with the setting.
    """
    for row in rows:
        plan = plans.get(row.id)
        if plan is not None and row.state == "committed":
            ips = planned_addresses(row, plan) or ()
            found = diverted(host, row.host_link, ips, by_settings=False)
            yield from (attachments.diverted(row.key, it) for it in found)


def _defect(code: str, text: str, subject: object) -> Finding:
    return Finding(code=code, subject=str(subject), text=text, next=remedy_of(code))


def _without_owner(what: str, subject: str) -> Finding:
    return Finding(
        code="element-orphaned",
        subject=subject,
        text=f"{what} belongs to no attachment",
        next="the agent deletes it when it starts (`netloom down`, `netloom up`)",
    )


def _strangers(
    ledger: Ledger, rows: Iterable[Attachment], plans: Plans, host: Namespace, there: Sequence[NftElement]
) -> Iterable[Finding]:
    """Reports links and elements of netloom that belong to no attachment.

    Elements of a link that exists guard the container that uses it, and the agent keeps them. So an orphan
    owns its elements and its queue, and so does an attachment whose plan cannot be read.
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
