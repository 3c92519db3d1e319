"""List the host's ports that lead to containers, and who holds each; an agent need not run.

A host IP of * stands for all addresses of the host, of the family of the container's address.

examples:
  netloom ports
  netloom ports 8080
  netloom ports --json
"""

from __future__ import annotations

import argparse
from typing import Any

from ..journal import Attachment, Port
from ..kernel.values import shown_ip
from .arguments import add_json
from .failure import UsageError
from .journal import ledger
from .output import say
from .place import add_place, intents_dir
from .queued import queued
from .views import for_a_person, print_json, table

_HEADER = (
    "HOST IP", "PORT", "PROTOCOL", "CONTAINER IP", "PORT", "NETWORK", "CONTAINER", "INTERFACE", "STATE",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("port", metavar="PORT", nargs="?", help="only this one")
    add_place(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    wanted = None if args.port is None else _number(args.port)
    found = [it for it in _found(args) if wanted in (None, it["hostPort"])]
    if not for_a_person(args.json):
        print_json(found)
    elif found:
        say(*table([_row(it) for it in found], _HEADER))
    else:
        say("no port of the host is held" if wanted is None else f"nobody holds port {wanted}")
    return 0


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= 65535):
        raise UsageError(f"{text[:40]!r} is no port: a whole number from 1 to 65535")
    return int(text)


def _found(args: argparse.Namespace) -> list[dict[str, Any]]:
    with ledger(args) as journal:
        if journal is None:
            return []
        holders = {it.id: it for it in journal.attachments()}
        dels = queued(intents_dir(args))
        return [
            _described(port, holders[number], any(one.is_about(holders[number]) for one in dels))
            for number, port in journal.ports()
        ]


def _described(port: Port, holder: Attachment, is_queued: bool) -> dict[str, Any]:
    return {
        "hostIP": shown_ip(port.host_ip) if any(port.host_ip) else "",
        "hostPort": port.host_port,
        "protocol": port.protocol,
        "containerIP": shown_ip(port.ip),
        "containerPort": port.port,
        "network": holder.network,
        "containerID": holder.container_id,
        "ifName": holder.ifname,
        "state": holder.state,
        "queued": is_queued,
    }


def _row(it: dict[str, Any]) -> list[str]:
    return [
        it["hostIP"] or "*",
        str(it["hostPort"]),
        it["protocol"],
        it["containerIP"],
        str(it["containerPort"]),
        it["network"],
        it["containerID"][:12],
        it["ifName"],
        "DEL queued" if it["queued"] else it["state"],
    ]
