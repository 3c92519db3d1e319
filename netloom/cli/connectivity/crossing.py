"""What a trial's packets look like where the host's rules see them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ...kernel import KernelError, Namespace
from ...kernel.netfilter.field import Field
from ...kernel.netfilter.packet import DNAT, ICMP, ICMPV6, LOCAL, SNAT, TCP, UNICAST, Link
from ...ops.firewall.flows import (
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
    field_of,
)
from .ends import End
from .host import way_out, way_to
from .host_port import CONTAINER_PORT
from .trial import Trial

_ECHO = {4: (ICMP, 8), 6: (ICMPV6, 128)}
_BRIDGED = {
    4: "/proc/sys/net/bridge/bridge-nf-call-iptables",
    6: "/proc/sys/net/bridge/bridge-nf-call-ip6tables",
}
_PORTS = ("port", "hairpin")
_ONLY_PING = ("ping", "out", "mtu")
_ONLY_TCP = ("tcp", "bandwidth", *_PORTS)


def flows_of_trial(trial: Trial, host: End, *, is_ours: bool) -> list[Flow]:
    """The question and its answer, of each protocol that is tried; empty if no rule of the host sees it."""
    try:
        flow = _flow(trial, host, is_ours=is_ours)
    except KernelError:
        return []
    if flow is None:
        return []
    return [it for asked in _protocols(trial, flow) for it in (asked, asked.answered())]


def _protocols(trial: Trial, flow: Flow) -> Iterator[Flow]:
    if trial.what not in _ONLY_PING:
        ports = flow.ports
        if trial.what in _PORTS:
            ports = flow.ports[0], Field.of(CONTAINER_PORT.to_bytes(2, "big"))
        yield replace(flow, protocol=TCP, ports=ports)
    if trial.what not in _ONLY_TCP:
        protocol, icmp = _ECHO[flow.family]
        yield replace(flow, protocol=protocol, icmp=icmp)


def _flow(trial: Trial, host: End, *, is_ours: bool) -> Flow | None:
    sender, receiver = trial.sender, trial.receiver
    family: Family = 4 if trial.family == "ipv4" else 6
    namespace = host.namespace
    here = None if sender.is_host else _link(namespace, sender.addresses[trial.family])
    container = receiver if sender.is_host and receiver is not None else sender
    own = container.addresses[trial.family]
    links = CONTAINERS if is_ours else (_link(namespace, own) or Link("", 0)).name
    by_port = (
        trial.what in _PORTS and receiver is not None and trial.address != receiver.addresses[trial.family]
    )
    if (receiver is sender and not by_port) or (here is None and not sender.is_host):
        return None
    if receiver is None:
        out = way_out(namespace, trial.family)
        there = Link(out.link, namespace.route.index(out.link)) if out and out.link else None
        traffic, hooks, target = OUT, FORWARDED, trial.address
    elif receiver.is_host:
        there, traffic, hooks, target = None, INTO_HOST, TO_HOST, trial.address
    else:
        target = receiver.addresses[trial.family]
        there = _link(namespace, target)
        traffic, hooks = (OF_HOST, FROM_HOST) if sender.is_host else (BETWEEN, FORWARDED)
    if hooks is FORWARDED and here == there and not by_port and not _sees_bridged(family):
        return None
    source = host.addresses.get(trial.family, "") if sender.is_host else own
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
        arrives_for=field_of(trial.address) if by_port else None,
        leaves_from=Field.open(4 if family == 4 else 16) if receiver is None or by_port else None,
        through=Link("lo", 1) if by_port and sender.is_host else None,
        links=links,
    )


def _link(host: Namespace, address: str) -> Link | None:
    """The one by which packets to an address leave, and its own packets come."""
    way = way_to(host, address)
    return Link(way.link, host.route.index(way.link)) if way is not None and way.link else None


def _sees_bridged(family: Family) -> bool:
    """Whether packets that stay on a bridge pass the hooks of IP as well."""
    try:
        with open(_BRIDGED[family]) as file:
            return file.read().strip() == "1"
    except OSError:
        return False
