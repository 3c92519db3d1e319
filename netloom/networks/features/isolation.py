"""Isolation: which containers of this host may open connections to each other.

Replies always pass, and so does traffic to host ports, since these are published. Traffic with the host
itself and with the outside is not restricted.
"""

from __future__ import annotations

from ...kernel import NftChain, NftElement, Plan
from .. import table
from .options import Isolation


def chain(isolation: Isolation, network: str) -> NftChain | None:
    """Returns the chain of a network, which accepts only traffic between its members."""
    return chain_named(table.name_of(table.KEEP_APART, network)) if isolation == "networks" else None


def chain_named(name: str) -> NftChain:
    rules = (f"iifname @{name} oifname @{name} return", "drop")
    return table.chain(name, rules, members="ifname")


def elements(isolation: Isolation, keep_apart: NftChain | None, host_link: str) -> list[NftElement]:
    if keep_apart is not None:
        return [
            table.element(table.APART, host_link, verdict=f"goto {keep_apart.name}"),
            table.element(keep_apart.name, host_link),
        ]
    if isolation == "containers":
        return [table.element(table.APART, host_link, verdict="drop")]
    return []


def is_sound(found: NftChain) -> bool:
    return found.name.startswith(table.KEEP_APART) and found == chain_named(found.name)


def of_plan(plan: Plan) -> Isolation:
    for it in plan.objects:
        if isinstance(it, NftElement) and it.set == table.APART:
            return "containers" if it.verdict == "drop" else "networks"
    return "none"
