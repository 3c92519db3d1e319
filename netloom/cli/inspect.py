"""Show all that is known of an attachment: what it has, and whether the kernel has it so.

NAME is an attachment (NETWORK/CONTAINER/INTERFACE), a link of the host (loom…), an address, a container's ID
or its beginning, a pod or a network namespace: then all of its interfaces are shown. An agent need not run.
The exit status is 1 if something is not as planned, or nothing of that name is attached.

examples:
  netloom inspect 3f2a9c
  netloom inspect shop/api-0
  netloom inspect netloom/3f2a9c/eth0 --json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ..api.findings import Finding
from ..journal import Attachment, Ledger, State
from ..kernel import InvalidNamespace, Namespace
from .arguments import add_json
from .circumstances import without_stale
from .counters import Counters, counters_of
from .failure import CommandFailed
from .journal import ledger
from .live import Live, findings_of, look_at
from .ls import Workload
from .object_state import ObjectState, Presence
from .output import say
from .place import add_place, intents_dir
from .plan_facts import Bandwidth, HostPort, Masquerade, facts_of
from .queued import Queued, queued
from .quoting import for_shell
from .refused import Refused, refusals, refused_at
from .status import FAILED
from .subjects import rows_of
from .views import print_json, shown_ip


class Held(Struct, frozen=True):
    """A process that keeps a namespace alive."""

    process: Annotated[int, Meta(description="its number")]
    name: Annotated[str, Meta(description="its name, as the kernel has it")]
    how: Annotated[str, Meta(description="how: it runs in it, has it open, or has it mounted")]


class Netns(Struct, frozen=True):
    """An attachment's network namespace."""

    path: Annotated[str, Meta(description="as the runtime gave it")]
    inode: Annotated[int, Meta(description="its number, which the kernel may give again when it is gone")]
    presence: Annotated[Presence, Meta(description="whether the path still leads to it")]
    holders: Annotated[list[Held], Meta(description="who keeps it alive, as far as it can be seen")]


class Way(Struct, frozen=True):
    """A route of the container."""

    dst: Annotated[str, Meta(description="where to")]
    gw: Annotated[str, Meta(description="by which gateway; empty: on the link itself")]


