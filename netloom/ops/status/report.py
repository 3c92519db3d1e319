"""The status of a node as one document: from its agent, its journal, its network files and its host.

Each source may be missing or broken without hiding the others.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from ...api.findings import Finding, any_error
from ...api.paths import Place, intents_of
from ...api.protocol import waiting
from ...api.text import shown_ip
from ...cni import CNIError, Problem
from ...ipam import Pool, PoolUsage, SqlHoldings, usage, would_allocate
from ...journal import Ledger, State, boottime, empty
from ...kernel import KernelError, Namespace
from ...kernel.values import packed_ip
from ...networks.host import Host
from ..control.presence import presence
from ..control.process import Running, require_same_state
from ..errors import OperationFailed
from ..findings import networks as network_findings
from ..findings import pools as pool_findings
from ..findings.node import full_disk_text, is_full
from ..journals.reading import findings_of_own_table, has_links, journal_path, ledger
from ..node.host import read_host
from ..node.install import receipt
from ..node.networks import (
    Copy,
    FoundNetworks,
    Missing,
    NodeNetwork,
    copies,
    finding_of,
    found_in,
    missing,
    pools_of,
)
from ..runtimes import plugin_places
from . import findings
from .document import AgentStatus, NetworkStatus, PoolStatus, Status, UnreadableNetwork

# Seconds.
_FOR_FIREWALLS = 0.05


def report(place: Place) -> Status:
    found = presence(Place(place.state_dir, place.socket))
    agent = found.agent
    troubles = list(agent.info.troubles) if agent else []
    troubles += [full_disk_text(place.state_dir)] if is_full(place.state_dir) else []
    networks, problems = _networks(place.conf_dir)
    unreadable = tuple(UnreadableNetwork(path=it.path, error=str(it.error)) for it in problems)
    # A pool that several networks share is listed once.
    pools = list(dict.fromkeys(pool for it in networks if it.network for pool in it.network.pools))
    attachments, outside, of_loss = None, None, ""
    kept = copies(place.state_dir)
    absent = {it.name for it in kept} - {it.name for it in networks}
    files = FoundNetworks(tuple(networks), tuple(problems))
    lost = _lost(place, kept, files, ()) if absent else []
    of_journal: list[Finding] = []
    clashing: list[Finding] = []
    try:
        _require_the_same_journal(place, agent)
        with ledger(place) as journal:
            known = journal or empty()
            if agent is None and journal:  # a running agent would report it
                _require_whole(journal, journal_path(place.state_dir))
            host = _host(agent, known)
            described = [_network(it, known, host) for it in networks]
            clashing += _clashes(known, host) if agent is None and host is not None else []
            lost = _lost(place, kept, files, _attached(known)) if absent else []
            had = [pool for it in lost for pool in pools_of(it.copy)]
            attachments, outside = known.count(), _outside([*pools, *had], described, known)
    except OperationFailed as error:
        if not agent or agent.info.has_journal:  # an agent without a journal has reported it already
            troubles.append(str(error))
        of_journal.append(findings.of_journal(error, place.state_dir))
        of_loss = error.advice
        host = _host(agent)
        described = [_network(it, None, host) for it in networks]
    of_table = [] if agent else _of_table(attachments)
    found = found._replace(is_kept=found.is_kept and not of_table)
    of_owner = [] if agent else list(_of_owner(place.state_dir))
    needed = [found.advice] if not of_loss or found.process is not None else []
    advice = of_owner[0].next if of_owner else "; then ".join(filter(None, [*needed, of_loss]))
    overlaps = pool_findings.overlaps(pools, pool_findings.host_networks())
    intents = len(waiting(intents_of(place.socket)))
    all_found = findings.in_order(
        [
            *findings.of_presence(found, place.socket),
            *findings.of_paths(place.state_dir, place.socket),
            *findings.of_disk(place.state_dir),
            *of_journal,
            *(findings.of_agent(agent.info) if agent else of_table),
            *map(finding_of, lost),
            *of_owner,
            *findings.of_copies(place.state_dir, host.orphans if host else ()),
            *findings.of_networks(described, unreadable, place.conf_dir),
            *_of_files(place, {it.path: it.name for it in networks}, [it.path for it in unreadable]),
            *clashing,
            *overlaps,
            *(() if agent else _of_firewalls(networks)),
            *findings.of_intents(intents, intents_of(place.socket), agent is not None),
        ]
    )
    return Status(
        agent=agent and _described(agent),
        why=found.why,
        silent=found.process,
        next=advice or next((it.next for it in all_found), ""),
        socket=place.socket,
        state_dir=place.state_dir,
        attachments=None if attachments is None else {str(it): count for it, count in attachments.items()},
        networks=tuple(it.status for it in described),
        unreadable=unreadable,
        outside=outside,
        intents=intents,
        troubles=tuple(troubles),
        warnings=tuple(f"{it.text}; {it.next}" for it in overlaps),
        counters=dict(agent.info.counters) if agent else {},
        findings=tuple(all_found),
    )


def is_well(report: Status) -> bool:
    """Whether there is no error: an agent answers, and containers can be attached to every network."""
    return not any_error(report.findings)


def blocking_conditions(report: Status) -> list[str]:
    """Returns why nothing can be attached to the node, or to a network whose file is valid."""
    return [*report.troubles, *_network_conditions(report)]


def _network_conditions(report: Status) -> list[str]:
    return [f"nothing can be attached to {it.name} now: {it.trouble}" for it in report.networks if it.trouble]


def _require_the_same_journal(place: Place, agent: Running | None) -> None:
    """A file that replaced the journal, or another directory's, does not describe what the agent made."""
    if agent is None:
        return
    require_same_state(Place(place.state_dir, place.socket), agent.info)
    if not agent.info.has_journal:
        from ...journal import lost

        path = journal_path(place.state_dir)
        became = "is not the agent's: it was replaced" if os.path.exists(path) else "was deleted"
        raise OperationFailed(
            f"the journal {path} {became}",
            lost.advice(path, agent.info.journal_at, runs=True),
            code="journal-gone",
        )


