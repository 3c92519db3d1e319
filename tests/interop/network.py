"""Networks that containers join.

A `Network` is a conflist and the directories of its plugins, whoever wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .commands import output


@dataclass(frozen=True)
class Network:
    """A network for containers, and what a test must know about it."""

    name: str
    conf_dir: Path
    plugin_dirs: tuple[Path, ...]
    # Where containers reach the host.
    gateway: str
    # An address that a container may ask for.
    spare: str
    # Addresses that the network has given away, as whoever gives them knows it.
    held: Callable[[], set[str]]
    # Links of the host that stay when the last container has gone.
    standing: frozenset[str] = frozenset()
    # What the plugins need to find in their environment.
    environment: Mapping[str, str] = field(default_factory=dict)


def reference_bridge(directory: Path, plugin_dir: Path, *chained: dict[str, Any]) -> Network:
    """The reference plugins' bridge with host-local, and the plugins that are chained to it.

    CNI 1.0.0, because the libcni of Debian's podman and containerd knows nothing newer.
    """
    ipam = {
        "type": "host-local",
        "dataDir": str(directory / "addresses"),
        "ranges": [[{"subnet": "10.91.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "br0", "isGateway": True, "ipam": ipam}
    conflist = {"cniVersion": "1.0.0", "name": "net", "plugins": [bridge, *chained]}
    conf_dir = directory / "net.d"
    conf_dir.mkdir(parents=True)
    (conf_dir / "10-net.conflist").write_text(json.dumps(conflist))

    def held() -> set[str]:
        return {path.name for path in (directory / "addresses" / "net").glob("*.*.*.*")}

    return Network(
        name="net",
        conf_dir=conf_dir,
        plugin_dirs=(plugin_dir,),
        gateway="10.91.0.1",
        spare="10.91.0.77",
        held=held,
        standing=frozenset({"br0"}),
    )


def host_links() -> set[str]:
    return {link["ifname"] for link in json.loads(output(["ip", "-json", "link"]))}
