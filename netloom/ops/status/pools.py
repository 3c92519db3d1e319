"""Pools with the addresses that the journal counts, and whether its counts add up."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import Place
from ...cni import CNIError, Problem
from ...ipam import Pool, PoolUsage, SqlHoldings, count_free, usage
from ...ipam.holdings import least_rest
from ...ipam.pool import Range
from ...journal import Ledger, boottime, empty
from ...journal.search import networks_attached
from ...kernel import KernelError, Namespace
from ...kernel.values import shown_ip
from ...networks.config import Network
from ...networks.host import Host
from ...networks.names import SCOPE
from ..findings.networks import broken as network_broken
from ..findings.pools import address_orphaned, exhausted, miscounted, nearly_exhausted, shortage_of
from ..journals.reading import ledger
from ..node.host import read_host
from ..node.install import receipt
from ..node.networks import (
    FoundNetworks,
    Missing,
    NodeNetwork,
    copies,
    finding_of,
    found_in,
    missing,
    pools_of,
)
from ..node.orphans import orphans_at
from .document import Outside, Pools, PoolShown

# Pools up to this size are counted address by address.
_COUNTABLE = 1 << 16


def report(place: Place, *, audit: bool = False) -> Pools:
    files, broken = _networks(place)
    networks = files.networks
    with ledger(place) as journal:
        known = journal or empty()
        host = _host(known)
        shared = _shared(networks)
        counted = {pool: _shown(pool, of, known, host) for pool, of in shared.items()}
        full = {pool for pool, it in counted.items() if it.free == 0}
        shown = [
            replace(it, next_free=_next_free(pool, shared[pool].values(), full, known)) if it.resting else it
            for pool, it in counted.items()
        ]
        lost = list(_lost(place, files, known))
        had = [pool for it in lost for pool in pools_of(it.copy)]
        outside = list(_outside([*shared, *had], known))
        findings = [
            *map(finding_of, lost),
            *_of_use(shown, networks, host, known),
            *broken,
            *(_audit(shared, known) if audit else ()),
        ]
    return Pools(shown, outside, findings)


def _networks(place: Place) -> tuple[FoundNetworks, list[Finding]]:
    """Returns the networks, with findings about those whose pools are unknown."""
    try:
        found, problems = found_in(place.conf_dir)
    except CNIError as error:
        unread = FoundNetworks(problems=(Problem(place.conf_dir, error),))
        return unread, [network_broken(place.conf_dir, str(error))]
    return FoundNetworks(tuple(found), tuple(problems)), [
        network_broken(it.path, it.error, it.name) for it in found if it.network is None
    ]


def _lost(place: Place, found: FoundNetworks, known: Ledger) -> Iterable[Missing]:
    """Returns networks that this node had, and that no file configures any longer."""
    kept = copies(place.state_dir)
    return missing(place.conf_dir, kept, found, receipt(place.state_dir), networks_attached(known))


def _host(known: Ledger) -> Host:
    """Must run before the pools are counted: a link made meanwhile must not count as an orphan."""
    try:
        with Namespace.own() as host:
            return replace(read_host(host), orphans=orphans_at(host, lambda ask: ask(known)))
    except KernelError:
        return Host()


def _shared(networks: Iterable[NodeNetwork]) -> dict[Pool, dict[str, Network]]:
    """Returns each pool once, with the networks that share it, by name."""
    found: dict[Pool, dict[str, Network]] = {}
    for it in networks:
        if it.network is not None:
            for pool in it.network.pools:
                found.setdefault(pool, {})[it.name] = it.network
    return found


def _shown(pool: Pool, networks: Mapping[str, Network], known: Ledger, host: Host) -> PoolShown:
    now = boottime()
    rest = max(it.cooldown for it in networks.values())
    orphaned = host.orphaned() - host.reserved
    (used,) = usage([pool], SqlHoldings(known.connection, orphaned, orphaned), SCOPE, now, rest)
    # Addresses of the host and its neighbours that no attachment holds: an ADD skips them.
    own = sum(1 for ip in host.reserved if ip in pool and known.holder(SCOPE, ip) is None)
    free = max(used.free - own, 0)
    return PoolShown(
        networks=list(networks),
        cidr=pool.cidr,
        family=pool.family,
        strategy=pool.strategy,
        gateway="" if pool.gateway is None else shown_ip(pool.gateway),
        exclude=[_range(it, pool.width) for it in pool.excluded],
        capacity=used.capacity,
        held=used.held - used.orphaned,
        resting=used.resting,
        orphaned=used.orphaned,
        host=own,
        free=free,
        percent=round(100 * (used.capacity - free) / used.capacity, 2),
        next_free=None,
    )


def _range(it: Range, width: int) -> str:
    low, high = (shown_ip(value.to_bytes(width, "big")) for value in it)
    return low if low == high else f"{low}-{high}"


def _next_free(
    pool: Pool, networks: Iterable[Network], full: Collection[Pool], known: Ledger
) -> float | None:
    """Returns when the first network of the pool may assign a resting address: early if no other is free."""
    listed, now = list(networks), boottime()
    waits = [
        least_rest(it.cooldown)
        if all(one in full for one in it.pools if one.family == pool.family)
        else it.cooldown
        for it in listed
    ]
    rest = max(it.cooldown for it in listed)
    holdings = SqlHoldings(known.connection)
    moments = [
        released
        for low, high in pool.spans(0, pool.capacity)
        for _, released in holdings.entries(SCOPE, low, high)
        if released != inf and released > now - rest
    ]
    return time.time() + min(moments) + min(waits) - now if moments else None


def _outside(pools: Iterable[Pool], known: Ledger) -> Iterable[Outside]:
    listed = list(pools)
    held = sorted(known.held(), key=lambda it: (len(it[1]), it[1]))
    for _, ip, number in held:
        if not any(ip in pool for pool in listed):
            row = known.by_id(number)
            yield Outside(shown_ip(ip), "" if row is None else str(row.key))


def _of_use(
    pools: Sequence[PoolShown], networks: Iterable[NodeNetwork], host: Host, known: Ledger
) -> Iterable[Finding]:
    """Judges a network's pools of a family together, since an ADD takes addresses from any of them.

    Networks with the same pools are reported once.
    """
    reported: set[tuple[str, ...]] = set()
    for it in networks:
        if it.network is None:
            continue
        cidrs = [pool.cidr for pool in it.network.pools]
        if tuple(cidrs) in reported:
            continue
        reported.add(tuple(cidrs))
        shortage = shortage_of(it.network, host, known)
        if shortage is not None:
            yield exhausted(it.name, it.path, cidrs, shortage)
            continue
        for family in (6, 4):
            own = [one for one in pools if it.name in one.networks and one.family == family]
            used = [(one.cidr, one.capacity - one.host, one.held + one.orphaned) for one in own]
            nearly = nearly_exhausted(it.name, it.path, cidrs, used)
            if nearly is not None:
                yield nearly


def _audit(pools: Iterable[Pool], known: Ledger) -> Iterable[Finding]:
    """Checks that each address is either free, held or resting, and that the holders of addresses exist."""
    listed = list(pools)
    holdings = SqlHoldings(known.connection)
    for pool, used in zip(listed, usage(listed, holdings, SCOPE, boottime(), inf), strict=True):
        if not _adds_up(pool, used, holdings):
            yield miscounted(pool.cidr, used.held, used.resting, used.capacity)
    attached = {it.id: it for it in known.attachments()}
    for _, ip, number in known.held():
        if number not in attached:
            yield address_orphaned(ip)


def _adds_up(pool: Pool, used: PoolUsage, holdings: SqlHoldings) -> bool:
    if used.capacity <= _COUNTABLE:
        free = count_free(pool, holdings, SCOPE)
    else:
        # Too many to check one by one: only those that are not free are checked.
        spans = pool.spans(0, pool.capacity)
        rows = {ip for low, high in spans for ip, _ in holdings.entries(SCOPE, low, high)}
        free = used.capacity - sum(ip in pool for ip in rows)
    return free + used.held + used.resting == used.capacity
