"""The state of an attachment in the kernel: every object of its plan, its namespace, and findings.

It only reads, while the agent works: a change in progress looks like a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...api.findings import Finding
from ...journal import Attachment
from ...kernel import (
    Address,
    Difference,
    InvalidNamespace,
    InvalidPlan,
    KernelError,
    Namespace,
    Object,
    Plan,
    Scope,
    Veth,
)
from ...kernel.netlink import address, link, qdisc, statistics
from ...kernel.netlink.nft_elements import read_counted
from ...kernel.netlink.nftables import read_table
from ...kernel.netlink.statistics import LinkCounters, QueueCounters
from ...kernel.objects.link import find
from ...kernel.objects.nft import OWNER
from ...networks import table
from ...networks.attachment import planned_addresses, readable_plan
from ...networks.names import queue_of
from ..findings import attachments
from ..findings import kernel as kernel_findings
from ..node.host import Diverted, diverted
from ..node.namespaces import namespace_of
from .documents import Counters, Direction, ObjectState, Presence
from .listing import Queued

# Seconds. Packets that were dropped within this time make a finding.
_RECENT = 600


def counters_of(
    host_link: str, ifname: str, host: Namespace, container: Namespace | None, refused: int | None
) -> Counters | None:
    """Returns None if the link does not exist. `refused` is the count of the node's table for it."""
    ours = _traffic(host, host_link)
    if ours is None:
        return None
    theirs = None if container is None else _traffic(container, ifname)
    # Packets to a container queue at the host's end; packets from it, at a separate link.
    into, out_of = _queue(host, host_link), _queue(host, queue_of(host_link))
    return Counters(
        sent=Direction(
            packets=ours.received_packets,
            bytes=ours.received_bytes,
            dropped=ours.received_dropped + (0 if theirs is None else theirs.sent_dropped),
            errors=ours.received_errors + (0 if theirs is None else theirs.sent_errors),
            limited=None if out_of is None else out_of.dropped,
            waiting=None if out_of is None else out_of.bytes,
        ),
        received=Direction(
            packets=ours.sent_packets,
            bytes=ours.sent_bytes,
            dropped=ours.sent_dropped + (0 if theirs is None else theirs.received_dropped),
            errors=ours.sent_errors + (0 if theirs is None else theirs.received_errors),
            limited=None if into is None else into.dropped,
            waiting=None if into is None else into.bytes,
        ),
        refused=refused,
    )


def _traffic(namespace: Namespace, name: str) -> LinkCounters | None:
    try:
        answer = namespace.route.ask(link.GET, statistics.of_link(namespace.route.index(name)))
    except KernelError:
        return None
    return None if answer is None else statistics.decode(answer)


def _queue(namespace: Namespace, name: str) -> QueueCounters | None:
    """Reads the queue that a bandwidth limit made; the kernel's own queues have no handle."""
    try:
        index = namespace.route.index(name)
        for payload in namespace.route.dump(qdisc.GET, qdisc.of_link(index)):
            found = qdisc.decode(payload)
            if (found.index, found.parent) == (index, qdisc.ROOT) and found.handle and found.kind == "tbf":
                return statistics.decode_queue(payload)
    except KernelError:
        return None
    return None


class RefusedPackets(NamedTuple):
    """The number of packets, and how many seconds ago the last of them was dropped."""

    packets: int
    ago: float


def refused_at(host: Namespace) -> dict[str, RefusedPackets] | None:
    """Returns counts by the host's end of the attachment; None if the table does not count them."""
    of = table.TABLE
    try:
        found = read_counted(host.netfilter, of.family, of.name, table.DROPPED)
    except KernelError:
        return None
    if found is None:
        return None
    return {
        link: RefusedPackets(it.packets, max(table.KEPT - it.expires / 1000, 0.0))
        for (link,), it in found.items()
    }


