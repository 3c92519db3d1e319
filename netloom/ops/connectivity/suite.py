"""The suite: all probes, in the order in which they run. Each does what users of a network do."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ...networks.names import PREFIX
from .endpoints import End, WayOut, way_out, way_to
from .expectations import Expectations, RateLimits
from .ping import ping, reaches
from .probe import Probe, both_of, mtu_of_path, ping_of, port_of, probe_spoofing, skipped, tcp_of
from .report import FAMILIES, Failed, Family, Skipped
from .tcp import RateLimit, measure_bandwidth

PROBES = ("ping", "tcp", "mtu", "host", "isolation", "out", "hairpin", "port", "spoofing", "bandwidth")
GATEWAY = "gateway"
LEAKS = "isolation-leaks"
CLASH = "address-clash"
_LOOPBACK: dict[Family, str] = {"ipv4": "127.0.0.1", "ipv6": "::1"}
# How long to wait for a packet that must not arrive: less than for one that must.
_NEVER = 0.7


class Testbed(Struct, frozen=True, kw_only=True, eq=False):
    """The ends of all probes. The host's `port` is forwarded to `a`; without one, `no_port` says why."""

    a: End
    b: End
    host: End
    expectations: Expectations
    limits: RateLimits
    port: int = 0
    no_port: str = ""
    deadline: float = 0.0
    # Pools of the node's networks, and whether the network isolates containers.
    pools: tuple[tuple[str, bool], ...] = ()


def probes(it: Testbed) -> Iterator[Probe]:
    families = [family for family in FAMILIES if family in it.a.addresses and family in it.b.addresses]
    for family in FAMILIES:
        if family not in families:
            yield skipped("ping", family, it.a, "b", f"the network gives no {family} addresses")
    for part in (_between, _host, _apart, _out, _hairpin, _port, _spoofing):
        for family in families:
            yield from part(it, family)
    if families:
        yield from _bandwidth(it, families[0])


def _between(it: Testbed, family: Family) -> Iterator[Probe]:
    if it.expectations.keeps_apart:
        return
    for sender, receiver in ((it.a, it.b), (it.b, it.a)):
        yield ping_of(family, sender, receiver)
    for sender, receiver in ((it.a, it.b), (it.b, it.a)):
        yield tcp_of(family, sender, receiver)
    for sender, receiver in ((it.a, it.b), (it.b, it.a)):
        yield mtu_of_path(family, sender, receiver.name, receiver.addresses[family], receiver)


def _host(it: Testbed, family: Family) -> Iterator[Probe]:
    if family not in it.host.addresses:
        yield skipped("host", family, it.a, it.host.name, f"the host has no {family} address")
        return
    if not it.expectations.is_ours and not _is_routed_to(it, it.a.addresses[family]):
        yield skipped("host", family, it.a, it.host.name, "the network gives the host no route to containers")
        return
    yield both_of(family, it.a, it.host)
    if family in it.host.borrowed:
        yield skipped("host", family, it.host, it.a.name, f"the host has no {family} address of its own")
    else:
        yield both_of(family, it.host, it.a)


def _is_routed_to(it: Testbed, address: str) -> bool:
    way = way_to(it.host.namespace, address)
    return way is not None and not way.is_default


def _apart(it: Testbed, family: Family) -> Iterator[Probe]:
    if not it.expectations.keeps_apart:
        return
    for sender, receiver in ((it.a, it.b), (it.b, it.a)):
        address = receiver.addresses[family]

        def attempt(patience: float, sender: End = sender, address: str = address) -> tuple[float, str]:
            never = min(patience, _NEVER)
            if reaches(sender.namespace, family, address, never):
                raise Failed("the other container answers", code=LEAKS)
            return never * 1000, "isolated, as configured"

        yield Probe(
            what="isolation",
            family=family,
            sender=sender,
            target=receiver.name,
            attempt=attempt,
            address=address,
            receiver=receiver,
            needs=("host", family, it.a.name, it.host.name) if family in it.host.addresses else None,
        )
    if family in it.host.addresses:
        yield mtu_of_path(family, it.a, it.host.name, it.host.addresses[family], it.host, after="host")


