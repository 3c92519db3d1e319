"""What `netloom up` reports: a document, with warnings about the host."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ... import __version__
from ...api.paths import DEFAULT_SOCKET, default_socket
from ...cni.versions import parse
from ..doctor.runtimes import of_runtimes
from ..errors import OperationFailed
from ..health import networks as networks_health
from ..health import pools as pools_health
from ..journals.reading import networks_attached_of
from ..node.install import Put
from ..node.networks import NodeNetwork, node_networks
from ..status.findings import warnings_of_links
from ..status.report import blocking_conditions, report
from .conflist import DEFAULT_POOLS, DEFAULT_VERSION, Decision, NodeOptions
from .host import lack_of
from .plugins import FailedPlace
from .service import AgentPart

Configured: TypeAlias = Put | Literal["restored", "renamed"]


class FilePart(Struct, frozen=True):
    """What became of a file."""

    change: Annotated[Put, Meta(description="`kept`: it was there and right")]
    path: Annotated[str, Meta(description="where it is")]


class PluginPart(Struct, frozen=True):
    """What became of the plugin at one place."""

    change: Annotated[
        Put | Literal["failed"],
        Meta(description="`kept`: it was there and right; `failed`: it is as it was, and `failed` says why"),
    ]
    path: Annotated[str, Meta(description="where it is")]


class NetworkPart(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"masquerade": "ipMasq", "cni_version": "cniVersion", "is_kept": "keep"},
):
    """What became of the network's file, and what it says."""

    change: Annotated[
        Configured,
        Meta(
            description="`kept`: it was there and right, or is somebody else's; `restored`: it was missing "
            "or broken, and is again as this node had it; `renamed`: the same, with the name that was "
            "asked for"
        ),
    ]
    path: Annotated[str, Meta(description="where it is")]
    name: Annotated[str | None, Meta(description="the network's name")]
    pools: Annotated[tuple[str, ...], Meta(description="addresses for containers")]
    mtu: Annotated[int | None, Meta(description="of every link; null: what the default route's has")]
    masquerade: Annotated[
        bool | None, Meta(description="whether what leaves the pools gets the host's address")
    ]
    cni_version: Annotated[str | None, Meta(description="of the configuration")]
    is_kept: Annotated[bool, Meta(description="whether the agent restores the file")] = False


class UpReport(Struct, frozen=True, kw_only=True):
    """What `netloom up` did."""

    plugin: Annotated[PluginPart, Meta(description="the executable that runtimes call")]
    elsewhere: Annotated[
        tuple[PluginPart, ...], Meta(description="the same, wherever else an earlier run has installed it")
    ] = ()
    failed: Annotated[
        tuple[FailedPlace, ...], Meta(description="places of earlier runs at which it could not be written")
    ] = ()
    agent: Annotated[AgentPart, Meta(description="the process that serves it")]
    network: Annotated[NetworkPart, Meta(description="the configuration that runtimes read")]
    restored: Annotated[
        tuple[NetworkPart, ...],
        Meta(description="other networks with attachments whose files were missing, and are there again"),
    ] = ()
    units: Annotated[tuple[FilePart, ...], Meta(description="of systemd, if it runs the agent")] = ()
    warnings: Annotated[tuple[str, ...], Meta(description="what works, and may not be what was meant")] = ()

    @property
    def is_as_it_was(self) -> bool:
        """Whether there was nothing to do."""
        changes: set[str] = {it.change for it in (self.plugin, *self.elsewhere)}
        changes |= {it.change for it in self.units}
        return changes | {self.agent.change, self.network.change} == {"kept"} and not self.restored


def warnings_of(options: NodeOptions, agent: AgentPart, wrote: Decision) -> list[str]:
    networks = node_networks(options.place.conf_dir)
    return [
        *_of_agent(options, agent),
        *_of_order(wrote.path),
        *_of_version(options, wrote),
        *_of_keys(wrote),
        *_of_families(wrote),
        *_of_missing_ipv6(options, wrote),
        *_of_other_defaults(options, wrote),
        *_of_name(options, wrote),
        *_of_pools(it for it in networks if it.path == wrote.path),
        *(f"{it.text}; {it.next}" for it in of_runtimes(options.place)),
    ]


