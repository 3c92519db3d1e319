"""The report of `netloom up`, with warnings about the host."""

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
from ..findings import networks as network_findings
from ..findings import pools as pool_findings
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
    """What was done to a file."""

    change: Annotated[Put, Meta(description="`kept`: it was correct already")]
    path: Annotated[str, Meta(description="where it is")]


class PluginPart(Struct, frozen=True):
    """What was done to the plugin at one path."""

    change: Annotated[
        Put | Literal["failed"],
        Meta(description="`kept`: it was correct already; `failed`: it is unchanged, and `failed` says why"),
    ]
    path: Annotated[str, Meta(description="where it is")]


class NetworkPart(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"masquerade": "ipMasq", "cni_version": "cniVersion", "is_kept": "keep"},
):
    """What was done to the network's file, and its content."""

    change: Annotated[
        Configured,
        Meta(
            description="`kept`: it was correct already, or is not netloom's; `restored`: it was missing or "
            "broken, and was written again from this node's copy; `renamed`: the same, with the new name "
            "that was given"
        ),
    ]
    path: Annotated[str, Meta(description="where it is")]
    name: Annotated[str | None, Meta(description="the network's name")]
    pools: Annotated[tuple[str, ...], Meta(description="addresses for containers")]
    mtu: Annotated[int | None, Meta(description="MTU of every link; null: that of the default route's link")]
    masquerade: Annotated[
        bool | None, Meta(description="whether traffic that leaves the pools is masqueraded")
    ]
    cni_version: Annotated[str | None, Meta(description="CNI version of the configuration")]
    is_kept: Annotated[bool, Meta(description="whether the agent restores the file")] = False


class UpReport(Struct, frozen=True, kw_only=True):
    """What `netloom up` did."""

    plugin: Annotated[PluginPart, Meta(description="the executable that runtimes call")]
    elsewhere: Annotated[
        tuple[PluginPart, ...], Meta(description="the same, at other paths where earlier runs installed it")
    ] = ()
    failed: Annotated[
        tuple[FailedPlace, ...], Meta(description="paths of earlier runs at which it could not be written")
    ] = ()
    agent: Annotated[AgentPart, Meta(description="the process that serves it")]
    network: Annotated[NetworkPart, Meta(description="the configuration that runtimes read")]
    restored: Annotated[
        tuple[NetworkPart, ...],
        Meta(description="other networks with attachments whose files were missing, and were written again"),
    ] = ()
    units: Annotated[tuple[FilePart, ...], Meta(description="systemd's units, if it runs the agent")] = ()
    warnings: Annotated[tuple[str, ...], Meta(description="what works, but may not be intended")] = ()

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
    """Why nothing can be attached although everything is installed, as `netloom status` reports it.

    Also warns of links that are not in the journal, with a copy that has them, if netloom kept one.
    """
    found = report(options.place)
    copies = [f"{it.text}; {it.next}" for it in found.findings if it.code == "journal-restorable"]
    return [*blocking_conditions(found), *(copies or _of_orphans(options))]


def _of_orphans(options: NodeOptions) -> list[str]:
    try:
        return warnings_of_links(options.place)
    except OperationFailed:  # the report has the error of an unreadable journal
        return []


def _of_agent(options: NodeOptions, agent: AgentPart) -> list[str]:
    warnings = []
    if agent.change == "none":
        warnings.append(
            f"no agent answers at {options.place.socket}: nothing can be attached until one runs; start it "
            "with `netloom agent` from a service manager, or with `netloom up` without --no-agent"
        )
    elif agent.version != __version__:
        instead = f"; `systemctl restart {agent.unit}` starts this one" if agent.unit else ""
        warnings.append(f"the agent has version {agent.version}, and this is {__version__}{instead}")
    if options.place.socket != default_socket():
        warnings.append(
            f"the plugin looks for the agent at {DEFAULT_SOCKET}: "
            f"set NETLOOM_SOCKET={options.place.socket} for your runtime"
        )
    return warnings


def _of_order(path: str) -> list[str]:
    blocking = list(network_findings.of_first_file(os.path.dirname(path)))
    return [f"{it.text}; {it.next}" for it in blocking or network_findings.of_files_before(path)]


def _of_version(options: NodeOptions, wrote: Decision) -> list[str]:
    """Warns of a new version that was asked for: errors of runtimes that do not know it name no cause."""
    version = options.network.cni_version
    if version is None or parse(version) <= parse(DEFAULT_VERSION) or version != wrote.values.cni_version:
        return []
    return [
        f"cniVersion {version} is too new for podman 4 and for containerd before 2.0, which know "
        f"{DEFAULT_VERSION} at most; `netloom up --cni-version {DEFAULT_VERSION}` reverts it"
    ]


def _of_keys(wrote: Decision) -> list[str]:
    if not wrote.lost:
        return []
    return [f"the replaced file had what `netloom up` does not write: {', '.join(wrote.lost)}"]


def _of_families(wrote: Decision) -> list[str]:
    if not wrote.dropped:
        return []
    family = "IPv6" if ":" in wrote.dropped[0] else "IPv4"
    options = " ".join(f"--pool {pool}" for pool in (*(wrote.values.pools or ()), *wrote.dropped))
    return [
        f"the network no longer gives {family} addresses, as it did from {', '.join(wrote.dropped)}: --pool "
        f"replaces all previous pools; `netloom up {options}` keeps both families"
    ]


def _of_missing_ipv6(options: NodeOptions, wrote: Decision) -> list[str]:
    """Warns of a default network whose file was written when the host had no IPv6."""
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
            f"network {wrote.values.network} has no IPv6 pool, but this host has IPv6: {both} adds one; "
            f"`netloom up --pool {ipv4_only[0]}` confirms that you want only IPv4"
        ]
    return [
        f"network {wrote.values.network} has only the IPv4 pool {ipv4_only[0]}: {lacking.text}; once the "
        f"host has IPv6, {both} adds the IPv6 pool"
    ]


def _of_other_defaults(options: NodeOptions, wrote: Decision) -> list[str]:
    """Warns if a new network has other pools, since the host's networks overlap a default pool."""
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
    """Warns of a new name: runtimes delete containers by the name that the network had at their ADD."""
    name = wrote.values.network
    count = networks_attached_of(options.place)[wrote.before] if wrote.before not in ("", name) else 0
    if not count:
        return []
    containers = "1 attachment has" if count == 1 else f"{count} attachments have"
    return [
        f"{containers} the network's old name, {wrote.before}, and runtimes may be unable to delete them: "
        f"delete the containers, or revert with `netloom up --network {wrote.before} --force`"
    ]


def _of_pools(written: Iterable[NodeNetwork]) -> list[str]:
    pools = [pool for it in written if it.network for pool in it.network.pools]
    return pool_findings.overlap_warnings(pools, pool_findings.host_networks())
