"""Links that take larger packets than the way out of the host: what they send is refused or lost there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...findings import Finding
from ...kernel import Veth
from ...kernel.uplink import Uplink
from .ground import Ground


def look(ground: Ground) -> Iterator[Finding]:
    way_out = ground.uplink
    if way_out is None:
        return
    configured = {it.name: it for it in ground.networks if it.network is not None}
    attached: dict[str, Counter[int]] = {}
    for row in ground.attachments:
        plan = ground.plans.get(row.id)
        for item in () if plan is None else plan.objects:
            if isinstance(item, Veth) and item.mtu and item.mtu > way_out.mtu:
                attached.setdefault(row.network, Counter())[item.mtu] += 1
    for name in sorted({*configured, *attached}):
        found = configured.get(name)
        mtu = found.network.mtu if found and found.network else None
        links = attached.get(name, Counter())
        if (mtu or 0) > way_out.mtu or links:
            yield _mismatch(name, found.path if found else "", mtu or 0, links, way_out)


def _mismatch(name: str, path: str, mtu: int, links: Counter[int], way_out: Uplink) -> Finding:
    larger = sum(links.values())
    parts = [f"its `mtu` is {mtu}"] if mtu > way_out.mtu else []
    if larger:
        sizes = ", ".join(map(str, sorted(links)))
        parts.append(f"{larger} container{' has' if larger == 1 else 's have'} links of {sizes}")
    advice = "attach its containers anew, which then follow the way out"
    if mtu > way_out.mtu:
        advice = f"set `mtu` to {way_out.mtu} or less in {path} (0 follows the way out), and {advice}"
    return Finding(
        code="mtu-mismatch",
        severity="warning",
        subject=name,
        text=f"network {name} takes larger packets than the way out, {way_out.link}, which takes "
        f"{way_out.mtu} bytes: {' and '.join(parts)}",
        next=advice,
    )
