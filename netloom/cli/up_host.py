"""What `netloom up` asks the host before it writes a network: which pools can work here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..ipam import Pool, PoolConfig, parse_pools
from ..kernel import KernelError, Namespace
from ..kernel.values import shown_ip
from ..networks.host import Host, Lack
from ..ops.node.host import look_at
from . import overlap
from .conflist import DEFAULT_POOLS, Decision
from .failure import CommandFailed
from .status import CONFIGURATION

# Private addresses, and in which steps they are searched for a range that is free.
_PRIVATE = {"10.0.0.0/8": 16, "172.16.0.0/12": 16, "192.168.0.0/16": 24, "100.64.0.0/10": 16, "fd70::/12": 16}


def usable_default_pools(mtu: int | None, *, force: bool) -> tuple[str, ...]:
    """On a host without IPv6, the IPv4 pool alone: an attachment has an address of every family or fails.

    A default that overlaps a network that the host is connected to gives way to a range that is free, if
    there is one, but not with `force`.
    """
    pools = DEFAULT_POOLS if lack_of(DEFAULT_POOLS, mtu) is None else DEFAULT_POOLS[:1]
    networks = [] if force else overlap.host_networks()
    connected = [it for it in networks if it.is_near]
    if not any(it.overlaps(pool) for it in connected for pool in _parsed(pools)):
        return pools
    return tuple(_fitting(pools, networks)) or pools


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
        fitting = _fitting(decision.values.pools or (), networks)
        such = f"such as `netloom up {_options(fitting)}`" if fitting else "with `netloom up --pool CIDR`"
        raise CommandFailed(
            "; ".join(it.text for it in overlap.findings_of(found, connected)),
            f"choose another pool, {such}; if these addresses are set aside for containers there, use "
            f"`netloom up {_options(decision.values.pools or ())} --force`",
            code="pool-overlap",
            status=CONFIGURATION,
        )


def _fitting(cidrs: Iterable[str], networks: Sequence[overlap.HostNetwork]) -> list[str]:
    """These pools; in the place of each that overlaps a network of the host, a private one of its size.

    Empty if there is no free range for one of them.
    """
    wanted = _parsed(cidrs)
    chosen = [it for it in wanted if not any(one.overlaps(it) for one in networks)]
    fitting: list[str] = []
    for pool in wanted:
        if pool not in chosen:
            free = next(_free(pool, networks, chosen), None)
            if free is None:
                return []
            chosen.append(free)
            pool = free
        fitting.append(pool.cidr)
    return fitting


def _free(pool: Pool, networks: Sequence[overlap.HostNetwork], others: Sequence[Pool]) -> Iterator[Pool]:
    """Private pools of its size, from the default one on."""
    default = next(it for it in _parsed(DEFAULT_POOLS) if it.family == pool.family)
    ips: list[int] = []
    for block, step in zip(_parsed(_PRIVATE), _PRIVATE.values(), strict=True):
        if block.family == pool.family and block.prefix <= pool.prefix:
            bits = pool.width * 8
            end = block.network + (1 << bits - block.prefix)
            ips += range(block.network, end, 1 << bits - min(step, pool.prefix))
    for ip in sorted(ips, key=lambda it: it < default.network):
        (found,) = _parsed([f"{shown_ip(ip.to_bytes(pool.width, 'big'))}/{pool.prefix}"])
        if not any(it.overlaps(found) for it in networks) and not any(_overlap(it, found) for it in others):
            yield found


def _overlap(one: Pool, other: Pool) -> bool:
    return one.family == other.family and one.low <= other.high and other.low <= one.high


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
