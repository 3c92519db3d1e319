"""Show how the node is: its agent, how many attachments there are, how full the pools are.

The exit status is 1 if no agent answers, or if it knows why nothing could be attached now. What the
journal knows is shown in any case.

examples:
  netloom status
  netloom status --json
"""

from __future__ import annotations

import argparse
import time
from math import log2
from typing import Any

from msgspec import to_builtins

from ..agent.client import AgentError
from ..agent.intents import waiting
from ..agent.network import Network
from ..agent.reservation import SCOPE
from ..ipam import SqlHoldings, usage
from ..journal import Ledger, boottime, empty
from .agent_process import Place, Running, running
from .arguments import add_json
from .failure import CommandFailed
from .journal import ledger
from .networks import NodeNetwork, node_networks
from .output import printable, say
from .place import add_conf_dir, add_place, intents_dir
from .privileges import require_root
from .status import FAILED
from .views import age, for_a_person, print_json, table

_COUNTABLE = 10**9
_USAGE = ("held", "resting", "free")


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("asking the agent")
    report = _report(args)
    if for_a_person(args.json):
        _show(report)
    else:
        print_json(report)
    return FAILED if report["agent"] is None or report["troubles"] else 0


def _report(args: argparse.Namespace) -> dict[str, Any]:
    agent, why = _agent(args)
    troubles = list(agent.info.troubles) if agent else []
    found = node_networks(args.conf_dir)
    attachments = None
    try:
        with ledger(args) as journal:
            known = journal or empty()
            attachments = known.count()
            networks = [_network(it, known) for it in found]
    except CommandFailed as error:
        troubles.append(str(error))
        networks = [_network(it, None) for it in found]
    return {
        "agent": agent and _described(agent),
        "why": why,
        "socket": args.socket,
        "state_dir": args.state_dir,
        "attachments": attachments,
        "networks": networks,
        "intents": len(waiting(intents_dir(args))),
        "troubles": troubles,
        "counters": dict(agent.info.counters) if agent else {},
    }


def _agent(args: argparse.Namespace) -> tuple[Running | None, str]:
    try:
        found = running(Place(args.state_dir, args.socket))
    except AgentError as error:
        return None, str(error)
    return found, "" if found else f"no agent answers at {args.socket}"


def _described(agent: Running) -> dict[str, Any]:
    return {
        "version": agent.info.version,
        "process": agent.process or agent.info.process,
        "started": agent.info.started,
        "mtu": agent.info.mtu,
        "under_way": agent.info.under_way,
    }


def _network(found: NodeNetwork, known: Ledger | None) -> dict[str, Any]:
    return {
        "name": found.name,
        "path": found.path,
        "cniVersion": found.config.cni_version,
        "mtu": found.network and found.network.mtu,
        "pools": [] if found.network is None else _pools(found.network, known),
        "error": found.error,
    }


def _pools(network: Network, known: Ledger | None) -> list[dict[str, Any]]:
    """Without a journal that can be read, nobody knows what is free."""
    holdings = SqlHoldings((known or empty()).connection)
    counted = [to_builtins(it) for it in usage(network.pools, holdings, SCOPE, boottime(), network.cooldown)]
    return counted if known is not None else [it | dict.fromkeys(_USAGE) for it in counted]


def _show(report: dict[str, Any]) -> None:
    agent, attachments = report["agent"], report["attachments"]
    rows = [("agent", _shown_agent(report))]
    if agent is not None:
        rows.append(("mtu", str(agent["mtu"])))
    if attachments is None:
        rows.append(("attachments", "unknown"))
    else:
        states = ", ".join(f"{count} {state}" for state, count in attachments.items() if count)
        rows.append(("attachments", states or "none"))
    if report["intents"]:
        rows.append(("queued", f"{report['intents']} DEL, for the next agent"))
    if report["counters"]:
        rows.append(("counters", ", ".join(f"{what} {count}" for what, count in report["counters"].items())))
    rows += [("trouble", trouble) for trouble in report["troubles"]]
    say(*table(rows))
    pools = [
        (
            network["name"],
            pool["cidr"],
            *(_counted(pool[it]) for it in ("capacity", *_USAGE)),
        )
        for network in report["networks"]
        for pool in network["pools"]
    ]
    if pools:
        say("", *table(pools, ["NETWORK", "POOL", "CAPACITY", "HELD", "RESTING", "FREE"]))
    else:
        say("", "no network of netloom is configured: `netloom up` writes one")
    broken = [network for network in report["networks"] if network["error"]]
    say(*(printable(f"{it['name']} cannot work: {it['path']}: {it['error']}") for it in broken))
    if agent is None:
        say("", "next: `netloom up` starts an agent; containers keep their networks until then")


def _shown_agent(report: dict[str, Any]) -> str:
    agent = report["agent"]
    if agent is None:
        return f"not running: {report['why']}"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(agent["started"]))
    lasted = age(time.time() - agent["started"])
    return (
        f"version {agent['version']}, process {agent['process']}, since {since} ({lasted}), "
        f"at {report['socket']}"
    )


def _counted(number: int | None) -> str:
    """Of an IPv6 pool, a number says nothing that a power of two does not."""
    if number is None:
        return "?"
    return str(number) if number < _COUNTABLE else f"2^{log2(number):.0f}"
