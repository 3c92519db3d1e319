"""List attachments, as the journal has them; an agent need not run.

The exit status is 1 if NETWORK is neither configured nor has an attachment: it may be misspelled.

examples:
  netloom ls
  netloom ls mynet --wide
  netloom ls --json
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

from ..agent.planned import readable_plan
from ..cni import CNIError
from ..journal import Attachment
from ..kernel import Plan, Veth
from ..kernel.values import shown_ip
from ..modes import isolation, limits, masquerade, ports
from .arguments import add_json
from .failure import CommandFailed
from .journal import ledger
from .output import say
from .place import add_conf_dir, add_place, intents_dir
from .queued import queued
from .views import age, for_a_person, print_json, table

# Of a container's ID, as other tools show it.
_SHORT = 12


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", nargs="?", help="only those of one network")
    parser.add_argument("--wide", action="store_true", help="whole container IDs, and namespaces")
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = _found(args)
    is_unknown = not found and args.network is not None and args.network not in _configured(args.conf_dir)
    if not for_a_person(args.json):
        print_json(found)
    elif found:
        header = ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "POD", "HOST LINK", "STATE", "AGE"]
        say(*table([_row(it, args.wide) for it in found], [*header, *(["NETNS"] if args.wide else [])]))
    elif not is_unknown:
        say("nothing is attached" if args.network is None else f"nothing is attached to {args.network}")
    if is_unknown:
        raise CommandFailed(
            f"nothing is attached to a network {args.network!r}, and none of that name is configured in "
            f"{args.conf_dir}",
            "`netloom ls` lists everything that is attached, `netloom status` every network of netloom",
        )
    return 0


def _configured(directory: str) -> set[str]:
    from .networks import node_networks  # which only an empty list has to wait for

    try:
        return {network.name for network in node_networks(directory)}
    except CNIError:  # what is attached is known without it
        return set()


def _found(args: argparse.Namespace) -> list[dict[str, Any]]:
    with ledger(args) as journal:
        if journal is None:
            return []
        addresses = defaultdict(list)
        for _, ip, number in journal.held():
            addresses[number].append(ip)
        rows = [it for it in journal.attachments() if args.network in (None, it.network)]
        rows.sort(key=lambda it: (it.network, it.id))
        dels = queued(intents_dir(args))
        return [
            _described(it, sorted(addresses[it.id], key=lambda ip: (len(ip), ip)))
            | {"queued": any(one.is_about(it) for one in dels)}
            for it in rows
        ]


def _described(row: Attachment, addresses: list[bytes]) -> dict[str, Any]:
    plan = readable_plan(row) or Plan(())
    veth = next((it for it in plan.objects if isinstance(it, Veth)), None)
    return {
        "network": row.network,
        "containerID": row.container_id,
        "ifName": row.ifname,
        "addresses": [shown_ip(ip) for ip in addresses],
        "mac": veth and veth.peer_mac,
        "mtu": veth and veth.mtu,
        "hostLink": row.host_link,
        "hostPorts": [_port(it) for it in ports.of_plan(plan)],
        "bandwidth": limits.described(plan),
        "ipMasq": masquerade.described(plan),
        "isolation": isolation.of_plan(plan),
        "netns": row.netns,
        "state": row.state,
        "created": row.created_at,
        "workload": {"namespace": row.namespace, "pod": row.pod, "uid": row.uid},
    }


def _port(it: ports.HostPort) -> dict[str, Any]:
    return {
        "hostIP": it.host_ip,
        "hostPort": it.host_port,
        "protocol": it.protocol,
        "containerIP": it.ip,
        "containerPort": it.port,
    }


def _row(it: dict[str, Any], wide: bool) -> list[str]:
    container, workload = it["containerID"], it["workload"]
    row = [
        it["network"],
        container if wide else container[:_SHORT],
        it["ifName"],
        ",".join(it["addresses"]) or "-",
        # podman has pods without namespaces.
        "/".join(filter(None, (workload["namespace"], workload["pod"]))) or "-",
        it["hostLink"],
        "DEL queued" if it["queued"] else it["state"],
        age(time.time() - it["created"]),
    ]
    return [*row, it["netns"]] if wide else row
