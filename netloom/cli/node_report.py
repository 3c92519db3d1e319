"""All that is known of a node, as one document: from its agent, its journal, its networks' files, its host.

Each source may be missing or broken without hiding the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from ..agent.intents import waiting
from ..agent.network import Network
from ..agent.reservation import SCOPE
from ..cni import CNIError, Problem
from ..ipam import Pool, SqlHoldings, usage
from ..journal import Ledger, boottime, empty
from ..kernel.values import shown_ip
from .agent_presence import Presence, presence
from .agent_process import Place, Running
from .failure import CommandFailed
from .journal import ledger
from .networks import NodeNetwork, found_in
from .overlap import host_networks, warnings_of
from .place import intents_dir

USAGE = ("held", "resting", "free")


def report(args: argparse.Namespace) -> dict[str, Any]:
    found = presence(Place(args.state_dir, args.socket))
    troubles = list(found.agent.info.troubles) if found.agent else []
    networks, unreadable = _networks(args.conf_dir)
    # One that several networks share is there once.
    pools = list(dict.fromkeys(pool for it in networks if it.network for pool in it.network.pools))
    attachments, outside = None, None
    try:
        with ledger(args) as journal:
            known = journal or empty()
            attachments, outside = known.count(), _outside(pools, known)
            described = [_network(it, known) for it in networks]
    except CommandFailed as error:
        troubles.append(str(error))
        described = [_network(it, None) for it in networks]
    return {
        **_agent(found),
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
    """Whether an agent answers that knows of nothing in its way, and every network can work."""
    broken = any(network["error"] for network in report["networks"])
    return report["agent"] is not None and not (report["troubles"] or report["unreadable"] or broken)


def _agent(found: Presence) -> dict[str, Any]:
    return {
        "agent": found.agent and _described(found.agent),
        "why": found.why,
        "silent": found.process,
        "next": found.advice,
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


def _network(found: NodeNetwork, known: Ledger | None) -> dict[str, Any]:
    return {
        "name": found.name,
        "path": found.path,
        "cniVersion": found.config.cni_version,
        "mtu": found.network and found.network.mtu,
        "pools": [] if found.network is None else _usage(found.network, known),
        "error": found.error,
    }


def _usage(network: Network, known: Ledger | None) -> list[dict[str, Any]]:
    """Without a journal that can be read, nobody knows what is free."""
    holdings = SqlHoldings((known or empty()).connection)
    counted = [to_builtins(it) for it in usage(network.pools, holdings, SCOPE, boottime(), network.cooldown)]
    return counted if known is not None else [it | dict.fromkeys(USAGE) for it in counted]
