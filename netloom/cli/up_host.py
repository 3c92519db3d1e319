"""What `netloom up` asks the host before it writes a network: which pools can work here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..agent.host import Host, Lack, look_at
from ..ipam import Pool, PoolConfig, parse_pools
from ..kernel import KernelError, Namespace
from ..kernel.values import shown_ip
from . import overlap
from .conflist import DEFAULT_POOLS, Decision
from .failure import CommandFailed
from .status import CONFIGURATION

# How many ranges are tried to find one that is free: 10.78.0.0/16 and fd78::/16, and those behind them.
_TRIES, _STEP = 64, 16


def usable_default_pools(mtu: int | None) -> tuple[str, ...]:
    """On a host without IPv6, the IPv4 pool alone: an attachment has an address of every family or fails."""
    return DEFAULT_POOLS if lack_of(DEFAULT_POOLS, mtu) is None else DEFAULT_POOLS[:1]


def lack_of(cidrs: Iterable[str], mtu: int | None) -> Lack | None:
    """Why containers can have no addresses of these pools on this host."""
    return _host().lacks(_parsed(cidrs), mtu)


def require_pools_fit(decision: Decision, mtu: int | None) -> None:
    """Raises if a pool that is not in the network's file yet cannot work, or is in use beside this host.

    A pool that is there already is kept: containers have its addresses. The warnings tell of it.
    """
    lacking = lack_of(decision.new, decision.values.mtu or mtu)
    if lacking is not None:
        others = [it for it in decision.values.pools or () if ":" not in it] or [DEFAULT_POOLS[0]]
        raise CommandFailed(
            lacking.text,
            f"{lacking.next}: `netloom up {_options(others)}`; --force writes the network all the same",
            code="host-lacks",
            status=CONFIGURATION,
        )
    networks = overlap.host_networks()
    connected = [it for it in networks if it.is_near]
    found = [pool for pool in _parsed(decision.new) if any(it.overlaps(pool) for it in connected)]
    if found:
        fitting = [next(_free(it, networks), "NEW_CIDR") for it in _parsed(decision.values.pools or ())]
        raise CommandFailed(
            "; ".join(it.text for it in overlap.findings_of(found, connected)),
            f"choose another pool, such as `netloom up {_options(fitting)}`; if these addresses are set "
            "aside for containers there, use --force",
            code="pool-overlap",
            status=CONFIGURATION,
        )


def _free(pool: Pool, networks: Sequence[overlap.HostNetwork]) -> Iterator[str]:
    """The pool, and private ones of its size from the default one on, that overlap no network of the host."""
    tried = [pool.cidr]
    if pool.prefix >= _STEP:
        default = next(it for it in _parsed(DEFAULT_POOLS) if it.family == pool.family)
        bits = pool.width * 8 - _STEP
        ips = (default.network + (number << bits) for number in range(_TRIES))
        tried += [f"{shown_ip(ip.to_bytes(pool.width, 'big'))}/{pool.prefix}" for ip in ips]
    for cidr in tried:
        (found,) = _parsed([cidr])
        if not any(it.overlaps(found) for it in networks):
            yield found.cidr


def _options(cidrs: Iterable[str]) -> str:
    return " ".join(f"--pool {cidr}" for cidr in cidrs)


def _parsed(cidrs: Iterable[str]) -> tuple[Pool, ...]:
    listed = [PoolConfig(cidr) for cidr in cidrs]
    return parse_pools(listed) if listed else ()


def _host() -> Host:
    try:
        with Namespace.own() as host:
            return look_at(host)
    except KernelError:
        return Host()
