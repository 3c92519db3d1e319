"""Show how the node is: its agent, how many attachments there are, how full the pools are.

The exit status is 1 if no agent answers, if nothing could be attached now, to one network or at all, or if
the file of a network of netloom cannot work. What the journal knows is shown in any case.

examples:
  netloom status
  netloom status --json
"""

from __future__ import annotations

import argparse
import os
import time
from math import log2
from typing import Any

from .arguments import add_json
from .networks import FILE
from .node_report import USAGE, is_well, obstacles_of_networks, report
from .output import printable, say
from .place import add_conf_dir, add_place
from .privileges import require_root
from .status import FAILED
from .views import age, for_a_person, print_json, table

_COUNTABLE = 10**9
_SHOWN = 3
_MEND = "mend it; `netloom cni validate` checks it"
_WRITE_ANEW = ", or let `netloom up --force` write it anew, with the --pool and other options that you want"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("asking the agent")
    found = report(args)
    if for_a_person(args.json):
        _show(found)
    else:
        print_json(found)
    return 0 if is_well(found) else FAILED


def _show(found: dict[str, Any]) -> None:
    say(*table(_facts(found)))
    _show_networks(found)
    if found["next"]:
        say("", f"next: {found['next']}")


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    agent, attachments = found["agent"], found["attachments"]
    rows = [("agent", _shown_agent(found))]
    if agent is not None:
        rows.append(("mtu", str(agent["mtu"])))
    if attachments is None:
        rows.append(("attachments", "unknown"))
    else:
        states = ", ".join(f"{count} {state}" for state, count in attachments.items() if count)
        rows.append(("attachments", states or "none"))
    if found["outside"]:
        rows.append(("outside", _shown_outside(found["outside"])))
    if found["intents"]:
        rows.append(("queued", f"{found['intents']} DEL, for the next agent"))
    if found["counters"]:
        rows.append(("counters", ", ".join(f"{what} {count}" for what, count in found["counters"].items())))
    rows += [("trouble", trouble) for trouble in found["troubles"]]
    rows += [("warning", warning) for warning in found["warnings"]]
    return rows


def _show_networks(found: dict[str, Any]) -> None:
    pools = [
        (
            network["name"],
            pool["cidr"],
            *(_counted(pool[it]) for it in ("capacity", *USAGE)),
        )
        for network in found["networks"]
        for pool in network["pools"]
    ]
    if pools:
        say("", *table(pools, ["NETWORK", "POOL", "CAPACITY", "HELD", "RESTING", "FREE"]))
    lacking = obstacles_of_networks(found)
    if lacking:
        say("", *map(printable, lacking))
    broken = [
        it | {"error": f"{it['name']} cannot work: {it['error']}"} for it in found["networks"] if it["error"]
    ]
    for it in [*broken, *found["unreadable"]]:
        anew = os.path.basename(it["path"]) == FILE
        say("", printable(f"{it['path']}: {it['error']}"), f"  next: {_MEND}{_WRITE_ANEW if anew else ''}")
    if not pools and not broken and not found["unreadable"]:
        say("", "no network of netloom is configured: `netloom up` writes one")


def _shown_agent(found: dict[str, Any]) -> str:
    agent = found["agent"]
    if agent is None:
        return f"{'does not answer' if found['silent'] else 'not running'}: {found['why']}"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(agent["started"]))
    lasted = age(time.time() - agent["started"])
    return (
        f"version {agent['version']}, process {agent['process']}, since {since} ({lasted}), "
        f"at {found['socket']}"
    )


def _shown_outside(addresses: list[str]) -> str:
    more = f" and {len(addresses) - _SHOWN} more" if len(addresses) > _SHOWN else ""
    verb = "is" if len(addresses) == 1 else "are"
    return f"{', '.join(addresses[:_SHOWN])}{more} {verb} held, and of no pool that is configured now"


def _counted(number: int | None) -> str:
    """Of an IPv6 pool, a number says nothing that a power of two does not."""
    if number is None:
        return "?"
    return str(number) if number < _COUNTABLE else f"2^{log2(number):.0f}"
