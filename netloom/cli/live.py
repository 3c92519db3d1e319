"""An attachment as the kernel has it at this moment: every object of its plan, and its namespace.

Reads only, and beside the agent: what is under way looks like a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..api.findings import Finding
from ..journal import Attachment
from ..kernel import (
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
from ..kernel.netlink import address
from ..kernel.netlink.nftables import read_table
from ..kernel.objects.link import find
from ..kernel.objects.nft import OWNER
from ..networks import table
from ..ops.health import attachments, kernel
from ..ops.node import ways
from .object_state import ObjectState, Presence

# The scope of addresses that others can reach.
_GLOBAL = 0


class Live(NamedTuple):
    """`has_link` is whether the host's end of the pair is there; `objects` None: the plan is unreadable.

    `foreign` are addresses of its link that no plan has. `needs_new_link`: its other end was renamed, moved
    or replaced, and no repair short of a new pair helps.
    """

    namespace: Presence
    has_link: bool
    objects: list[ObjectState] | None
    foreign: list[str]
    needs_new_link: bool = False
    different: Sequence[Difference] = ()
    led_away: Sequence[ways.Diverted] = ()


def look_at(row: Attachment, host: Namespace) -> Live:
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
    led_away: list[ways.Diverted] = []
    try:
        plan = Plan.decode(row.plan)
        scope = Scope(host, namespace)
        needs_new_link = lost_its_end(plan, scope)
        looked = [_state_of(it, scope) for it in plan.objects]
        objects = [state for state, _ in looked]
        different = [one for _, found in looked for one in found if one.what == "different"]
        led_away = list(ways.diverted(host, row.host_link, ways.addresses_of(plan)))
        foreign = [] if namespace is None else foreign_addresses(plan, namespace)
    except InvalidPlan:
        pass
    finally:
        if namespace is not None:
            namespace.close()
    has_link = find(host, row.host_link) is not None
    return Live(presence, has_link, objects, foreign, needs_new_link, different, led_away)


def lost_its_end(plan: Plan, scope: Scope) -> bool:
    """Whether the container's end of its pair is not where it was made, under its name."""
    try:
        return any(
            difference.field == "peer"
            for it in plan.objects
            if isinstance(it, Veth) and all(scope.has(place) for place in it.places())
            for difference in it.check(scope)
        )
    except KernelError:  # which is told of
        return False


def foreign_addresses(plan: Plan, namespace: Namespace) -> list[str]:
    """Of the container's link, those that somebody else has added; link-local ones come by themselves."""
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
        except KernelError:  # the link is gone, which is told of
            continue
    return found


def findings_of_table(host: Namespace) -> list[Finding]:
    """Whatever is wrong with the node's table is wrong for every attachment. Another version's is not."""
    of = table.TABLE
    comment = read_table(host.netfilter, of.family, of.name) or ""
    if comment.startswith(OWNER) and comment != of.comment:
        return []
    differences = of.check(Scope(host))
    return [kernel.table_broken(differences)] if differences else []


def _presence(row: Attachment, found: Namespace | None) -> Presence:
    """The number of a namespace that is gone is given again, its cookie never."""
    if found is None:
        return "gone"
    same = found.identity == (row.netns_device, row.netns_inode)
    return "there" if same and row.netns_cookie in (0, found.cookie) else "replaced"


def _state_of(it: Object, scope: Scope) -> tuple[ObjectState, list[Difference]]:
    kind: str = type(it).__struct_config__.tag  # type: ignore[assignment]
    if not all(scope.has(place) for place in it.places()):
        return ObjectState(it.label, kind, "missing", ["its namespace is gone"]), []
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
    """What is wrong with one attachment, and what to do; a finding for each cause, not for each object."""
    if row.state != "committed":
        return [attachments.unfinished(row)]
    if live.namespace != "there":
        judged = attachments.busy if live.has_link else attachments.stale
        return [judged(row, is_replaced=live.namespace == "replaced")]
    if live.objects is None:
        return [attachments.unreadable(row.key)]
    told = list(_of_objects(row, live.objects, live.different))
    if live.needs_new_link:
        told = [for_a_new_link(it) for it in told]
    return [
        *told,
        *(attachments.diverted(row.key, it) for it in live.led_away if not told),
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
        yield kernel.silent("; ".join(unknown), row.key)


def for_a_new_link(it: Finding) -> Finding:
    """What is missing or changed because the link's other end is, and comes back with a new one only."""
    if it.code not in ("object-missing", "object-changed"):
        return it
    remedy = (
        "somebody has renamed, moved or replaced its interface: undo that, or let "
        f"`netloom check {it.subject} --repair --recreate` make its link anew; then its connections end"
    )
    return replace(it, next=remedy)
