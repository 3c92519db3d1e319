"""What stands in a namespace as iproute2 and nft list it, without what moves by itself."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

from netloom.kernel import Namespace

# What differs from one listing to the next of the same thing.
_MOVING = frozenset(
    {
        "operstate", "valid_life_time", "preferred_life_time", "hello_timer", "gc_timer", "tcn_timer",
        "topology_change_timer", "hold_timer", "forward_delay_timer", "message_age_timer", "timer",
        "bytes", "packets", "drops", "overlimits", "requeues", "backlog", "qlen", "rule hit", "success",
        "installed", "last_used", "refcnt", "ref", "bind", "handle", "used", "updated", "root_port",
        "topology_change", "topology_change_detected",
        # A bridge takes them from its ports, and keeps them.
        "tso_max_size", "tso_max_segs", "gso_max_size", "gso_max_segs", "gro_max_size",
        # Set when a link is up for the first time.
        "qdisc",
        # Until the kernel knows that nobody else has the address.
        "tentative",
    }
)  # fmt: skip
_MOVING_FLAGS = frozenset({"LOWER_UP", "NO-CARRIER", "linkdown", "dead", "M-DOWN"})

_LISTINGS = ("link show", "addr show", "route show table all", "rule show", "neigh show", "neigh show proxy")


def lines(namespace: Namespace) -> list[str]:
    with namespace.entered():
        qdiscs = [entry for entry in listing("tc -j qdisc show") if entry["kind"] != "noqueue"]
        hooked = [entry["dev"] for entry in qdiscs if entry["kind"] in ("ingress", "clsact")]
        found = {
            "ip": listing("ip -j -d -batch -", "\n".join(_LISTINGS)),
            "rule": listing("ip -j -6 rule show"),
            "bridge": listing("bridge -j -batch -", "fdb show\nvlan show"),
            "qdisc": qdiscs,
            "filter": [
                entry for link in hooked for entry in listing(f"tc -j filter show dev {link} ingress")
            ],
            "nft": listing("nft -j list ruleset"),
        }
    return [
        f"{kind} {json.dumps(_still(entry))}"
        for kind, entries in found.items()
        for entry in entries
        if _is_set(entry)
    ]


def _is_set(entry: dict[str, Any]) -> bool:
    """Not a thing that the kernel makes itself, some of them later: a link's own MACs, addresses, groups."""
    if entry.get("state") == "permanent":
        return "dst" in entry
    own = entry.get("type") in ("local", "anycast", "multicast") and ":" in entry.get("dst", "")
    return not (own and entry.get("protocol") == "kernel")


def _output(command: str, given: str = "") -> str:
    done = subprocess.run(
        shlex.split(command), input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def listing(command: str, given: str = "") -> list[Any]:
    """What a command lists; a batch prints one list for each of its lines."""
    text, found, decoder = _output(command, given).strip(), [], json.JSONDecoder()
    while text:
        value, end = decoder.raw_decode(text)
        found += value["nftables"] if isinstance(value, dict) else value
        text = text[end:].lstrip()
    return found


def _still(value: Any) -> Any:
    if isinstance(value, dict):
        moving = _MOVING | {"state"} if "hairpin" in value else _MOVING  # a port's, on its way to forwarding
        return {key: _still(item) for key, item in value.items() if key not in moving}
    if isinstance(value, list):
        return [_still(item) for item in value if not (isinstance(item, str) and item in _MOVING_FLAGS)]
    return value
