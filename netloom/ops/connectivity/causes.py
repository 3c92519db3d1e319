"""Finds why a probe failed: what on the packet's path is missing, has too small an MTU, or drops packets.

A cause is reported only if the kernel shows it now. This module does not guess.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from ...api.findings import Finding
from ...kernel import KernelError, Namespace
from ...kernel.netfilter.field import Field
from ...kernel.netfilter.packet import DNAT, ICMP, ICMPV6, LOCAL, SNAT, TCP, UNICAST, PacketLink
from ...kernel.netlink import nftables
from ...networks.table import TABLE
from ..doctor.services import legacy_findings
from ..findings.kernel import forwarding_off, mtu_mismatch, table_broken
from ..firewall.flows import (
    BETWEEN,
    CONTAINERS,
    FORWARDED,
    FROM_HOST,
    INTO_HOST,
    OF_HOST,
    OUT,
    TO_HOST,
    Family,
    Flow,
    around,
    field_of,
    flows_of,
    neighbours_of,
)
from ..firewall.openings import findings_of, judge
from .endpoints import End, RouteTaken, mtu_of, way_out, way_to
from .namespaces import run_inside
from .ping import NARROW
from .probe import ARRIVED, Probe
from .report import Failed
from .suite import CLASH, GATEWAY, LEAKS, Testbed
from .tcp import CONTAINER_PORT, MISSED

_ECHO = {4: (ICMP, 8), 6: (ICMPV6, 128)}
_BRIDGED = {
    4: "/proc/sys/net/bridge/bridge-nf-call-iptables",
    6: "/proc/sys/net/bridge/bridge-nf-call-ip6tables",
}
_PORTS = ("port", "hairpin")
_ONLY_PING = ("ping", "out", "mtu")
_ONLY_TCP = ("tcp", "bandwidth", *_PORTS)


def flows_of_probe(probe: Probe, host: End, *, is_ours: bool) -> list[Flow]:
    """Request and reply of each protocol that a probe uses; empty if no rule of the host sees them."""
    try:
        flow = _flow_of(probe, host, is_ours=is_ours)
    except KernelError:
        return []
    if flow is None:
        return []
    return [it for asked in _protocols(probe, flow) for it in (asked, asked.answered())]


def _protocols(probe: Probe, flow: Flow) -> Iterator[Flow]:
    if probe.what not in _ONLY_PING:
        ports = flow.ports
        if probe.what in _PORTS:
            ports = flow.ports[0], Field.of(CONTAINER_PORT.to_bytes(2, "big"))
        yield replace(flow, protocol=TCP, ports=ports)
    if probe.what not in _ONLY_TCP:
        protocol, icmp = _ECHO[flow.family]
        yield replace(flow, protocol=protocol, icmp=icmp)


def _flow_of(probe: Probe, host: End, *, is_ours: bool) -> Flow | None:
    sender, receiver = probe.sender, probe.receiver
    family: Family = 4 if probe.family == "ipv4" else 6
    namespace = host.namespace
    here = None if sender.is_host else _link_to(namespace, sender.addresses[probe.family])
    container = receiver if sender.is_host and receiver is not None else sender
    own = container.addresses[probe.family]
    links = CONTAINERS if is_ours else (_link_to(namespace, own) or PacketLink("", 0)).name
    by_port = (
        probe.what in _PORTS and receiver is not None and probe.address != receiver.addresses[probe.family]
    )
    if (receiver is sender and not by_port) or (here is None and not sender.is_host):
        return None
    if receiver is None:
        out = way_out(namespace, probe.family)
        there = PacketLink(out.link, namespace.route.index(out.link)) if out and out.link else None
        traffic, hooks, target = OUT, FORWARDED, probe.address
    elif receiver.is_host:
        there, traffic, hooks, target = None, INTO_HOST, TO_HOST, probe.address
    else:
        target = receiver.addresses[probe.family]
        there = _link_to(namespace, target)
        traffic, hooks = (OF_HOST, FROM_HOST) if sender.is_host else (BETWEEN, FORWARDED)
    if hooks is FORWARDED and here == there and not by_port and not _sees_bridged(family):
        return None
    source = host.addresses.get(probe.family, "") if sender.is_host else own
    return Flow(
        traffic=traffic,
        family=family,
        pool=own,
        hooks=hooks,
        source=field_of(source) if source else Field.open(4 if family == 4 else 16),
        destination=field_of(target),
        iif=here,
        oif=there,
        source_type=LOCAL if sender.is_host else UNICAST,
        destination_type=LOCAL if receiver is not None and receiver.is_host else UNICAST,
        nat=DNAT if by_port else SNAT if receiver is None else 0,
        arrives_for=field_of(probe.address) if by_port else None,
        leaves_from=Field.open(4 if family == 4 else 16) if receiver is None or by_port else None,
        through=PacketLink("lo", 1) if by_port and sender.is_host else None,
        links=links,
    )


def _link_to(host: Namespace, address: str) -> PacketLink | None:
    """The host's link that packets to and from an address use."""
    way = way_to(host, address)
    return PacketLink(way.link, host.route.index(way.link)) if way is not None and way.link else None


