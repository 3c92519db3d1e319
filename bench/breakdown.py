"""Where the time of an ADD and of a DEL is spent, from outside to inside.

The time that the driver saw, less a bare spawn of the plugin and less the time that the agent reports, is the
time for the way there and back. Of the agent's phases, the kernel's is split by type of object, in proportion
to the times when this process applies the recorded plan once more, in namespaces of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from statistics import fmean

from msgspec import Struct

from netloom.cli.terminal.tables import table
from netloom.journal import Operation
from netloom.kernel import Namespace, NftElement, Plan, Scope, Sysctl, apply, remove
from netloom.kernel.dataplane import Dataplane
from netloom.networks.table import TABLE

from .containers import settle
from .measure import median, milliseconds

_ROUNDS = 60
_KINDS = ("nft", "sysctl", "netlink")
# What happens in the phases of each verb, in order.
_PHASES = {
    "ADD": {
        "judge": "judge the request",
        "queue": "wait for the attachment's turn",
        "reserve": "journal: addresses and a pending row, noted",
        "kernel": "kernel",
        "commit": "journal: the row is committed, durable",
        "answer": "encode the answer",
    },
    "DEL": {
        "queue": "judge the request",
        "mark": "journal: the row is deleting, noted",
        "kernel": "kernel",
        "release": "journal: the row is deleted, addresses rest, durable",
        "answer": "encode the answer",
    },
}


class Seen(Struct, frozen=True):
    """One operation, seen from both sides, and a bare spawn of the plugin just before it. Milliseconds."""

    total: float
    spawn: float
    operation: Operation


def breakdown(verb: str, seen: Sequence[Seen], kinds: Mapping[str, float]) -> list[str]:
    """Returns a table of the middle half: means, so that the parts add up to the whole."""
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
            parts += [(f"kernel: {kind}", took * share) for kind, share in kinds.items()]
        else:
            parts.append((what, took))
    rows = [(what, f"{took:7.3f}", f"{took / whole:4.0%}") for what, took in parts]
    return [f"{verb}: {whole:.3f} ms", *(f"  {line}" for line in table(rows))]


def kinds_of_applying(plan: Plan) -> dict[str, float]:
    """Returns each object type's share of the time to apply the plan."""
    took: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with Namespace.new() as host:
        apply(Plan((TABLE,)), Scope(host))
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
    return _shares({kind: median(values) for kind, values in took.items()})


def kinds_of_removing(plan: Plan) -> dict[str, float]:
    """Returns the same for removal, until the links are deleted, and with them what depends on them."""
    took: dict[str, list[float]] = {"nft": [], "links, and threads": []}
    elements = Plan(tuple(it for it in plan.objects if isinstance(it, NftElement)))
    others = Plan(tuple(it for it in plan.objects if not isinstance(it, NftElement)))
    with Namespace.new() as host, Dataplane(host) as dataplane:
        apply(Plan((TABLE,)), Scope(host))
        for _ in range(_ROUNDS):
            with Namespace.new() as container:
                apply(plan, Scope(host, container))
                settle()
                for kind, part in zip(took, (elements, others), strict=True):
                    took[kind].append(milliseconds(dataplane.remove(part, container).result))
    return _shares({kind: median(values) for kind, values in took.items()})


def _shares(values: Mapping[str, float]) -> dict[str, float]:
    return {kind: value / sum(values.values()) for kind, value in values.items()}


def _kind(item: object) -> str:
    if isinstance(item, NftElement):
        return "nft"
    return "sysctl" if isinstance(item, Sysctl) else "netlink"