class Inspected(Struct, frozen=True, kw_only=True, rename={
    "container_id": "containerID", "ifname": "ifName", "host_link": "hostLink", "host_ports": "hostPorts",
    "masquerade": "ipMasq", "config_hash": "configHash",
}):  # fmt: skip
    """An attachment, as the journal has it, and as the kernel has it at this moment."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container, as the runtime names it")]
    ifname: Annotated[str, Meta(description="the interface that the runtime asked for")]
    workload: Annotated[Workload, Meta(description="whose it is")]
    state: Annotated[State, Meta(description="how far it is: being attached, attached, being detached")]
    queued: Annotated[bool, Meta(description="whether its DEL waits for the agent")]
    created: Annotated[float, Meta(description="when it was attached, in seconds since 1970")]
    addresses: Annotated[list[str], Meta(description="addresses that it holds, IPv4 first")]
    routes: Annotated[list[Way], Meta(description="the container's routes, as ADD answered")]
    mac: Annotated[str | None, Meta(description="MAC of the container's end; null: the plan cannot be read")]
    mtu: Annotated[int | None, Meta(description="MTU of both ends; null: the plan cannot be read")]
    host_link: Annotated[str, Meta(description="the host's end of the pair")]
    rank: Annotated[int, Meta(description="which of its namespace's interfaces it is; the first is 0")]
    host_ports: Annotated[list[HostPort], Meta(description="ports of the host that lead to it")]
    bandwidth: Annotated[Bandwidth | None, Meta(description="its limits; null: none")]
    masquerade: Annotated[Masquerade | None, Meta(description="what is masqueraded; null: nothing")]
    isolation: Annotated[
        Literal["none", "networks", "containers"], Meta(description="whom it is kept apart from")
    ]
    netns: Annotated[Netns, Meta(description="its network namespace")]
    config_hash: Annotated[str, Meta(description="tells configurations apart; a repeated ADD must have it")]
    counters: Annotated[Counters | None, Meta(description="its traffic; null: its link is not there")]
    objects: Annotated[
        list[ObjectState] | None, Meta(description="its plan, each object as it is; null: unreadable")
    ]
    result: Annotated[dict[str, Any] | None, Meta(description="what ADD answered; null: unreadable")]
    findings: Annotated[list[Finding], Meta(description="what is wrong with it, and what to do next")]


OUTPUT = list[Inspected]

# Looking through all processes for who holds a namespace: so long, and so many of them.
_PATIENCE = 2.0
_MOST = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="what to inspect")
    add_place(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    with ledger(args) as journal, Namespace.own() as host:
        rows = [] if journal is None else rows_of(args, journal, args.name)
        dels, refused = queued(intents_dir(args)), refused_at(host)
        found = [] if journal is None else [_inspected(row, journal, host, dels, refused) for row in rows]
    if not found:
        raise CommandFailed(
            f"nothing that is named {args.name!r} is attached",
            f"`netloom explain {for_shell(args.name)}` tells what became of it; `netloom ls` lists what is "
            "attached",
            code="not-attached",
        )
    if args.json:
        print_json(found)
    else:
        from .inspecting import lines_of

        for number, it in enumerate(found):
            say(*([""] if number else []), *lines_of(it))
    return FAILED if any(it.findings for it in found) else 0


def _inspected(
    row: Attachment,
    journal: Ledger,
    host: Namespace,
    dels: Sequence[Queued],
    refused: Mapping[str, Refused] | None,
) -> Inspected:
    live = look_at(row, host)
    of_it = None if refused is None else refused.get(row.host_link)
    facts, result = facts_of(row.plan), _decoded(row.result)
    return Inspected(
        network=row.network,
        container_id=row.container_id,
        ifname=row.ifname,
        workload=Workload(row.namespace, row.pod, row.uid),
        state=row.state,
        queued=any(it.is_about(row) for it in dels),
        created=row.created_at,
        addresses=[shown_ip(ip) for _, ip in journal.addresses_of(row.id)],
        routes=_routes(result),
        mac=facts.mac,
        mtu=facts.mtu,
        host_link=row.host_link,
        rank=row.rank,
        host_ports=list(facts.ports),
        bandwidth=facts.bandwidth,
        masquerade=facts.masquerade,
        isolation=facts.isolation,
        netns=_netns(row, live),
        config_hash=row.config_hash,
        counters=_counters(
            row, live, host, None if refused is None else 0 if of_it is None else of_it.packets
        ),
        objects=live.objects,
        result=result,
        findings=[*without_stale(findings_of(row, live), [row], dels), *refusals(row, of_it)],
    )


def _decoded(result: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(result, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _routes(result: dict[str, Any] | None) -> list[Way]:
    listed = (result or {}).get("routes")
    routes = [it for it in listed if isinstance(it, dict)] if isinstance(listed, list) else []
    return [Way(str(it["dst"]), str(it.get("gw") or "")) for it in routes if "dst" in it]


def _netns(row: Attachment, live: Live) -> Netns:
    return Netns(
        path=row.netns,
        inode=row.netns_inode,
        presence=live.namespace,
        # Of one whose number is another's by now, nobody can say who holds it.
        holders=[] if live.namespace == "replaced" else _holders(row.netns_inode),
    )


def _holders(inode: int) -> list[Held]:
    from .doctor import processes
    from .doctor.holders import holders

    found = holders({inode}, time.monotonic() + _PATIENCE)[inode]
    return [Held(it.process, processes.name(it.process), it.how) for it in found[:_MOST]]


def _counters(row: Attachment, live: Live, host: Namespace, refused: int | None) -> Counters | None:
    if live.namespace != "there":
        return counters_of(row.host_link, row.ifname, host, None, refused)
    try:
        with Namespace.open(row.netns) as container:
            return counters_of(row.host_link, row.ifname, host, container, refused)
    except InvalidNamespace:  # it went just now
        return None
