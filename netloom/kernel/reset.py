"""Corrects objects that exist but differ from the plan, when an operator asks for it.

`apply` and `repair` do not change what was modified by hand. This module replaces only that: it writes a
setting, replaces a route, a neighbour or a queue, replaces an address that has another prefix, and sets the
MTU, queue length and MAC of our link. It does not do what would cost a container its link or remove what
another program made: a link that is not ours, a pair whose other end is another link, a hook with others'
filters. Elements and chains of nftables belong to the table, which is installed as a whole.
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

# What can be set on a link in use, by the names that differences have for it.
_PEERS = "peer's "
_SETTABLE = frozenset({"mtu", "txqlen"})

Way: TypeAlias = Callable[[Any, Scope, list[Difference]], None]


class Reset(Struct, frozen=True):
    """The labels of what was corrected, and the errors of the rest."""

    set_right: list[str]
    failed: list[str]


def reset(plan: Plan, scope: Scope) -> Reset:
    """Corrects one object after the other; a failure does not stop the rest."""
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
    """Replaces the route in one step, so that there is always one."""
    item._create(scope, route.NEW, item._request, CREATE | REPLACE)


def _replace_neighbour(item: Neighbour, scope: Scope, _: list[Difference]) -> None:
    item._create(scope, neighbour.NEW, item._request, CREATE | REPLACE)


def _replace_queue(item: Shaper, scope: Scope, _: list[Difference]) -> None:
    item._create(scope, qdisc.NEW, item._request, CREATE | REPLACE)


def _replace_filter(item: Redirect, scope: Scope, _: list[Difference]) -> None:
    """Replaces the filter of our priority on our link, whatever it does."""
    found = item._find(scope)
    if found is not None:
        item._delete(scope, filters.DELETE, lambda _: filters.exactly(found.index, found))
    item.apply(scope)


def _replace_address(item: Address, scope: Scope, _: list[Difference]) -> None:
    """Adds ours first if both can exist: without any address, the kernel would delete the routes that name
    it.
    """
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
        # With another MAC it looked like a foreign link, which hid its other differences.
        _set(item, "mac", namespace, found.index)
        differences = item.check(scope)
    named = {it.field or "" for it in differences}
    for field in sorted(named & _SETTABLE):
        _set(item, field, namespace, found.index)
    if isinstance(item, Veth):
        theirs = scope.at(item.peer_on)
        # A new MAC of the container's end is the container's decision: the host adopts it.
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