def _out(it: Testbed, family: Family) -> Iterator[Probe]:
    way = way_out(it.host.namespace, family)
    why = _no_way_out(it, family, way)
    if way is None or why:
        yield skipped("out", family, it.a, GATEWAY, why)
        return

    def attempt(patience: float) -> tuple[float, str]:
        _require_that_no_container_answers(it, way)
        try:
            return ping(it.a.namespace, family, way.gateway, patience), way.gateway
        except Failed:
            if not reaches(it.host.namespace, family, way.gateway, patience):
                raise Skipped(f"{way.gateway} does not answer the host itself either") from None
            raise

    out = Probe(what="out", family=family, sender=it.a, target=GATEWAY, attempt=attempt, address=way.gateway)
    yield out
    yield mtu_of_path(family, it.a, GATEWAY, way.gateway, after="out")


def _require_that_no_container_answers(it: Testbed, way: WayOut) -> None:
    """A container with the gateway's address would answer in its place and cut the host off."""
    for end in (it.a, it.b):
        if way.gateway in end.addresses.values():
            raise Failed(f"{end.name} has the address of the gateway, {way.gateway}", code=CLASH)
    taken = way_to(it.host.namespace, way.gateway)
    if taken is not None and taken.link != way.link and taken.link.startswith(PREFIX):
        raise Failed(
            f"packets to {way.gateway} leave by a container's link, {taken.link}, not by {way.link}",
            code=CLASH,
        )


def _no_way_out(it: Testbed, family: Family, way: WayOut | None) -> str:
    if way is None:
        return f"the host has no default route for {family}"
    if not way.gateway:
        return f"the host's default route by {way.link} has no gateway"
    if way.gateway.lower().startswith("fe80:"):
        return f"the host's gateway has only a link-local address, {way.gateway}"
    if family not in it.a.gateways:
        return f"the network gives containers no default route for {family}"
    return ""


def _hairpin(it: Testbed, family: Family) -> Iterator[Probe]:
    yield tcp_of(family, it.a, it.a, what="hairpin", doubt=False)
    if not it.port:
        yield skipped("hairpin", family, it.a, "a by the host", it.no_port)
    elif family in it.host.addresses:
        yield port_of("hairpin", family, it.a, it.a, it.host.addresses[family], it.port)


def _port(it: Testbed, family: Family) -> Iterator[Probe]:
    if not it.port:
        yield skipped("port", family, it.host, "a by the host", it.no_port)
        return
    if family == "ipv4" or it.expectations.is_ours:
        yield port_of("port", family, it.host, it.a, _LOOPBACK[family], it.port)
    if family in it.host.addresses:
        for sender in (it.host, it.b):
            yield port_of("port", family, sender, it.a, it.host.addresses[family], it.port)


def _spoofing(it: Testbed, family: Family) -> Iterator[Probe]:
    receiver = it.host if it.expectations.keeps_apart else it.b
    why = ""
    if not it.expectations.is_ours:
        why = "only netloom networks prevent spoofing"
    elif not it.a.host_mac:
        why = "the ADD result does not name the host's end of the link"
    elif family not in receiver.addresses:
        why = f"the host has no {family} address"
    if why:
        yield skipped("spoofing", family, it.a, receiver.name, why)
        return
    yield Probe(
        what="spoofing",
        family=family,
        sender=it.a,
        target=receiver.name,
        attempt=lambda patience: probe_spoofing(it.a, receiver, family, patience),
        address=receiver.addresses[family],
        receiver=receiver,
    )


def _bandwidth(it: Testbed, family: Family) -> Iterator[Probe]:
    other, theirs = (it.host, RateLimits()) if it.expectations.keeps_apart else (it.b, it.expectations.limits)
    ways = (
        (other, it.a, _tighter(it.limits.ingress, theirs.egress)),
        (it.a, other, _tighter(it.limits.egress, theirs.ingress)),
    )
    for sender, receiver, limit in ways:
        if limit is None:
            continue
        if family not in other.addresses or family in other.borrowed:
            yield skipped("bandwidth", family, sender, receiver.name, f"the host has no {family} address")
            continue

        def attempt(
            patience: float, sender: End = sender, receiver: End = receiver, limit: RateLimit = limit
        ) -> tuple[float, str]:
            return measure_bandwidth(sender, receiver, family, limit, patience, it.deadline)

        yield Probe(
            what="bandwidth",
            family=family,
            sender=sender,
            target=receiver.name,
            attempt=attempt,
            address=receiver.addresses[family],
            receiver=receiver,
            needs=None if other.is_host else ("tcp", family, sender.name, receiver.name),
        )


def _tighter(one: RateLimit | None, other: RateLimit | None) -> RateLimit | None:
    return min(filter(None, (one, other)), key=lambda limit: limit.rate, default=None)