def _sees_bridged(family: Family) -> bool:
    """Whether packets that stay on a bridge also pass the IP hooks."""
    try:
        with open(_BRIDGED[family]) as file:
            return file.read().strip() == "1"
    except OSError:
        return False


UNKNOWN = "no-answer"

_FORWARDING = {"ipv4": "net.ipv4.ip_forward", "ipv6": "net.ipv6.conf.all.forwarding"}
_SHOWN = 3
_PUT_BACK = "a running agent restores what is missing; `netloom check --repair` does it at once"
_PLUGINS_OWN = "`netloom cni check` runs the plugins' CHECK; delete the container and attach it again"
_ANYTHING = "`netloom doctor` checks the whole node; `netloom connectivity --keep` keeps the containers"


class Cause(NamedTuple):
    code: str
    text: str
    advice: str
    subject: str = ""

    @classmethod
    def of(cls, found: Finding) -> Cause:
        return cls(found.code, found.text, found.next, found.subject)


# Text and advice for failures whose code already is the cause.
_KNOWN = {
    ARRIVED: (
        "nothing drops packets with forged source addresses: netloom's nft table is missing or incomplete",
        "`netloom doctor` checks the nft table; a running agent repairs it",
    ),
    CLASH: (
        "a container has the address of the host's gateway: host and containers cannot reach other networks",
        "`netloom status` names the container: delete it and attach it again; then exclude the host's "
        "network from the pool",
    ),
    LEAKS: (
        "the network isolates containers, but nothing drops what one sends to another",
        "`netloom doctor` checks the nft table; a running agent repairs it",
    ),
    MISSED: (
        "the queue that limits the container is missing or was replaced, or the machine is too busy",
        "try again while the machine is idle; `tc qdisc` shows the queues, `netloom check` checks them",
    ),
}


