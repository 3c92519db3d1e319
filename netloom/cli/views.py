"""What people see: results and tables as plain text."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Sequence

from ..cni import AnyResult, Result
from ..cni.wire import encode_in_order, indent, to_builtins
from .output import encodable, printable_line, say, write_bytes
from .tables import laid_out
from .terminal import terminal_width


def print_json(value: object) -> None:
    """A document for programs, indented like the results of plugins."""
    try:
        data = encode_in_order(value)
    except UnicodeEncodeError:
        data = encode_in_order(encodable(to_builtins(value)))
    write_bytes(indent(data) + b"\n")


def print_result(result: AnyResult, *, as_json: bool, newline: bool = False) -> None:
    """On a terminal something to read, off one JSON: without a newline, the very bytes of cnitool."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    if on_terminal and not as_json:
        say(result_view(result))
        return
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


def table(
    rows: Iterable[Sequence[str]], header: Sequence[str] | None = None, *, margin: int = 0
) -> list[str]:
    """As wide as the terminal at most; off one, as wide as it needs to be. `margin` is left of it."""
    listed = [[printable_line(cell) for cell in row] for row in [*([header] if header else []), *rows]]
    width = terminal_width()
    return [" " * margin + line for line in laid_out(listed, None if width is None else width - margin)]


def shown_ip(packed: bytes) -> str:
    """An address, as the journal keeps it. The kernel's own function would bring all of the kernel along."""
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def age(seconds: float) -> str:
    """How long something has been so, as people say it: rounded down, and from a day on in days and hours.

    >>> age(59.9), age(3600), age(86399), age(273600), age(172800)
    ('59s', '60m', '23h', '3d 4h', '2d')
    """
    for size, unit, limit in ((1, "s", 120), (60, "m", 7200), (3600, "h", 86400)):
        if seconds < limit:
            return f"{max(int(seconds), 0) // size}{unit}"
    days, hours = divmod(int(seconds) // 3600, 24)
    return f"{days}d {hours}h" if hours else f"{days}d"