def refusals(row: Attachment, found: RefusedPackets | None) -> list[Finding]:
    if found is None or found.ago > _RECENT:
        return []
    many = "1 packet" if found.packets == 1 else f"{found.packets} packets"
    return [
        Finding(
            code="packets-refused",
            severity="warning",
            subject=str(row.key),
            text=f"{row.key}: the node's table dropped {many} that it sent, the last {found.ago:.0f} s ago: "
            "a container may send only from its own addresses",
            next=f"`tcpdump -ni {row.host_link}` shows what it sends",
        )
    ]


# The scope of addresses that others can reach.
_GLOBAL = 0
_UP = "`netloom up` starts an agent, which repairs it"
# Only a running agent can repair these.
_BY_AGENT = frozenset(
    {"netns-stale", "object-missing", "attachment-unfinished", "table-broken", "element-orphaned"}
)


class Live(NamedTuple):
    """`has_link` is whether the host's end of the pair exists; `objects` None: the plan is unreadable.

    `foreign` are addresses of its link that no plan has. `needs_new_link`: its other end was renamed, moved
    or replaced, so that only a new pair repairs it.
    """

    namespace: Presence
    has_link: bool
    objects: list[ObjectState] | None
    foreign: list[str]
    needs_new_link: bool = False
    different: Sequence[Difference] = ()
    led_away: Sequence[Diverted] = ()


def live_state(row: Attachment, host: Namespace) -> Live:
    try:
        namespace = Namespace.open(row.netns)
    except InvalidNamespace:
        namespace = None
    presence = _presence(row, namespace)
    if namespace is not None and presence != "there":
        namespace.close()
        namespace = None
    objects, foreign, needs_new_link = None, [], False
    different: list[Difference] = []
    led_away: list[Diverted] = []
    try:
        plan = Plan.decode(row.plan)
        scope = Scope(host, namespace)
        needs_new_link = lost_its_end(plan, scope)
        compared = [_state_of(it, scope) for it in plan.objects]
        objects = [state for state, _ in compared]
        different = [one for _, found in compared for one in found if one.what == "different"]
        led_away = list(diverted(host, row.host_link, planned_addresses(row, plan) or ()))
        foreign = [] if namespace is None else foreign_addresses(plan, namespace)
    except InvalidPlan:
        pass
    finally:
        if namespace is not None:
            namespace.close()
    has_link = find(host, row.host_link) is not None
    return Live(presence, has_link, objects, foreign, needs_new_link, different, led_away)


def lost_its_end(plan: Plan, scope: Scope) -> bool:
    """Whether the container's end of its pair was moved, renamed or replaced."""
    try:
        return any(
            difference.field == "peer"
            for it in plan.objects
            if isinstance(it, Veth) and all(scope.has(place) for place in it.places())
            for difference in it.check(scope)
        )
    except KernelError:  # reported elsewhere
        return False


def foreign_addresses(plan: Plan, namespace: Namespace) -> list[str]:
    """Returns addresses that others added to the container's link; not link-local ones of the kernel."""
    planned = [it for it in plan.objects if isinstance(it, Address) and it.on == "attachment"]
    ours = {it.address.partition("/")[0] for it in planned}
    found: list[str] = []
    for name in sorted({it.link for it in planned}):
        try:
            index = namespace.route.index(name)
            listed = map(address.decode, namespace.route.dump(address.GET, address.of_link(index)))
            found += [
                f"{it.address}/{it.prefix}"
                for it in listed
                if it.index == index and it.scope == _GLOBAL and it.address not in ours
            ]
        except KernelError:  # the link is missing, which is reported elsewhere
            continue
    return found


def findings_of_table(host: Namespace) -> list[Finding]:
    """Judges the node's table, which all attachments need. Another version's table is not judged."""
    of = table.TABLE
    comment = read_table(host.netfilter, of.family, of.name) or ""
    if comment.startswith(OWNER) and comment != of.comment:
        return []
    differences = of.check(Scope(host))
    return [kernel_findings.table_broken(differences)] if differences else []


def _presence(row: Attachment, found: Namespace | None) -> Presence:
    """Compares cookies, too: the kernel reuses the inode of a deleted namespace, but never its cookie."""
    if found is None:
        return "gone"
    same = found.identity == (row.netns_device, row.netns_inode)
    return "there" if same and row.netns_cookie in (0, found.cookie) else "replaced"


