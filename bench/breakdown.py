"""Where the time of an ADD and of a DEL goes, from outside to inside.

What the driver saw, without a bare spawn of the plugin and without what the agent says that it took, is
the way there and back. Of the agent's own phases, the kernel's is split by the kind of object: the
recorded plan is applied once more by this process, in namespaces of its own, one kind after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from statistics import fmean

from msgspec import Struct

from netloom.cli.views import table
from netloom.journal import Operation
from netloom.kernel import Namespace, NftElement, Plan, Scope, Sysctl, apply, remove
from netloom.modes import routed

from .containers import settle
from .measure import median, milliseconds

_ROUNDS = 60
_KINDS = ("nft", "sysctl", "netlink")
# What happens in the phases of each verb, in their order.
_PHASES = {
    "ADD": {
        "judge": "judge the request",
        "queue": "wait for the attachment's turn",
        "reserve": "journal: addresses and a pending row, durable",
        "kernel": "kernel",
        "commit": "journal: the row is committed, durable",
        "answer": "encode the answer",
    },
    "DEL": {
        "queue": "judge the request",
        "mark": "journal: the row is deleting, durable",
        "kernel": "kernel",
        "release": "journal: the row is gone, addresses rest, durable",
        "answer": "encode the answer",
    },
}


class Seen(Struct, frozen=True):
    """One operation, from both sides, and a bare spawn of the plugin just before it. Milliseconds."""

    total: float
    spawn: float
    operation: Operation


def breakdown(verb: str, seen: Sequence[Seen], kinds: Mapping[str, float]) -> list[str]:
    """A table of the middle half: means, so that the parts make up the whole."""
    ordered = sorted(seen, key=lambda it: it.total)
    middle = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    whole, bare = fmean(it.total for it in middle), fmean(it.spawn for it in middle)
    inside = fmean(it.operation.duration for it in middle)
    parts = [
        ("spawn of the plugin, alone", bare),
        ("connection, event loop, and back", whole - bare - inside),
    ]
    for phase, what in _PHASES[verb].items():
        took = fmean(it.operation.phases.get(phase, 0.0) for it in middle)
        if phase == "kernel":
            parts += [(f"kernel: {kind}", value) for kind, value in kinds.items()]
            rest = "links, and " if "netlink" not in kinds else ""
            parts.append((f"kernel: {rest}threads, decoding of the plan", took - sum(kinds.values())))
        else:
            parts.append((what, took))
    rows = [(what, f"{took:7.3f}", f"{took / whole:4.0%}") for what, took in parts]
    return [f"{verb}: {whole:.3f} ms", *(f"  {line}" for line in table(rows))]


def kinds_of_applying(plan: Plan) -> dict[str, float]:
    """The milliseconds of each kind of object, when the plan is applied."""
    took: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with Namespace.new() as host:
        apply(Plan((routed.TABLE,)), Scope(host))
        for _ in range(_ROUNDS):
            with Namespace.new() as container:
                scope = Scope(host, container)
                once = dict.fromkeys(_KINDS, 0.0)
                for kind, objects in groupby(plan.objects, _kind):
                    once[kind] += milliseconds(partial(apply, Plan(tuple(objects)), scope))
                for kind, value in once.items():
                    took[kind].append(value)
                remove(plan, scope)
            settle()
    return {kind: median(values) for kind, values in took.items()}


def kinds_of_removing(plan: Plan) -> dict[str, float]:
    """The same when it is removed: its links take along what rests on them, only elements are left."""
    took: list[float] = []
    elements = Plan(tuple(it for it in plan.objects if isinstance(it, NftElement)))
    with Namespace.new() as host:
        apply(Plan((routed.TABLE,)), Scope(host))
        for _ in range(_ROUNDS):
            apply(elements, Scope(host))
            settle(0.005)
            took.append(milliseconds(partial(remove, elements, Scope(host))))
    return {"nft": median(took)}


def _kind(item: object) -> str:
    if isinstance(item, NftElement):
        return "nft"
    return "sysctl" if isinstance(item, Sysctl) else "netlink"
