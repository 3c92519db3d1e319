"""List host ports that are forwarded to containers. The command needs no agent.

A host IP of * means all addresses of the host in the family of the container's address.

examples:
  netloom ports
  netloom ports 8080
  netloom ports --json
"""

from __future__ import annotations

import argparse

from ...api.text import printable_line, short_id
from ...ops.errors import UsageError
from ...ops.inspect.documents import HeldPort
from ...ops.inspect.listing import held_ports
from ..arguments import add_json, add_place, place_of
from ..terminal.output import say
from ..terminal.tables import print_json, table

OUTPUT = list[HeldPort]

_HEADER = (
    "HOST IP", "PORT", "PROTOCOL", "CONTAINER IP", "PORT", "NETWORK", "CONTAINER", "INTERFACE", "STATE",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("port", metavar="PORT", nargs="?", help="host port to show (default: all)")
    add_place(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    wanted = None if args.port is None else _number(args.port)
    found = held_ports(place_of(args), wanted)
    if args.json:
        print_json(found)
    else:
        _show(args, found, wanted)
    return 0


def _show(args: argparse.Namespace, found: list[HeldPort], wanted: int | None) -> None:
    from ...ops.status.findings import notes_on_ports

    notes = notes_on_ports(place_of(args), wanted)
    if found:
        say(*table([_row(it) for it in found], _HEADER))
    elif not notes:
        say("no host port is in use" if wanted is None else f"no container holds port {wanted}")
    say(*map(printable_line, notes))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= 65535):
        raise UsageError(f"{text[:40]!r} is not a port: a whole number from 1 to 65535")
    return int(text)


def _row(it: HeldPort) -> list[str]:
    return [
        it.host_ip or "*",
        str(it.host_port),
        it.protocol,
        it.container_ip,
        str(it.container_port),
        it.network,
        short_id(it.container_id),
        it.ifname,
        "DEL queued" if it.queued else it.state,
    ]
