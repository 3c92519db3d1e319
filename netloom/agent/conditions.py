"""Conditions of the node: what is wrong with it while an ADD can still be done.

The reconciler sets and clears conditions; `status`, `doctor`, `/readyz` and metrics read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ..api.findings import Finding


class Condition(Struct, frozen=True):
    """`family` is 4 or 6 if it concerns networks with pools of that family, and 0 if it concerns none.

    With `blocks`, containers on these networks have no connectivity: the networks are not ready.
    """

    finding: Finding
    family: int = 0
    blocks: bool = False


def blocking(conditions: Mapping[str, Condition], families: Iterable[int]) -> list[Finding]:
    """Those that make a network with pools of these families not ready."""
    wanted = set(families)
    return [it.finding for it in dict(conditions).values() if it.blocks and it.family in wanted]