def _state_of(it: Object, scope: Scope) -> tuple[ObjectState, list[Difference]]:
    kind: str = type(it).__struct_config__.tag  # type: ignore[assignment]
    if not all(scope.has(place) for place in it.places()):
        return ObjectState(it.label, kind, "missing", ["its namespace was deleted"]), []
    try:
        differences = it.check(scope)
    except KernelError as error:
        return ObjectState(it.label, kind, "unknown", [str(error)]), []
    if not differences:
        return ObjectState(it.label, kind, "as planned", []), []
    different = [one for one in differences if one.what == "different"]
    state = ObjectState(
        it.label, kind, "different" if different else "missing", [it.said for it in different]
    )
    return state, differences


def findings_of(row: Attachment, live: Live) -> list[Finding]:
    """Returns findings about one attachment: one for each cause, not for each object."""
    if row.state != "committed":
        return [attachments.unfinished(row)]
    if live.namespace != "there":
        judged = attachments.busy if live.has_link else attachments.stale
        return [judged(row, is_replaced=live.namespace == "replaced")]
    if live.objects is None:
        return [attachments.unreadable(row.key)]
    of_objects = list(_of_objects(row, live.objects, live.different))
    if live.needs_new_link:
        of_objects = [for_a_new_link(it) for it in of_objects]
    return [
        *of_objects,
        *(attachments.diverted(row.key, it) for it in live.led_away if not of_objects),
        *(attachments.foreign_address(row, it, row.ifname) for it in live.foreign),
    ]


def _of_objects(
    row: Attachment, objects: list[ObjectState], different: Sequence[Difference]
) -> Iterator[Finding]:
    missing = [it.object for it in objects if it.state == "missing"]
    unknown = [f"{it.object}: {', '.join(it.differences)}" for it in objects if it.state == "unknown"]
    if missing:
        yield attachments.missing(row.key, missing)
    if different:
        yield attachments.changed(row.key, Plan.decode(row.plan), different)
    if unknown:
        yield kernel_findings.silent("; ".join(unknown), row.key)


def for_a_new_link(it: Finding) -> Finding:
    """Changes the advice for an object that only a new link repairs, since the link's other end is lost."""
    if it.code not in ("object-missing", "object-changed"):
        return it
    remedy = (
        "its interface was renamed, moved or replaced: undo that, or run "
        f"`netloom check {it.subject} --repair --recreate`, which makes a new link and ends its connections"
    )
    return replace(it, next=remedy)


def advise_new_links(
    findings: Sequence[Finding], rows: Iterable[Attachment], host: Namespace
) -> list[Finding]:
    """Advises a new link for attachments that have lost the container's end of theirs.

    An audit reports object by object, but the lost end is the cause of all these findings.
    """
    changed = {it.subject for it in findings if it.code == "object-changed"}
    lost = {str(row.key) for row in rows if str(row.key) in changed and _has_lost_its_end(row, host)}
    return [for_a_new_link(it) if it.subject in lost else it for it in findings]


def _has_lost_its_end(row: Attachment, host: Namespace) -> bool:
    namespace, plan = namespace_of(row), readable_plan(row)
    if namespace is None:
        return False
    with namespace:
        return plan is not None and lost_its_end(plan, Scope(host, namespace))


def without_stale(
    findings: Iterable[Finding], rows: Iterable[Attachment], dels: Sequence[Queued]
) -> list[Finding]:
    """Leaves out deleted namespaces whose container was deleted, too: the DEL waits for the agent."""
    waiting = {str(row.key) for row in rows if any(it.is_about(row) for it in dels)} if dels else set()
    return [it for it in findings if it.code != "netns-stale" or it.subject not in waiting]


def advise_up(findings: Iterable[Finding]) -> list[Finding]:
    """Replaces advice that cannot be followed while no agent runs."""
    return [replace(it, next=_UP) if it.code in _BY_AGENT else it for it in findings]
