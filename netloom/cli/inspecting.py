"""An attachment for the person at the terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .explaining.shown import findings_lines
from .moments import shown
from .output import printable_line
from .plan_facts import Bandwidth, HostPort, Masquerade
from .views import age, table

if TYPE_CHECKING:
    from .counters import Direction
    from .inspect import Held, Inspected, Netns

_MOUNTED = "has it mounted at "


def lines_of(it: Inspected) -> list[str]:
    facts = [
        ("pod", "/".join(filter(None, (it.workload.namespace, it.workload.pod)))),
        ("state", "DEL queued" if it.queued else it.state),
        ("attached", f"{shown(it.created)} ({age(time.time() - it.created)})"),
        ("addresses", ", ".join(it.addresses)),
        *(("route", f"{one.dst} via {one.gw}" if one.gw else one.dst) for one in it.routes),
        ("mac", it.mac or "unknown"),
        ("mtu", str(it.mtu or "unknown")),
        ("host link", it.host_link),
        *(("host port", _port(one)) for one in it.host_ports),
        ("limits", _limits(it.bandwidth)),
        ("masquerade", _masquerade(it.masquerade)),
        ("isolation", "" if it.isolation == "none" else f"kept apart from other {it.isolation}"),
        ("namespace", _netns(it.netns)),
        *(("held by", _holder(one)) for one in it.netns.holders),
        ("config", it.config_hash[:16]),
        ("sent", "" if it.counters is None else _counted(it.counters.sent, it.counters.refused)),
        ("received", "" if it.counters is None else _counted(it.counters.received)),
    ]
    lines = [printable_line(f"{it.network}/{it.container_id}/{it.ifname}")]
    lines += table([fact for fact in facts if fact[1]], margin=2)
    if it.objects is None:
        lines += ["", "  its plan cannot be read"]
    else:
        rows = [(one.object, one.state, "; ".join(one.differences)) for one in it.objects]
        lines += ["", *table(rows, ["OBJECT", "STATE", ""], margin=2)]
    return [*lines, *findings_lines(it.findings)]


def _port(it: HostPort) -> str:
    host = f"{it.host_ip or '*'}:{it.host_port}/{it.protocol}"
    return f"{host} leads to {it.container_ip} port {it.container_port}"


def _limits(it: Bandwidth | None) -> str:
    if it is None:
        return ""
    parts = [
        f"{name} {_rate(rate)}"
        for name, rate in (("receives", it.ingress_rate), ("sends", it.egress_rate))
        if isinstance(rate, int)
    ]
    return ", ".join(parts)


def _rate(bits: int) -> str:
    for size, unit in ((1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1000, "kbit/s")):
        if bits >= size:
            return f"{bits / size:g} {unit}"
    return f"{bits} bit/s"


def _masquerade(it: Masquerade | None) -> str:
    if it is None:
        return ""
    families = [name for name, on in (("IPv4", it.ipv4), ("IPv6", it.ipv6)) if on]
    return f"{' and '.join(families)}, except to {', '.join(it.inside)}"


def _netns(it: Netns) -> str:
    how = {"there": "", "gone": ", which is gone", "replaced": ", which leads to another namespace by now"}
    return f"{it.path}{how[it.presence]}"


def _holder(it: Held) -> str:
    who = f"{it.name}[{it.process}]"
    if it.how.startswith(_MOUNTED):
        return f"a mount at {it.how.removeprefix(_MOUNTED)}, as {who} sees it"
    return f"{who}, which {it.how}"


def _counted(it: Direction, refused: int | None = None) -> str:
    limit = "" if it.limited is None else f", {it.limited} dropped by the limit"
    errors = f", {it.errors} errors" if it.errors else ""
    strange = f", {refused} refused: not from its own addresses" if refused else ""
    packets = "1 packet" if it.packets == 1 else f"{it.packets} packets"
    return f"{packets}, {_size(it.bytes)}, {it.dropped} dropped{limit}{errors}{strange}"


def _size(count: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
