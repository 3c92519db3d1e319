"""List the host's ports that lead to containers, and who holds each; an agent need not run.

A host IP of * stands for all addresses of the host, of the family of the container's address.

examples:
  netloom ports
  netloom ports 8080
  netloom ports --json
"""

from __future__ import annotations

import argparse
from typing import Annotated

from msgspec import Meta, Struct

from ..journal import Attachment, Port, State
from .arguments import add_json
from .failure import UsageError
from .journal import ledger
from .output import printable_line, say
from .place import add_place, intents_dir
from .queued import queued
from .short_id import short_id
from .views import print_json, shown_ip, table

_HEADER = (
    "HOST IP", "PORT", "PROTOCOL", "CONTAINER IP", "PORT", "NETWORK", "CONTAINER", "INTERFACE", "STATE",
)  # fmt: skip


class HeldPort(Struct, frozen=True, rename={
    "host_ip": "hostIP", "host_port": "hostPort", "container_ip": "containerIP",
    "container_port": "containerPort", "container_id": "containerID", "ifname": "ifName",
}):  # fmt: skip
    """A port of the host that leads to a container, and who holds it."""

    host_ip: Annotated[str, Meta(description="address of the host; empty: all of this family")]
    host_port: Annotated[int, Meta(description="port of the host")]
    protocol: Annotated[str, Meta(description="`tcp`, `udp` or `sctp`")]
    container_ip: Annotated[str, Meta(description="the container's address that it leads to")]
    container_port: Annotated[int, Meta(description="and the port there")]
    network: Annotated[str, Meta(description="network of the attachment that holds it")]
    container_id: Annotated[str, Meta(description="the container")]
    ifname: Annotated[str, Meta(description="the container's interface")]
    state: Annotated[State, Meta(description="how far the attachment is")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]


OUTPUT = list[HeldPort]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("port", metavar="PORT", nargs="?", help="only this one")
    add_place(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    wanted = None if args.port is None else _number(args.port)
    found = [it for it in _found(args) if wanted in (None, it.host_port)]
    if args.json:
        print_json(found)
    else:
        _show(args, found, wanted)
    return 0


def _show(args: argparse.Namespace, found: list[HeldPort], wanted: int | None) -> None:
    from .orphan_notes import notes_on_ports

    notes = notes_on_ports(args, wanted)
    if found:
        say(*table([_row(it) for it in found], _HEADER))
    elif not notes:
        say("no port of the host is held" if wanted is None else f"nobody holds port {wanted}")
    say(*map(printable_line, notes))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= 65535):
        raise UsageError(f"{text[:40]!r} is no port: a whole number from 1 to 65535")
    return int(text)


def _found(args: argparse.Namespace) -> list[HeldPort]:
    with ledger(args) as journal:
        if journal is None:
            return []
        holders = {it.id: it for it in journal.attachments()}
        dels = queued(intents_dir(args))
        held = [(port, holders[number]) for number, port in journal.ports() if number in holders]
        return [_described(port, it, any(one.is_about(it) for one in dels)) for port, it in held]


def _described(port: Port, holder: Attachment, is_queued: bool) -> HeldPort:
    return HeldPort(
        host_ip=shown_ip(port.host_ip) if any(port.host_ip) else "",
        host_port=port.host_port,
        protocol=port.protocol,
        container_ip=shown_ip(port.ip),
        container_port=port.port,
        network=holder.network,
        container_id=holder.container_id,
        ifname=holder.ifname,
        state=holder.state,
        queued=is_queued,
    )


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
