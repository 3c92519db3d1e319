"""A host with netloom on it, as its users see it: networks in a directory, an agent, a way out.

Beyond the uplink is a namespace that stands for the rest of the world and knows the way back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..fixtures.node import PLUGIN, POOLS, Node
from ..lanes import PEERS
from .commands import eventually, output

PLUGIN_DIRS = (PLUGIN.parent, PEERS / "plugins")
ADDRESSES = ("192.0.2.1", "2001:db8::1")
OUTSIDE = ("192.0.2.2", "2001:db8::2")
# Every address by which a host calls itself.
OWN = ("127.0.0.1", "::1", *ADDRESSES)
# What a network may be asked for, if it also maps ports and limits rates.
EVERYTHING = dict.fromkeys(("ips", "mac", "dns", "portMappings", "bandwidth"), True)
_LIMITING = ("tbf", "ingress", "clsact")


class Host(Node):
    def __init__(self, directory: Path, outside: str) -> None:
        super().__init__(directory)
        self.outside = outside
        self.confs = directory / "net.d"
        self.confs.mkdir()
        self._connect(Path(outside).name)

    @property
    def plugin_environment(self) -> dict[str, str]:
        return {"NETLOOM_SOCKET": str(self.socket)}

    def network(self, *plugins: dict[str, Any], name: str = "net", version: str = "1.1.0") -> str:
        """Writes a network down, in the place of one that had its name."""
        document = {"cniVersion": version, "name": name, "plugins": plugins}
        (self.confs / f"10-{name}.conflist").write_text(json.dumps(document))
        return name

    def await_dels(self) -> None:
        """A DEL that took too long on a busy machine has succeeded all the same: it is queued."""
        assert eventually(lambda: self.intents() == [], within=30), self.intents()

    def leftovers(self) -> list[str]:
        """What attachments have on a host, each in a few words: links, queues, elements of the nft table."""
        self.await_dels()
        links = json.loads(self.inside("ip", "-json", "-details", "link"))
        made = [it["ifname"] for it in links if it.get("linkinfo", {}).get("info_kind") == "ifb"]
        queues = json.loads(self.inside("tc", "-json", "qdisc"))
        limits = [f"{it['kind']} on {it['dev']}" for it in queues if it["kind"] in _LIMITING]
        return [*self.links(), *made, *limits, *self.elements()]

    def elements(self) -> list[str]:
        """Of all sets and maps of our table."""
        table = json.loads(self.inside("nft", "--json", "list", "table", "inet", "netloom"))
        sets = [it[kind] for it in table["nftables"] for kind in ("set", "map") if kind in it]
        return [f"{it['name']}: {json.dumps(element)}" for it in sets for element in it.get("elem", [])]

    def _connect(self, outside: str) -> None:
        self.inside("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "far", "netns", outside)
        ends = (
            (self.command(), "uplink", ADDRESSES, OUTSIDE),
            (["ip", "netns", "exec", outside], "far", OUTSIDE, ADDRESSES),
        )
        for within, device, own, others in ends:
            # The kernel's own link-local address could not be used in the first two seconds.
            output([*within, "sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0"])
            ip = [*within, "ip"]
            output([*ip, "link", "set", device, "up"])
            output([*ip, "addr", "add", f"{own[0]}/24", "dev", device])
            output([*ip, "addr", "add", f"{own[1]}/64", "dev", device, "nodad"])
            for other in others:
                output([*ip, "route", "add", "default", "via", other])


def loom(**keys: Any) -> dict[str, Any]:
    """Our plugin in a list; ports and rates are left to others there, unless `capabilities` says so."""
    capabilities = {"ips": True, "mac": True, "dns": True}
    return {"type": "netloom", "pools": POOLS, "capabilities": capabilities, **keys}
