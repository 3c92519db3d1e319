"""What people see on a terminal: results and tables as plain text."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Sequence

from ..cni import AnyResult, Result
from ..cni.wire import encode_in_order, indent, to_builtins
from .output import encodable, printable, say, write_bytes


def for_a_person(as_json: bool) -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and not as_json


def print_json(value: object) -> None:
    """A document for programs, indented like the results of plugins."""
    try:
        data = encode_in_order(value)
    except UnicodeEncodeError:
        data = encode_in_order(encodable(to_builtins(value)))
    write_bytes(indent(data) + b"\n")


def print_result(result: AnyResult, *, as_json: bool, newline: bool = False) -> None:
    """On a terminal something to read, off one JSON: without a newline, the very bytes of cnitool."""
    if for_a_person(as_json):
        say(result_view(result))
        return
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    write_bytes(indent(result.encode()) + (b"\n" if newline or on_terminal else b""))


def result_view(result: AnyResult) -> str:
    modern = result if isinstance(result, Result) else result.as_version("0.4.0")
    assert isinstance(modern, Result)
    rows: list[tuple[str, ...]] = []
    for it in modern.interfaces:
        facts = [f"mac {it.mac}" if it.mac else "", f"mtu {it.mtu}" if it.mtu else ""]
        rows.append(("interface", it.name, " ".join(filter(None, facts)), it.sandbox or "on the host"))
    for ip in modern.ips:
        gateway = f"gateway {ip.gateway}" if ip.gateway else ""
        rows.append(("address", ip.address, gateway, _interface_name(modern, ip.interface)))
    rows += [("route", it.dst, f"via {it.gw}" if it.gw else "", "") for it in modern.routes]
    rows += [("nameserver", server, "", "") for server in modern.dns.nameservers]
    return "\n".join([f"result of CNI {result.cni_version}", *table(rows)])


def _interface_name(result: Result, index: int | None) -> str:
    known = index is not None and 0 <= index < len(result.interfaces)
    return result.interfaces[index].name if known and index is not None else ""


def table(rows: Iterable[Sequence[str]], header: Sequence[str] | None = None) -> list[str]:
    """Columns as wide as they need to be, two spaces apart."""
    rows = [[printable(cell) for cell in row] for row in [*([header] if header else []), *rows]]
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def shown_ip(packed: bytes) -> str:
    """An address, as the journal keeps it. The kernel's own function would bring all of the kernel along."""
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def age(seconds: float) -> str:
    """How long something has been so, as people say it: one number, rounded down.

    >>> age(59.9), age(3600), age(200000)
    ('59s', '60m', '2d')
    """
    for size, unit, limit in ((1, "s", 120), (60, "m", 7200), (3600, "h", 172800)):
        if seconds < limit:
            return f"{max(int(seconds), 0) // size}{unit}"
    return f"{int(seconds) // 86400}d"
