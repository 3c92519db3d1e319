"""An attachment as the kernel has it at this moment: every object of its plan, and its namespace.

Reads only, and beside the agent: what is under way looks like a difference.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from ..api.findings import Finding
from ..journal import Attachment
from ..kernel import (
    Address,
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
from ..ops.audit.finding import finding
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
    try:
        plan = Plan.decode(row.plan)
        scope = Scope(host, namespace)
        needs_new_link = lost_its_end(plan, scope)
        objects = [_state_of(it, scope) for it in plan.objects]
        foreign = [] if namespace is None else foreign_addresses(plan, namespace)
    except InvalidPlan:
        pass
    finally:
        if namespace is not None:
            namespace.close()
    has_link = find(host, row.host_link) is not None
    return Live(presence, has_link, objects, foreign, needs_new_link)


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
    return [finding("table-broken", str(it), of.name) for it in of.check(Scope(host))]


def _presence(row: Attachment, found: Namespace | None) -> Presence:
    """The number of a namespace that is gone is given again, its cookie never."""
    if found is None:
        return "gone"
    same = found.identity == (row.netns_device, row.netns_inode)
    return "there" if same and row.netns_cookie in (0, found.cookie) else "replaced"


def _state_of(it: Object, scope: Scope) -> ObjectState:
    kind: str = type(it).__struct_config__.tag  # type: ignore[assignment]
    if not all(scope.has(place) for place in it.places()):
        return ObjectState(it.label, kind, "missing", ["its namespace is gone"])
    try:
        differences = it.check(scope)
    except KernelError as error:
        return ObjectState(it.label, kind, "unknown", [str(error)])
    if not differences:
        return ObjectState(it.label, kind, "as planned", [])
    different = [one for one in differences if one.what == "different"]
    if not different:
        return ObjectState(it.label, kind, "missing", [])
    return ObjectState(it.label, kind, "different", [_said(str(one), it.label) for one in different])


def _said(difference: str, label: str) -> str:
    return difference.removeprefix(f"{label}: ")


def findings_of(row: Attachment, live: Live) -> list[Finding]:
    """What is wrong with one attachment, and what to do; a finding for each cause, not for each object."""
    key = row.key
    if row.state != "committed":
        return [finding("attachment-unfinished", f"{key} is {row.state}", key)]
    if live.namespace != "there":
        return [_of_namespace(row, live)]
    if live.objects is None:
        return [finding("plan-unreadable", f"{key}: its plan cannot be read; it can only be deleted", key)]
    found = [
        _of_objects(row, code, [it for it in live.objects if it.state == state])
        for code, state in (
            ("object-missing", "missing"),
            ("object-changed", "different"),
            ("kernel-silent", "unknown"),
        )
    ]
    told = [it for it in found if it is not None]
    if live.needs_new_link:
        told = [for_a_new_link(it) for it in told]
    return [*told, *(foreign(row, it) for it in live.foreign)]


def for_a_new_link(it: Finding) -> Finding:
    """What is missing or changed because the link's other end is, and comes back with a new one only."""
    if it.code not in ("object-missing", "object-changed"):
        return it
    remedy = (
        "somebody has renamed, moved or replaced its interface: undo that, or let "
        f"`netloom check {it.subject} --repair --recreate` make its link anew; then its connections end"
    )
    return replace(it, next=remedy)


def _of_namespace(row: Attachment, live: Live) -> Finding:
    how = "is gone" if live.namespace == "gone" else "leads to another namespace by now"
    if live.has_link:
        text = f"{row.key}: {row.netns} {how}, and its namespace lives on: somebody holds it"
        return finding("netns-busy", text, row.key)
    return finding("netns-stale", f"{row.key}: its namespace {row.netns} {how}, and no DEL came", row.key)


def _of_objects(row: Attachment, code: str, objects: list[ObjectState]) -> Finding | None:
    if not objects:
        return None
    many = f" ({len(objects)} objects)" if len(objects) > 1 else ""
    if code == "object-missing":
        said = f"not in the kernel: {'; '.join(it.object for it in objects)}"
    else:
        said = "; ".join(f"{it.object}: {', '.join(it.differences)}" for it in objects)
    return finding(code, f"{row.key}{many}: {said}", row.key)


def foreign(row: Attachment, found: str) -> Finding:
    return Finding(
        code="address-foreign",
        severity="warning",
        subject=str(row.key),
        text=f"{row.key}: {row.ifname} has the address {found}, which netloom did not give",
        next=f"`nsenter --net={row.netns} ip address del {found} dev {row.ifname}` removes it; or ask for it "
        "when attaching",
    )
