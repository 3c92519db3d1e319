"""What `netloom up` did, as values; and how people read it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..ops.node.install import Put
from .output import printable_line, say
from .up_agent import AgentPart
from .up_plugins import FailedPlace
from .views import table

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


class Up(Struct, frozen=True, kw_only=True):
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


def show(done: Up) -> None:
    agent, network = done.agent, done.network
    who = f"process {agent.process} at {agent.socket}" if agent.process else agent.socket
    who += f", log in {agent.log}" if agent.log else ""
    who += f", run by {agent.unit}" if agent.unit else ""
    who += f"; calls waited {agent.waited_ms:.0f} ms at most" if agent.waited_ms is not None else ""
    rows = [
        *(("plugin", it.change, it.path) for it in (done.plugin, *done.elsewhere)),
        *(("unit", unit.change, unit.path) for unit in done.units),
        ("agent", agent.change, who),
        *(("network", it.change, _shown(it)) for it in (network, *done.restored)),
    ]
    say(*table([tuple(map(printable_line, row)) for row in rows]))


def _shown(network: NetworkPart) -> str:
    kept = ", kept by the agent" if network.is_kept else ""
    return f"{network.name} ({', '.join(network.pools)}) in {network.path}{kept}"
