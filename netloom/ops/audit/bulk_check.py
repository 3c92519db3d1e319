"""Which attachments are certainly as planned, by a few lists of the kernel's: of a node that is well, all.

The others are looked at one object at a time, which costs some twenty questions each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from ...journal import Attachment
from ...kernel import Address, AnyObject, KernelError, Namespace, NftChain, NftElement, Plan, Scope
from ...kernel.sighting import Sighting
from ..node.presence import namespace_of

# The scope of addresses that others can reach.
_GLOBAL = 0


def _silent(done: int, of: int) -> None:
    del done, of


def as_planned(
    rows: Iterable[Attachment],
    plans: Mapping[int, Plan],
    host: Namespace,
    elements: Collection[NftElement],
    tell: Callable[[int, int], None] = _silent,
) -> frozenset[int]:
    """Their numbers. `elements` are all that the node's table has; `tell` hears how many were looked at.

    Each is committed, in the very namespace that it was made in, has every object of its plan, and no
    address that its plan does not have.
    """
    by_namespace: dict[tuple[str, int, int], list[Attachment]] = defaultdict(list)
    for row in rows:
        by_namespace[row.netns, row.netns_device, row.netns_inode].append(row)
    total = sum(map(len, by_namespace.values()))
    glance = _Glance(host, elements)
    fine: set[int] = set()
    done = 0
    for together in by_namespace.values():
        fine |= glance.fine_of(together, plans)
        done += len(together)
        tell(done, total)
    return frozenset(fine)


class _Glance:
    def __init__(self, host: Namespace, elements: Collection[NftElement]) -> None:
        self._host = Sighting(host, neighbours=True)
        self._elements = frozenset(elements)
        # A network's chain is asked for once, whoever has it.
        self._chains: dict[NftChain, bool] = {}

    def fine_of(self, rows: list[Attachment], plans: Mapping[int, Plan]) -> set[int]:
        """Of attachments of one namespace."""
        namespace = namespace_of(rows[0])
        if namespace is None:
            return set()
        with namespace:
            try:
                inside = Sighting(namespace)
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
            except KernelError:  # whoever looks more closely will tell of it
                return set()

    def _is_fine(self, item: AnyObject, scope: Scope, inside: Sighting) -> bool:
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


def foreign_addresses(plan: Plan, inside: Sighting) -> Iterable[str]:
    """Of the container's links, those that somebody else has added; link-local ones come by themselves."""
    planned = [it for it in plan.objects if isinstance(it, Address) and it.on == "attachment"]
    ours = {it.address.partition("/")[0] for it in planned}
    links = (inside.links.get(name) for name in sorted({it.link for it in planned}))
    there = chain.from_iterable(inside.addresses.get(it.index, ()) for it in links if it is not None)
    return (f"{it.address}/{it.prefix}" for it in there if it.scope == _GLOBAL and it.address not in ours)