def _require_whole(journal: Ledger, path: str) -> None:
    from ...journal.verification import require_whole

    require_whole(journal.connection, path)


def _host(agent: Running | None, known: Ledger | None = None) -> Host | None:
    """Reads the host. The orphans come from the agent, since to search for them takes longer than all else
    here; without an agent, this function searches.
    """
    try:
        with Namespace.own() as namespace:
            found = read_host(namespace)
            if agent is None:
                return found if known is None else replace(found, orphans=_orphans(namespace, known))
    except KernelError:
        return None
    orphans = agent.info.orphans
    return replace(found, orphans={link: frozenset(map(packed_ip, ips)) for link, ips in orphans.items()})


def _orphans(host: Namespace, known: Ledger) -> Mapping[str, frozenset[bytes]]:
    from ..node.orphans import orphans_at

    return orphans_at(host, lambda ask: ask(known))


def _clashes(known: Ledger, host: Host) -> list[Finding]:
    """A running agent would report them itself."""
    from ..findings.pools import clashes

    return clashes(known, host)


def _of_owner(state_dir: str) -> Iterator[Finding]:
    """Reports that the node belongs to an agent with another state directory, which agents check."""
    from ..node import table_contents as ownership

    try:
        with Namespace.own() as host:
            another = ownership.another_at(host, state_dir, ownership.identity_of(journal_path(state_dir)))
    except KernelError:
        return  # an ordinary user may not ask
    if another is not None:
        yield findings.of_another(another, state_dir)


def _of_table(attachments: Mapping[State, int] | None) -> list[Finding]:
    """Judges the nft table without an agent, if the journal or links show that containers need it."""
    if any((attachments or {}).values()) or has_links():
        return findings_of_own_table()
    return []


def _attached(known: Ledger) -> Collection[str]:
    from ...journal.search import networks_attached

    return networks_attached(known)


def _lost(
    place: Place, kept: Sequence[Copy], found: FoundNetworks, attached: Collection[str]
) -> list[Missing]:
    """Returns networks that this node had, and that no file configures any longer."""
    return list(missing(place.conf_dir, kept, found, receipt(place.state_dir), attached))


