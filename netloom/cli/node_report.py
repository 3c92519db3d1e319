"""All that is known of a node, as one document: from its agent, its journal, its networks' files, its host.

Each source may be missing or broken without hiding the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from ..agent.host import Host, look_at
from ..agent.intents import waiting
from ..agent.network import Network
from ..agent.reservation import SCOPE
from ..agent.status import lack_of, lack_of_space
from ..cni import CNIError, Problem
from ..ipam import Pool, SqlHoldings, usage
from ..journal import Ledger, boottime, empty
from ..kernel import KernelError, Namespace
from ..kernel.values import shown_ip
from .agent_presence import Presence, presence
from .agent_process import Place, Running
from .failure import CommandFailed
from .journal import TAKEN, ledger
from .networks import NodeNetwork, found_in
from .overlap import host_networks, warnings_of
from .place import intents_dir

USAGE = ("held", "resting", "free")


def report(args: argparse.Namespace) -> dict[str, Any]:
    found = presence(Place(args.state_dir, args.socket))
    troubles = list(found.agent.info.troubles) if found.agent else []
    troubles += filter(None, [lack_of_space(args.state_dir)])
    networks, unreadable = _networks(args.conf_dir)
    # One that several networks share is there once.
    pools = list(dict.fromkeys(pool for it in networks if it.network for pool in it.network.pools))
    host = _host()
    attachments, outside, advice = None, None, found.advice
    try:
        _require_the_same_journal(args, found.agent)
        with ledger(args) as journal:
            known = journal or empty()
            attachments, outside = known.count(), _outside(pools, known)
            described = [_network(it, known, host) for it in networks]
    except CommandFailed as error:
        if not found.agent or found.agent.info.has_journal:  # which has told of it already
            troubles.append(str(error))
        advice = error.advice if found.process is None else f"{found.advice}; then {error.advice}"
        described = [_network(it, None, host) for it in networks]
    return {
        **_agent(found),
        "next": advice,
        "socket": args.socket,
        "state_dir": args.state_dir,
        "attachments": attachments,
        "networks": described,
        "unreadable": [{"path": it.path, "error": str(it.error)} for it in unreadable],
        "outside": outside,
        "intents": len(waiting(intents_dir(args))),
        "troubles": troubles,
        "warnings": warnings_of(pools, host_networks()),
        "counters": dict(found.agent.info.counters) if found.agent else {},
    }


def is_well(report: dict[str, Any]) -> bool:
    """Whether an agent answers that knows of nothing in its way, and every network can be attached to."""
    broken = any(network["error"] or network["trouble"] for network in report["networks"])
    return report["agent"] is not None and not (report["troubles"] or report["unreadable"] or broken)


def obstacles(report: dict[str, Any]) -> list[str]:
    """Why nothing can be attached to the node, or to a network whose file is sound."""
    return [*report["troubles"], *obstacles_of_networks(report)]


def obstacles_of_networks(report: dict[str, Any]) -> list[str]:
    return [
        f"nothing can be attached to {it['name']} now: {it['trouble']}"
        for it in report["networks"]
        if it["trouble"]
    ]


def _require_the_same_journal(args: argparse.Namespace, agent: Running | None) -> None:
    """Whatever else is at its path, or in another directory, tells nothing of what the agent has made."""
    if agent is None:
        return
    theirs = agent.info.state_dir
    if theirs and theirs != args.state_dir:
        raise CommandFailed(
            f"the agent has its journal in {theirs}, not in {args.state_dir}", f"give --state-dir {theirs}"
        )
    if not agent.info.has_journal:
        raise CommandFailed(f"the journal in {args.state_dir} is not the agent's", TAKEN)


def _host() -> Host | None:
    try:
        with Namespace.own() as namespace:
            return look_at(namespace)
    except KernelError:
        return None


def _agent(found: Presence) -> dict[str, Any]:
    return {
        "agent": found.agent and _described(found.agent),
        "why": found.why,
        "silent": found.process,
    }


def _described(agent: Running) -> dict[str, Any]:
    return {
        "version": agent.info.version,
        "process": agent.process or agent.info.process,
        "started": agent.info.started,
        "mtu": agent.info.mtu,
        "under_way": agent.info.under_way,
    }


def _networks(directory: str) -> tuple[list[NodeNetwork], list[Problem]]:
    try:
        return found_in(directory)
    except CNIError as error:
        return [], [Problem(directory, error)]


def _outside(pools: Sequence[Pool], known: Ledger) -> list[str]:
    """Addresses of attachments that no pool has (any more): they are in no count of a pool."""
    held = [ip for _, ip, _ in known.held() if not any(ip in pool for pool in pools)]
    return [shown_ip(ip) for ip in sorted(held, key=lambda ip: (len(ip), ip))]


def _network(found: NodeNetwork, known: Ledger | None, host: Host | None) -> dict[str, Any]:
    return {
        "name": found.name,
        "path": found.path,
        "cniVersion": found.config.cni_version,
        "mtu": found.network and found.network.mtu,
        "pools": [] if found.network is None else _usage(found.network, known),
        "error": found.error,
        "trouble": _trouble(found.network, known, host),
    }


def _trouble(network: Network | None, known: Ledger | None, host: Host | None) -> str:
    """As CNI's STATUS would have it; without a journal, of the host alone."""
    if network is None or host is None:
        return ""
    return lack_of(network, host, known) if known else host.lacks(network.pools, network.mtu)


def _usage(network: Network, known: Ledger | None) -> list[dict[str, Any]]:
    """Without a journal that can be read, nobody knows what is free."""
    holdings = SqlHoldings((known or empty()).connection)
    counted = [to_builtins(it) for it in usage(network.pools, holdings, SCOPE, boottime(), network.cooldown)]
    return counted if known is not None else [it | dict.fromkeys(USAGE) for it in counted]