class Causes:
    """Finds causes. Asks the kernel only once for findings that many failures may share."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._of_node: dict[str, Finding] | None = None

    def of(self, probe: Probe, failed: Failed) -> Cause:
        if failed.code in _KNOWN:
            return Cause(failed.code, *_KNOWN[failed.code])
        suspects: tuple[Callable[[Probe], Iterator[Cause]], ...] = (
            self._narrow if failed.code == NARROW else self._links,
            self._routes_inside,
            self._routes_of_host,
            self._forwarding,
            self._own_table,
            self._foreign_rules,
            self._legacy_rules,
            self._masquerade,
        )
        if failed.code == NARROW:
            suspects = suspects[:1]
        for suspect in suspects:
            try:
                found = next(suspect(probe), None)
            except (KernelError, OSError):
                continue  # what cannot be read is not reported as the cause
            if found is not None:
                return found
        if failed.code == NARROW:
            return Cause(NARROW, "a later link on the path has a smaller MTU than the first", _ANYTHING)
        if failed.errno == errno.ECONNREFUSED and probe.what in ("port", "hairpin"):
            return Cause(UNKNOWN, "nothing forwards the host's port to the container", _ANYTHING)
        return Cause(UNKNOWN, "", _ANYTHING)

    # Each of the following yields the cause that it finds, or nothing.

    def _containers(self, probe: Probe) -> list[End]:
        found = [it for it in (probe.sender, probe.receiver) if it is not None and not it.is_host]
        return list({it.name: it for it in found}.values())

    def _advice(self) -> str:
        return _PUT_BACK if self._testbed.expectations.is_ours else _PLUGINS_OWN

    def _links(self, probe: Probe) -> Iterator[Cause]:
        for it in self._containers(probe):
            if mtu_of(it.namespace, it.ifname) is None:
                yield Cause("object-missing", f"{it.name} has no link {it.ifname}", self._advice())
            elif it.host_link and mtu_of(self._testbed.host.namespace, it.host_link) is None:
                yield Cause(
                    "object-missing",
                    f"the host's end of {it.name}'s link, {it.host_link}, is missing",
                    self._advice(),
                )

    def _narrow(self, probe: Probe) -> Iterator[Cause]:
        host = self._testbed.host.namespace
        for it in self._containers(probe):
            inside = mtu_of(it.namespace, it.ifname)
            outside = mtu_of(host, it.host_link) if it.host_link else None
            if inside and outside and inside != outside:
                equal = f"ip link set {it.host_link} mtu {inside}"
                if inside < outside:
                    equal = f"ip -n NAMESPACE link set {it.ifname} mtu {outside}"
                yield Cause(
                    NARROW,
                    f"the ends of {it.name}'s link differ: {it.ifname} has an MTU of {inside}, "
                    f"{it.host_link} on the host one of {outside}",
                    f"find out what changes the MTU of containers' links; `{equal}` makes them equal",
                )
        if probe.target == GATEWAY and (way := way_out(host, probe.family)):
            outside = mtu_of(host, way.link)
            if outside and outside < probe.sender.mtu:
                yield Cause.of(mtu_mismatch("", way.link, outside, f"containers have {probe.sender.mtu}"))

    def _routes_inside(self, probe: Probe) -> Iterator[Cause]:
        back = self._testbed.host.addresses if probe.sender.is_host else probe.sender.addresses
        for it in self._containers(probe):
            target = probe.address if it is probe.sender else back.get(probe.family, "")
            if target and _way_inside(it.namespace, target) is None:
                yield Cause("route-missing", f"{it.name} has no route to {target}", self._advice())

    def _routes_of_host(self, probe: Probe) -> Iterator[Cause]:
        for it in self._containers(probe):
            address = it.addresses[probe.family]
            way = way_to(self._testbed.host.namespace, address)
            strays = way is None or way.is_default
            if self._testbed.expectations.is_ours:
                strays = way is None or way.link != it.host_link
            if strays:
                where = f"packets to it leave by {way.link}" if way else "packets to it are not sent at all"
                yield Cause(
                    "route-missing",
                    f"the host has no route to {it.name} ({address}): {where}",
                    self._advice(),
                )

    def _forwarding(self, probe: Probe) -> Iterator[Cause]:
        if _kind(probe) != "forwarded":
            return
        name = _FORWARDING[probe.family]
        with open(f"/proc/sys/{name.replace('.', '/')}") as file:
            if file.read().strip() == "0":
                yield Cause.of(forwarding_off(name))

    def _own_table(self, probe: Probe) -> Iterator[Cause]:
        if not self._testbed.expectations.is_ours or probe.what not in ("port", "hairpin"):
            return
        connection = self._testbed.host.namespace.netfilter
        if nftables.read_table(connection, TABLE.family, TABLE.name) is None:
            yield Cause.of(table_broken(["it is missing, and so are the host ports"]))

    def _foreign_rules(self, probe: Probe) -> Iterator[Cause]:
        """Chains that certainly drop the packets; if there are none, those that may. Texts are `doctor`'s."""
        testbed = self._testbed
        host = testbed.host.namespace
        flows = flows_of_probe(probe, testbed.host, is_ours=testbed.expectations.is_ours)
        if probe.receiver is None:
            needed = neighbours_of(around(host, testbed.pools, has_ports=False))
            flows += [it for it in needed if f"ipv{it.family}" == probe.family]
        stopped = judge(host, flows)
        sure = [it for it in stopped if it.outcome != "may drop"]
        found = [self._known().get(it.base.subject, it.finding) for it in (sure or stopped)[:_SHOWN]]
        if found:
            yield Cause(
                found[0].code,
                "; ".join(it.text for it in found),
                "; then ".join(dict.fromkeys(it.next for it in found)),
                found[0].subject,
            )

    def _known(self) -> dict[str, Finding]:
        """The findings of `doctor` on this node, by chain."""
        if self._of_node is None:
            self._of_node = {}
            if self._testbed.expectations.is_ours:
                host = self._testbed.host.namespace
                flows = flows_of(around(host, self._testbed.pools, has_ports=False))
                self._of_node = {it.subject: it for it in findings_of(host, flows)}
        return self._of_node

    def _legacy_rules(self, probe: Probe) -> Iterator[Cause]:
        """Rules of iptables-legacy: they were judged already, and do not drop it as far as can be seen."""
        program = "iptables-legacy" if probe.family == "ipv4" else "ip6tables-legacy"
        for it in legacy_findings():
            if it.subject == program:
                yield Cause(it.code, it.text, it.next, it.subject)

    def _masquerade(self, probe: Probe) -> Iterator[Cause]:
        if probe.target == GATEWAY and not self._testbed.expectations.masquerades:
            yield Cause(
                "no-masquerade",
                "the network does not masquerade, and the gateway may have no route back to containers",
                "run `netloom up --masquerade`, set `ipMasq` in the network's file, or add a "
                "route on the gateway",
            )


def _kind(probe: Probe) -> str:
    receives = probe.receiver
    between = receives is not None and not receives.is_host and not probe.sender.is_host
    return "forwarded" if between or probe.target == GATEWAY else "to the host"


def _way_inside(namespace: Namespace, target: str) -> RouteTaken | None:
    def ask() -> RouteTaken | None:
        with Namespace.own() as here:
            return way_to(here, target)

    return run_inside(namespace, ask)
