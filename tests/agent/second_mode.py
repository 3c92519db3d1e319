"""A mode that netloom does not have: a link whose far end is an address of the host, IPv4 only.

It differs from the mode that netloom has in everything that a verb could have taken for granted: its scope is
the network, its next hop another one, and it has a rule on the host that no other mode would remove.

Run as a program, it registers the mode and becomes the command that it is given: `python -m
tests.agent.second_mode netloom agent`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from netloom.cni import IP, Interface, InvalidConfig, Result
from netloom.cni import Route as ResultRoute
from netloom.kernel import Address, AnyObject, Neighbour, Plan, Route, Rule, Up, Veth
from netloom.kernel.values import packed_network
from netloom.networks import table
from netloom.networks.host import Host
from netloom.networks.modes import register, unregister
from netloom.networks.modes.base import Assigned, Attached, Lost, Mode, NodeObject
from netloom.networks.names import HOST_MAC

NAME = "far-end"
FAR_END = "169.254.77.1"
PRIORITY = 7700

# What starts an agent or a command that knows the mode.
WITH_MODE = (sys.executable, "-m", "tests.agent.second_mode")


class FarEnd(Mode):
    name = NAME
    next_hops = (FAR_END,)

    def scope(self, network: str) -> str:
        return f"far-end of {network}"

    def validate(self, config: Mapping[str, Any]) -> None:
        if any(":" in pool["cidr"] for pool in config.get("pools", ())):
            raise InvalidConfig(f"pools: mode {NAME} has IPv4 addresses only")

    def plan(self, it: Attached) -> Plan:
        objects: list[AnyObject] = [
            *(_source(it.host_link, address) for address in it.addresses),
            Veth(it.host_link, it.ifname, mac=HOST_MAC, peer_mac=it.mac, mtu=it.mtu, peer_on="attachment"),
            Up("lo", stay=True, on="attachment"),
            Up(it.host_link, link_local=False),
            Up(it.ifname, on="attachment"),
            *(Address(it.ifname, address.cidr, on="attachment") for address in it.addresses),
            Route("0.0.0.0/0", link=it.ifname, via=FAR_END, onlink=True, on="attachment"),
        ]
        for address in it.addresses:
            objects.append(Neighbour(it.host_link, address.ip, it.mac))
            objects.append(Route(address.cidr, link=it.host_link))
            objects.append(_rule(address))
        return Plan(tuple(objects))

    def result(self, it: Attached, netns: str, before: Result | None = None) -> Result:
        del before
        return Result(
            interfaces=(
                Interface(it.host_link, mac=HOST_MAC, mtu=it.mtu),
                Interface(it.ifname, mac=it.mac, mtu=it.mtu, sandbox=netns),
            ),
            ips=tuple(IP(address.cidr, gateway=FAR_END, interface=1) for address in it.addresses),
            routes=(ResultRoute("0.0.0.0/0", gw=FAR_END),),
        )

    def remnants(self, it: Lost) -> Plan:
        addresses = [Assigned.of(ip) for ip in it.ips]
        return Plan(
            (
                *(_source(it.host_link, address) for address in addresses),
                Veth(it.host_link, it.ifname, mac=HOST_MAC, peer_on="attachment"),
                *map(_rule, addresses),
            )
        )

    def adopt_mac(self, plan: Plan, mac: str) -> Plan:
        def changed(it: AnyObject) -> AnyObject:
            if isinstance(it, Veth):
                return replace(it, peer_mac=mac)
            return replace(it, mac=mac) if isinstance(it, Neighbour) else it

        return Plan(tuple(map(changed, plan.objects)))

    def addresses(self, plan: Plan) -> Sequence[bytes]:
        return [packed_network(it.source)[0] for it in plan.objects if isinstance(it, Rule) and it.source]

    def node_objects(self, host: Host) -> Sequence[NodeObject]:
        del host
        return [NodeObject(4, Route(f"{FAR_END}/32", link="lo", table=255, kind="local"))]


def _source(host_link: str, address: Assigned) -> AnyObject:
    return table.element(table.SOURCES[0], host_link, address.ip)


def _rule(address: Assigned) -> Rule:
    return Rule(priority=PRIORITY, family="ipv4", table=254, source=address.cidr)


@contextmanager
def registered() -> Iterator[Mode]:
    """The mode is known in this process meanwhile."""
    mode = FarEnd()
    register(mode)
    try:
        yield mode
    finally:
        unregister(NAME)


def main() -> int:
    from netloom.cli.main import main as command

    sys.argv = sys.argv[1:]
    with registered():
        return command()


if __name__ == "__main__":
    sys.exit(main())
