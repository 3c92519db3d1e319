"""What `netloom up` has done or found that works, and may not be what was meant."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

from .. import __version__
from ..cni.versions import parse
from ..ops.node.networks import NodeNetwork, node_networks
from . import network_order, overlap
from .attached import networks_attached_of
from .conflist import DEFAULT_POOLS, DEFAULT_VERSION, Decision
from .doctor.runtimes import of_runtimes
from .failure import CommandFailed
from .node_report import obstacles, report
from .orphan_notes import warnings_of_links
from .place import SOCKET, default_socket
from .up_agent import AgentPart
from .up_host import lack_of


def warnings_of(args: argparse.Namespace, agent: AgentPart, wrote: Decision) -> list[str]:
    networks = node_networks(args.conf_dir)
    return [
        *_of_agent(args, agent),
        *_of_order(wrote.path),
        *_of_version(args, wrote),
        *_of_keys(wrote),
        *_of_families(wrote),
        *_of_missing_ipv6(args, wrote),
        *_of_other_defaults(args, wrote),
        *_of_name(args, wrote),
        *_of_pools(it for it in networks if it.path == wrote.path),
        *(f"{it.text}; {it.next}" for it in of_runtimes(args)),
    ]


def obstacles_of(args: argparse.Namespace) -> list[str]:
    """Why nothing can be attached now, although everything is installed: as `netloom status` has it.

    And how many links are not in the journal, with the copy that knows them, if netloom has kept one.
    """
    found = report(args)
    copies = [f"{it.text}; {it.next}" for it in found.findings if it.code == "journal-restorable"]
    return [*obstacles(found), *(copies or _of_orphans(args))]


def _of_orphans(args: argparse.Namespace) -> list[str]:
    try:
        return warnings_of_links(args)
    except CommandFailed:  # of a journal that cannot be read, the report tells
        return []


def _of_agent(args: argparse.Namespace, agent: AgentPart) -> list[str]:
    warnings = []
    if agent.change == "none":
        warnings.append(
            f"no agent answers at {args.socket}: nothing can be attached until one runs; a service "
            "manager starts it with `netloom agent`, or `netloom up` without --no-agent does"
        )
    elif agent.version != __version__:
        instead = f"; `systemctl restart {agent.unit}` starts this one" if agent.unit else ""
        warnings.append(f"the agent has version {agent.version}, and this is {__version__}{instead}")
    if args.socket != default_socket():
        warnings.append(
            f"the plugin looks for the agent at {SOCKET}: give your runtime NETLOOM_SOCKET={args.socket}"
        )
    return warnings


def _of_order(path: str) -> list[str]:
    blocking = list(network_order.of_first_file(os.path.dirname(path)))
    return [f"{it.text}; {it.next}" for it in blocking or network_order.of_files_before(path)]


def _of_version(args: argparse.Namespace, wrote: Decision) -> list[str]:
    """Of one that was asked for: what a runtime says that does not know it names no cause."""
    version = args.cni_version
    if version is None or parse(version) <= parse(DEFAULT_VERSION) or version != wrote.values.cni_version:
        return []
    return [
        f"cniVersion {version} is too new for podman 4 and for containerd before 2.0, which know "
        f"{DEFAULT_VERSION} at most; `netloom up --cni-version {DEFAULT_VERSION}` takes it back"
    ]


def _of_keys(wrote: Decision) -> list[str]:
    if not wrote.lost:
        return []
    return [f"the file that was replaced had what `netloom up` does not write: {', '.join(wrote.lost)}"]


def _of_families(wrote: Decision) -> list[str]:
    if not wrote.dropped:
        return []
    family = "IPv6" if ":" in wrote.dropped[0] else "IPv4"
    options = " ".join(f"--pool {pool}" for pool in (*(wrote.values.pools or ()), *wrote.dropped))
    return [
        f"the network gives no {family} addresses any more, as it did from {', '.join(wrote.dropped)}: "
        f"pools that are given replace all that there were; `netloom up {options}` keeps both families"
    ]


def _of_missing_ipv6(args: argparse.Namespace, wrote: Decision) -> list[str]:
    """Of the default network of a host that had no IPv6 when its file was written."""
    ipv4_only = DEFAULT_POOLS[:1]
    if args.pools is not None or not wrote.is_ours or wrote.values.pools != ipv4_only or wrote.dropped:
        return []
    lacking = lack_of(DEFAULT_POOLS, wrote.values.mtu)
    both = f"`netloom up {' '.join(f'--pool {it}' for it in DEFAULT_POOLS)}`"
    if lacking is None:
        return [
            f"network {wrote.values.network} has no IPv6 pool, and this host has IPv6: {both} adds one; "
            f"`netloom up --pool {ipv4_only[0]}` says that IPv4 alone is meant"
        ]
    return [
        f"network {wrote.values.network} has the IPv4 pool {ipv4_only[0]} only: {lacking.text}; once the "
        f"host has IPv6, {both} adds the IPv6 pool"
    ]


def _of_other_defaults(args: argparse.Namespace, wrote: Decision) -> list[str]:
    """Of a new network, if the host is connected to a network that overlaps a default pool."""
    if args.pools is not None or not set(wrote.new) - set(DEFAULT_POOLS):
        return []
    pools = wrote.values.pools or ()
    families = {":" in it for it in pools}
    passed = [it for it in DEFAULT_POOLS if it not in pools and (":" in it) in families]
    return [
        f"network {wrote.values.network} has {', '.join(pools)}, since a network of this host overlaps the "
        f"default {' and '.join(passed)}; `netloom up --pool CIDR` chooses another pool"
    ]


def _of_name(args: argparse.Namespace, wrote: Decision) -> list[str]:
    """Runtimes delete containers by the name that the network had when they were attached."""
    name = wrote.values.network
    count = networks_attached_of(args)[wrote.before] if wrote.before not in ("", name) else 0
    if not count:
        return []
    containers = "1 attachment has" if count == 1 else f"{count} attachments have"
    return [
        f"{containers} the network's old name, {wrote.before}, and runtimes may not find it to delete them: "
        f"delete the containers, or go back with `netloom up --network {wrote.before} --force`"
    ]


def _of_pools(written: Iterable[NodeNetwork]) -> list[str]:
    pools = [pool for it in written if it.network for pool in it.network.pools]
    return overlap.warnings_of(pools, overlap.host_networks())
