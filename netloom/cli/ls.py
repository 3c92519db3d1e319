"""List attachments, as the journal has them; an agent need not run.

The exit status is 1 if NETWORK is neither configured nor has an attachment: it may be misspelled.

examples:
  netloom ls
  netloom ls mynet --wide
  netloom ls --json
"""

from __future__ import annotations

import argparse
import socket
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from ..cni import CNIError
from ..journal import Attachment, State
from .agent_process import warn_of_other_state
from .arguments import add_json
from .failure import CommandFailed
from .journal import ledger
from .output import say
from .place import add_conf_dir, add_place, intents_dir
from .plan_facts import Bandwidth, HostPort, Masquerade, facts_of
from .queued import queued
from .short_id import short_id
from .views import age, print_json, shown_ip, table

# How names of our links on the host begin.
_LINK = "loom"


class Workload(Struct, frozen=True):
    """Who is attached, as the runtime said it; empty where it said nothing."""

    namespace: Annotated[str, Meta(description="the pod's namespace")]
    pod: Annotated[str, Meta(description="the pod's name")]
    uid: Annotated[str, Meta(description="the pod's UID")]


class Listed(Struct, frozen=True, rename={
    "container_id": "containerID", "ifname": "ifName", "host_link": "hostLink", "host_ports": "hostPorts",
    "masquerade": "ipMasq",
}):  # fmt: skip
    """An attachment: one interface of one container on one network."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    mac: Annotated[str | None, Meta(description="MAC of the container's end; null: the plan cannot be read")]
    mtu: Annotated[int | None, Meta(description="MTU of both ends; null: the plan cannot be read")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    host_ports: Annotated[list[HostPort], Meta(description="ports of the host that lead to it")]
    bandwidth: Annotated[Bandwidth | None, Meta(description="its limits; null: none")]
    masquerade: Annotated[Masquerade | None, Meta(description="what is masqueraded; null: nothing")]
    isolation: Annotated[
        Literal["none", "networks", "containers"], Meta(description="whom it is kept apart from")
    ]
    netns: Annotated[str, Meta(description="path of its namespace, as the runtime gave it")]
    state: Annotated[State, Meta(description="how far it is: being attached, attached, being detached")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    workload: Annotated[Workload, Meta(description="whose it is")]


OUTPUT = list[Listed]


class _Found(NamedTuple):
    row: Attachment
    addresses: list[str]
    is_queued: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", nargs="?", help="only those of one network")
    parser.add_argument("--wide", action="store_true", help="whole container IDs, and namespaces")
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = list(_found(args))
    warn_of_other_state(args)
    is_unknown = not found and args.network is not None and args.network not in _configured(args.conf_dir)
    if args.json:
        print_json([_described(it) for it in found])
    elif found:
        header = ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "POD", "HOST LINK", "STATE", "AGE"]
        say(*table([_shown(it, args.wide) for it in found], [*header, *(["NETNS"] if args.wide else [])]))
    elif not is_unknown:
        say("nothing is attached" if args.network is None else f"nothing is attached to {args.network}")
    if not args.json and args.network is None and _may_lack_links({it.row.host_link for it in found}):
        from .orphan_notes import note_on_links

        say(*filter(None, [note_on_links(args)]))
    if is_unknown:
        raise CommandFailed(
            f"nothing is attached to a network {args.network!r}, and none of that name is configured in "
            f"{args.conf_dir}",
            "`netloom ls` lists everything that is attached, `netloom status` every network of netloom",
            code="network-unknown",
        )
    return 0


def _may_lack_links(known: Collection[str]) -> bool:
    """Whether a link is there that may be an orphan: looking closer takes longer than all of the list."""
    return any(name.startswith(_LINK) and name not in known for _, name in socket.if_nameindex())


def _configured(directory: str) -> set[str]:
    from ..ops.node.networks import node_networks  # which only an empty list has to wait for

    try:
        return {network.name for network in node_networks(directory)}
    except CNIError:  # what is attached is known without it
        return set()


def _found(args: argparse.Namespace) -> Iterator[_Found]:
    with ledger(args) as journal:
        if journal is None:
            return
        addresses = defaultdict(list)
        for _, ip, number in journal.held():
            addresses[number].append(ip)
        rows = [it for it in journal.attachments() if args.network in (None, it.network)]
        rows.sort(key=lambda it: (it.network, it.id))
        dels = queued(intents_dir(args))
        for it in rows:
            ips = sorted(addresses[it.id], key=lambda ip: (len(ip), ip))
            yield _Found(it, [shown_ip(ip) for ip in ips], any(one.is_about(it) for one in dels))


def _described(it: _Found) -> Listed:
    row, facts = it.row, facts_of(it.row.plan)
    return Listed(
        network=row.network,
        container_id=row.container_id,
        ifname=row.ifname,
        addresses=it.addresses,
        mac=facts.mac,
        mtu=facts.mtu,
        host_link=row.host_link,
        host_ports=list(facts.ports),
        bandwidth=facts.bandwidth,
        masquerade=facts.masquerade,
        isolation=facts.isolation,
        netns=row.netns,
        state=row.state,
        queued=it.is_queued,
        created=row.created_at,
        workload=Workload(row.namespace, row.pod, row.uid),
    )


def _shown(it: _Found, wide: bool) -> list[str]:
    row = it.row
    cells = [
        row.network,
        row.container_id if wide else short_id(row.container_id),
        row.ifname,
        ",".join(it.addresses) or "-",
        # podman has pods without namespaces.
        "/".join(filter(None, (row.namespace, row.pod))) or "-",
        row.host_link,
        "DEL queued" if it.is_queued else row.state,
        age(time.time() - row.created_at),
    ]
    return [*cells, row.netns] if wide else cells