def _of_firewalls(networks: Sequence[NodeNetwork]) -> Iterator[Finding]:
    """For nodes without an agent, which would judge firewalls itself. `doctor` does what takes too long."""
    from ..firewall.flows import around, flows_of
    from ..firewall.openings import findings_of

    known = [it.network for it in networks if it.network is not None]
    pools = [(pool.cidr, it.isolation == "containers") for it in known for pool in it.pools]
    if not pools or os.geteuid() != 0:
        return
    try:
        with Namespace.own() as host:
            yield from findings_of(host, flows_of(around(host, pools, has_ports=False)), _FOR_FIREWALLS)
    except (KernelError, OSError):  # `doctor` reports it
        return


def _of_files(place: Place, ours: Mapping[str, str], unreadable: Collection[str]) -> Iterator[Finding]:
    """Reports what keeps runtimes from the networks. Without a network of netloom, it reports nothing."""
    if not ours and not unreadable:
        return
    yield from network_findings.of_first_file(place.conf_dir, unreadable)
    if ours:
        yield from network_findings.of_files_before(min(ours))
        yield from network_findings.of_same_name(ours)
    # With a plugin directory given, other places do not matter.
    if place.plugin_dir is None:
        yield from plugin_places.of_installed(place.state_dir)


def _described(agent: Running) -> AgentStatus:
    return AgentStatus(
        version=agent.info.version,
        process=agent.process or agent.info.process,
        started=agent.info.started,
        mtu=agent.info.mtu,
        under_way=agent.info.under_way,
    )


def _networks(directory: str) -> tuple[list[NodeNetwork], list[Problem]]:
    try:
        return found_in(directory)
    except CNIError as error:
        return [], [Problem(directory, error)]


def _outside(pools: Sequence[Pool], networks: Sequence[findings.Described], known: Ledger) -> tuple[str, ...]:
    """Returns addresses of attachments that are in no pool, and so in no pool's count."""
    held_in = {pool.cidr: pool.held or 0 for it in networks for pool in it.status.pools}
    if sum(held_in.values()) == sum(known.count_held()) and not _overlap_each_other(pools):
        return ()
    held = [ip for _, ip, _ in known.held() if not any(ip in pool for pool in pools)]
    return tuple(shown_ip(ip) for ip in sorted(held, key=lambda ip: (len(ip), ip)))


def _overlap_each_other(pools: Sequence[Pool]) -> bool:
    """If so, two pools count the same address."""
    spans = sorted((pool.family, pool.low, pool.high) for pool in pools)
    return any(one[0] == other[0] and other[1] <= one[2] for one, other in pairwise(spans))


def _network(found: NodeNetwork, known: Ledger | None, host: Host | None) -> findings.Described:
    """Without a journal (`known`), the numbers of its pools are unknown."""
    network = found.network
    pools: tuple[PoolStatus, ...] = ()
    lacking, shortage = None, None
    if network is not None:
        orphaned = host.orphaned() if host else frozenset()
        others = host.taken() if host else frozenset()
        holdings = SqlHoldings((known or empty()).connection, others, orphaned)
        counted = usage(network.pools, holdings, network.scope, boottime(), network.cooldown)
        pools = tuple(
            _pool_status(it, used, host.reserved - orphaned if host else (), known, network.scope)
            for it, used in zip(network.pools, counted, strict=True)
        )
        lacking = host.lacks(network.pools, network.mtu) if host else None
        if known and host and lacking is None:
            now = boottime()
            shortage = would_allocate(
                network.pools, holdings, scope=network.scope, now=now, cooldown=network.cooldown
            )
    status = NetworkStatus(
        name=found.name,
        path=found.path,
        cni_version=found.config.cni_version,
        mtu=None if network is None else network.mtu,
        pools=pools,
        error=found.error,
        trouble=str(lacking or shortage or ""),
    )
    return findings.Described(status, lacking, shortage)


def _pool_status(
    pool: Pool, used: PoolUsage, reserved: Iterable[bytes], known: Ledger | None, scope: str
) -> PoolStatus:
    """An address that is reserved for the host, but held by an attachment, counts as the attachment's."""
    unknown = known is None
    own = 0 if known is None else sum(ip in pool and known.holder(scope, ip) is None for ip in reserved)
    return PoolStatus(
        cidr=used.cidr,
        capacity=used.capacity,
        held=None if unknown else used.held - used.orphaned - own,
        resting=None if unknown else used.resting,
        orphaned=None if unknown else used.orphaned,
        host=None if unknown else own,
        free=None if unknown else used.free,
    )