def obstacles_of(options: NodeOptions) -> list[str]:
    """Why nothing can be attached now, although everything is installed: as `netloom status` has it.

    And how many links are not in the journal, with the copy that knows them, if netloom has kept one.
    """
    found = report(options.place)
    copies = [f"{it.text}; {it.next}" for it in found.findings if it.code == "journal-restorable"]
    return [*blocking_conditions(found), *(copies or _of_orphans(options))]


def _of_orphans(options: NodeOptions) -> list[str]:
    try:
        return warnings_of_links(options.place)
    except OperationFailed:  # of a journal that cannot be read, the report tells
        return []


def _of_agent(options: NodeOptions, agent: AgentPart) -> list[str]:
    warnings = []
    if agent.change == "none":
        warnings.append(
            f"no agent answers at {options.place.socket}: nothing can be attached until one runs; a service "
            "manager starts it with `netloom agent`, or `netloom up` without --no-agent does"
        )
    elif agent.version != __version__:
        instead = f"; `systemctl restart {agent.unit}` starts this one" if agent.unit else ""
        warnings.append(f"the agent has version {agent.version}, and this is {__version__}{instead}")
    if options.place.socket != default_socket():
        warnings.append(
            f"the plugin looks for the agent at {DEFAULT_SOCKET}: "
            f"give your runtime NETLOOM_SOCKET={options.place.socket}"
        )
    return warnings


def _of_order(path: str) -> list[str]:
    blocking = list(networks_health.of_first_file(os.path.dirname(path)))
    return [f"{it.text}; {it.next}" for it in blocking or networks_health.of_files_before(path)]


def _of_version(options: NodeOptions, wrote: Decision) -> list[str]:
    """Of one that was asked for: what a runtime says that does not know it names no cause."""
    version = options.network.cni_version
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


def _of_missing_ipv6(options: NodeOptions, wrote: Decision) -> list[str]:
    """Of the default network of a host that had no IPv6 when its file was written."""
    ipv4_only = DEFAULT_POOLS[:1]
    if (
        options.network.pools is not None
        or not wrote.is_ours
        or wrote.values.pools != ipv4_only
        or wrote.dropped
    ):
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


def _of_other_defaults(options: NodeOptions, wrote: Decision) -> list[str]:
    """Of a new network, if the host is connected to a network that overlaps a default pool."""
    if options.network.pools is not None or not set(wrote.new) - set(DEFAULT_POOLS):
        return []
    pools = wrote.values.pools or ()
    families = {":" in it for it in pools}
    passed = [it for it in DEFAULT_POOLS if it not in pools and (":" in it) in families]
    return [
        f"network {wrote.values.network} has {', '.join(pools)}, since a network of this host overlaps the "
        f"default {' and '.join(passed)}; `netloom up --pool CIDR` chooses another pool"
    ]


def _of_name(options: NodeOptions, wrote: Decision) -> list[str]:
    """Runtimes delete containers by the name that the network had when they were attached."""
    name = wrote.values.network
    count = networks_attached_of(options.place)[wrote.before] if wrote.before not in ("", name) else 0
    if not count:
        return []
    containers = "1 attachment has" if count == 1 else f"{count} attachments have"
    return [
        f"{containers} the network's old name, {wrote.before}, and runtimes may not find it to delete them: "
        f"delete the containers, or go back with `netloom up --network {wrote.before} --force`"
    ]


def _of_pools(written: Iterable[NodeNetwork]) -> list[str]:
    pools = [pool for it in written if it.network for pool in it.network.pools]
    return pools_health.overlap_warnings(pools, pools_health.host_networks())
