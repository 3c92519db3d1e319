"""Masquerade: NAT of traffic that leaves a network's pools to the host's address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...kernel import NftChain, NftElement, Plan
from .. import table
from .options import MasqueradeScope

# Multicast groups: no reply is sent to the source address, so it need not be changed.
_GROUPS = ("224.0.0.0/4", "ff00::/8")


def chain(it: MasqueradeScope, pools: Iterable[str]) -> NftChain:
    """Returns the chain of a network. Networks with equal rules share it."""
    kept = dict.fromkeys((*pools, *it.exceptions, *_GROUPS))
    rules = [f"{'ip6' if ':' in cidr else 'ip'} daddr {cidr} return" for cidr in kept if it.covers(cidr)]
    rules.append("masquerade")
    return chain_of(rules)


def chain_of(rules: Sequence[str]) -> NftChain:
    """Returns a chain whose name is derived from its rules."""
    return table.chain(table.name_of(table.LEAVE, "\n".join(rules)), rules)


def elements(leave: NftChain, it: MasqueradeScope, addresses: Iterable[str]) -> list[NftElement]:
    return [
        table.element(table.LEAVING[":" in address], address, verdict=f"goto {leave.name}")
        for address in addresses
        if it.covers(address)
    ]


def is_sound(found: NftChain) -> bool:
    """Whether the chain is netloom's: its name is derived from its rules."""
    return found.name.startswith(table.LEAVE) and found == chain_of(found.rules)


def described(plan: Plan) -> dict[str, object] | None:
    """Returns the masquerade of a plan as `netloom ls --json` shows it; None if there is none."""
    leaving = {it.set for it in plan.objects if isinstance(it, NftElement) and it.set in table.LEAVING}
    if not leaving:
        return None
    chains = [it for it in plan.objects if isinstance(it, NftChain) and it.name.startswith(table.LEAVE)]
    return {
        "ipv4": table.LEAVING[0] in leaving,
        "ipv6": table.LEAVING[1] in leaving,
        "inside": _kept(chains[0].rules) if chains else [],
    }


def _kept(rules: Sequence[str]) -> list[str]:
    cidrs = [rule.split()[2] for rule in rules if rule.endswith(" return")]
    return [cidr for cidr in cidrs if cidr not in _GROUPS]
