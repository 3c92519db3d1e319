"""Links of containers with a larger MTU than the host's uplink, which refuses or loses their packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...api.findings import Finding
from ...kernel import Veth
from ...kernel.uplink import Uplink
from ...ops.health.kernel import mtu_mismatch
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
    parts = [
        f"{count} {'container has' if count == 1 else 'containers have'} {size}"
        for size, count in sorted(links.items())
    ]
    if mtu > way_out.mtu:
        parts.append(f"network {name} asks for {mtu}")
    return mtu_mismatch(
        name, way_out.link, way_out.mtu, " and ".join(parts), path if mtu > way_out.mtu else ""
    )
