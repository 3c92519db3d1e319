"""What a container gets beyond a network: a host port, masquerading, limits of its bandwidth.

With netloom, the agent does all of it as part of one attachment. The reference is a chain of plugins: bridge
with ipMasq, portmap, bandwidth. It has two backends for its rules; the faster one counts, row by row.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from typing import Any

from .containers import Supply, containers, settle
from .crowd import Crowd, rested_add
from .hosts import PLUGIN, REFERENCE, Host, OurHost, ReferenceHost
from .measure import Bar, Comparison, Item, Quantity, Rivals, Unmeasurable
from .place import Place
from .proof import prove
from .traffic import Pair

_BACKENDS = ("iptables", "nftables")
_BURST, _AT_ONCE = 64, 8
_FEW, _MANY = 10, 1_000
_CAPABILITIES = {"portMappings": True, "bandwidth": True}
_OUR_KEYS = {"ipMasq": True, "capabilities": _CAPABILITIES}
# Bits per second, and bits.
_LIMITS = {
    "ingressRate": 100_000_000,
    "ingressBurst": 1_600_000,
    "egressRate": 100_000_000,
    "egressBurst": 1_600_000,
}
_VERBS = ("ADD", "DEL")

_OURS = "ours: the static plugin and the agent, both families, a host port, masquerading, both limits"
_PEER = "peer: bridge with ipMasq, portmap and bandwidth 1.9.1, one after the other, the same"
_NAMES = ("add", "del", "add_8", "del_8", "add_at_1000", "throughput", "latency")


def comparisons(place: Place) -> Generator[Item, None, None]:
    obstacle = place.obstacle or _missing()
    if obstacle:
        for name in _NAMES:
            yield Unmeasurable(f"services.{name}", f"{_OURS}; {_PEER}", reason=obstacle)
        return
    ports = _Ports()
    _require_work(ports)
    with ExitStack() as stack:
        ours = stack.enter_context(closing(OurHost("serving", ports.and_limits, _OUR_KEYS)))
        ours.start()
        peers: dict[str, Host] = {
            backend: stack.enter_context(closing(_reference(f"reference-{backend}", backend, ports)))
            for backend in _BACKENDS
        }
        yield _one_at_a_time(ours, peers, stack)
        yield _bursts(ours, peers)
    yield from _growth(ports)


def _missing() -> str:
    for needed in (PLUGIN, REFERENCE, REFERENCE.with_name("portmap"), REFERENCE.with_name("bandwidth")):
        if not needed.exists():
            return f"{needed} is missing: `make setup` builds it"
    for tool in ("iptables", "ip6tables", "nft"):
        if not shutil.which(tool):
            return f"{tool} is missing: `make setup` installs it"
    return ""


class _Ports:
    """The capability arguments: a host port of its own for every interface of every container."""

    def __init__(self) -> None:
        self._numbers = count(10_000)
        self._given: dict[tuple[str, str], int] = {}

    def alone(self, container: str, ifname: str) -> Mapping[str, Any]:
        interface = (container, ifname)
        if interface not in self._given:
            self._given[interface] = next(self._numbers)
        mapping = {"hostPort": self._given[interface], "containerPort": 80, "protocol": "tcp"}
        return {"portMappings": [mapping]}

    def and_limits(self, container: str, ifname: str) -> Mapping[str, Any]:
        return {**self.alone(container, ifname), "bandwidth": _LIMITS}


def _reference(name: str, backend: str, ports: _Ports) -> Host:
    """The reference's usual configuration. Masquerading and host ports use the same backend."""
    return ReferenceHost(
        name,
        {"type": "portmap", "backend": backend, "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
        arguments=ports.and_limits,
        keys={"ipMasq": True, "ipMasqBackend": backend},
    )


def _require_work(ports: _Ports) -> None:
    """Checks that all sides do the work, each on a host that is used for nothing else."""
    with closing(OurHost("proof", ports.and_limits, _OUR_KEYS)) as ours:
        ours.start()
        prove(ours)
    for backend in _BACKENDS:
        with closing(_reference(f"proof-{backend}", backend, ports)) as reference:
            prove(reference)


def _one_at_a_time(ours: Host, peers: Mapping[str, Host], stack: ExitStack) -> Rivals:
    supply = stack.enter_context(closing(Supply()))

    def life(host: Host) -> tuple[float, ...]:
        container = supply.take()
        return tuple(host.run(verb, container) for verb in _VERBS)

    return Rivals(
        quantities=(
            Quantity("services.add", f"{_OURS}: one ADD at a time; {_PEER}", bar=Bar("ours / peer", 0.05)),
            Quantity("services.del", f"{_OURS}: one DEL at a time; {_PEER}", bar=Bar("ours / peer", 0.04)),
        ),
        ours=partial(life, ours),
        peers={backend: partial(life, host) for backend, host in peers.items()},
        rounds=30,
        warmup=2,
        at_a_turn=5,
    )


def _bursts(ours: Host, peers: Mapping[str, Host]) -> Rivals:
    def burst(host: Host) -> tuple[float, ...]:
        with containers(_BURST) as names:
            settle(0.1)
            took = tuple(host.run_all(verb, names, _AT_ONCE) for verb in _VERBS)
        settle(0.3)
        return took

    def quantity(verb: str) -> Quantity:
        return Quantity(
            f"services.{verb.lower()}_{_AT_ONCE}",
            f"{_OURS}: {_BURST} {verb}s, {_AT_ONCE} at a time, from the first spawn to the last end; {_PEER}",
            bar=Bar("ours / peer", 0.05),
        )

    return Rivals(
        quantities=(quantity("ADD"), quantity("DEL")),
        ours=partial(burst, ours),
        peers={backend: partial(burst, host) for backend, host in peers.items()},
        rounds=3,
        warmup=0,
    )


def _growth(ports: _Ports) -> Generator[Item, None, None]:
    """The cost of many attachments with a host port: the next ADD, and the traffic of others."""
    with ExitStack() as stack:
        bare, few, many = (
            stack.enter_context(closing(OurHost(name, ports.alone, _OUR_KEYS)))
            for name in ("bare", "few", "many")
        )
        for host in (bare, few, many):
            host.start()
        stack.enter_context(closing(Crowd(few))).grow(_FEW)
        reason = stack.enter_context(closing(Crowd(many))).grow(_MANY)
        if reason:
            for name in _NAMES[-3:]:
                yield Unmeasurable(f"services.{name}", _OURS, reason=reason)
            return
        yield _add_at(few, many, stack)
        yield from _traffic(bare, many)


def _add_at(few: OurHost, many: OurHost, stack: ExitStack) -> Comparison:
    supply = stack.enter_context(closing(Supply()))
    return Comparison(
        f"services.add_at_{_MANY}",
        f"ours: one ADD with a host port and masquerading after a rest, beside {_MANY} of them; "
        f"peer: the same beside {_FEW}",
        bar=Bar("ours / peer", 1.3),
        ours=lambda: rested_add(many, supply),
        peer=lambda: rested_add(few, supply),
        rounds=100,
    )


def _traffic(bare: OurHost, many: OurHost) -> Generator[Item, None, None]:
    beside = (
        f"between two containers of a node with {_MANY} other attachments, each with a host port and "
        "masqueraded; peer: the same without the others"
    )
    with closing(Pair(bare)) as alone, closing(Pair(many)) as among:
        yield Comparison(
            "services.throughput",
            f"one TCP connection {beside}",
            unit="Gbit/s",
            bar=Bar("ours / peer", 0.95, ">="),
            ours=among.gigabits_per_second,
            peer=alone.gigabits_per_second,
            rounds=200,
        )
        yield Comparison(
            "services.latency",
            f"round trips of a few bytes by TCP, one after the other, {beside}",
            unit="1/s",
            bar=Bar("ours / peer", 0.95, ">="),
            ours=among.round_trips_per_second,
            peer=alone.round_trips_per_second,
            rounds=200,
        )
