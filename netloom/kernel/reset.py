"""Sets right what is there and different, for an operator who has asked for it.

`apply` and `repair` leave alone what was changed by hand. This replaces it, and nothing beside it: a setting
is written, a route, a neighbour or a queue goes into the place of the one that is there, an address with
another prefix makes room for ours, a link of ours gets its MTU, its queue length and its MAC back. What would
cost a container its link, or remove what another program made, is left: a link that is not ours, a pair whose
other end is another, a hook with filters of others. Elements and chains of nftables are the table's, which is
laid down as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, TypeAlias

from msgspec import Struct

from .errors import Difference, KernelError
from .namespace import Namespace
from .netlink import address as addresses
from .netlink import filter as filters
from .netlink import link, neighbour, qdisc, route
from .netlink.message import CREATE, REPLACE
from .objects import (
    Address,
    AnyObject,
    Dummy,
    Ifb,
    Neighbour,
    Redirect,
    Route,
    Scope,
    Shaper,
    Sysctl,
    Veth,
)
from .objects.link import LinkObject, find, is_ours
from .plan import Plan
from .values import family_of, packed_cidr, packed_ip

# What of a link can be set while it is in use, and how the differences call it.
_PEERS = "peer's "
_SETTABLE = frozenset({"mtu", "txqlen"})

Way: TypeAlias = Callable[[Any, Scope, list[Difference]], None]


class Reset(Struct, frozen=True):
    """What was set right, by label, and why something could not be."""

    set_right: list[str]
    failed: list[str]


def reset(plan: Plan, scope: Scope) -> Reset:
    """One object after the other; what fails does not keep the rest from being set right."""
    done: list[str] = []
    failed: list[str] = []
    for item in plan.objects:
        way = _WAYS.get(type(item))
        if way is None or not all(map(scope.has, item.places())):
            continue
        try:
            differences = [it for it in item.check(scope) if it.what == "different"]
            if differences:
                way(item, scope, differences)
                if not _differs(item, scope):
                    done.append(item.label)
        except KernelError as error:
            failed.append(str(error))
    return Reset(done, failed)


def _differs(item: AnyObject, scope: Scope) -> bool:
    return bool(item.check(scope))


def _write(item: Sysctl, scope: Scope, _: list[Difference]) -> None:
    item.apply(scope)


def _replace_route(item: Route, scope: Scope, _: list[Difference]) -> None:
    """In one step: at no time is there none."""
    item._create(scope, route.NEW, item._request, CREATE | REPLACE)


def _replace_neighbour(item: Neighbour, scope: Scope, _: list[Difference]) -> None:
    item._create(scope, neighbour.NEW, item._request, CREATE | REPLACE)


def _replace_queue(item: Shaper, scope: Scope, _: list[Difference]) -> None:
    item._create(scope, qdisc.NEW, item._request, CREATE | REPLACE)


def _replace_filter(item: Redirect, scope: Scope, _: list[Difference]) -> None:
    """The one of our priority on our link, whatever it does."""
    found = item._find(scope)
    if found is not None:
        item._delete(scope, filters.DELETE, lambda _: filters.exactly(found.index, found))
    item.apply(scope)


def _replace_address(item: Address, scope: Scope, _: list[Difference]) -> None:
    """Ours comes first where both can be: without any, the kernel would drop the routes that name it."""
    found = item._find(scope)
    if found is None:
        return
    packed, prefix = packed_cidr(item.address)
    is_beside = found.prefix != prefix and len(packed) == 4
    if is_beside:
        item.apply(scope)
    peer = None if found.peer is None else packed_ip(found.peer)
    request = addresses.build(found.index, family_of(packed), packed, found.prefix, peer=peer)
    keeping = item._others_kept(scope.at(item.on)) if len(packed) == 4 else nullcontext()
    with keeping:
        item._delete(scope, addresses.DELETE, lambda _: request)
    if not is_beside:
        item.apply(scope)


def _set_link(item: LinkObject, scope: Scope, differences: list[Difference]) -> None:
    namespace = scope.at(item.on)
    found = find(namespace, item._name)
    if found is None or not is_ours(found) or (found.name, found.kind) != (item._name, item.kind):
        return
    if any(it.field == "mac" for it in differences):
        # With another's, it looked like a stranger's, which hid what else differs.
        _set(item, "mac", namespace, found.index)
        differences = item.check(scope)
    named = {it.field or "" for it in differences}
    for field in sorted(named & _SETTABLE):
        _set(item, field, namespace, found.index)
    if isinstance(item, Veth):
        theirs = scope.at(item.peer_on)
        # Another MAC of the container's end is its own affair: the host gets to know it.
        for field in sorted({it.removeprefix(_PEERS) for it in named if it.startswith(_PEERS)} & _SETTABLE):
            _set(item, field, theirs, theirs.route.index(item.peer))


def _set(item: LinkObject, field: str, namespace: Namespace, index: int) -> None:
    wanted = {field: getattr(item, field)}
    namespace.route.change(link.SET, 0, link.change(index, link.properties(**wanted)))


_WAYS: Mapping[type[AnyObject], Way] = {
    Address: _replace_address,
    Dummy: _set_link,
    Ifb: _set_link,
    Neighbour: _replace_neighbour,
    Redirect: _replace_filter,
    Route: _replace_route,
    Shaper: _replace_queue,
    Sysctl: _write,
    Veth: _set_link,
}
