"""What `netloom up` requires of the host before it changes anything: plugin, library, directories, pools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from ...api.paths import Place, journal_of
from ...cni.files import make_directories
from ...ipam import Pool, PoolConfig, parse_pools
from ...kernel import KernelError, Namespace
from ...kernel.values import shown_ip
from ...networks.host import Host, Lack
from ..errors import OperationFailed, UsageError
from ..health import pools as pools_health
from ..node.host import read_host
from ..node.install import NotBuilt, shipped_plugin
from ..node.table_contents import CODE as ANOTHER
from ..node.table_contents import adopt, another_at, identity_of
from .conflist import DEFAULT_POOLS, Decision


def require_nameable(conf_dir: str) -> None:
    """What is written is written down, too: receipts are JSON, which is text."""
    try:
        conf_dir.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "--conf-dir: its path is not UTF-8, and cannot be written down",
            "give a directory whose path is UTF-8",
        ) from None


def require_library() -> None:
    """Raises `LibraryMissing`, which names the package. An agent would say so in its log, and end."""
    with Namespace.own() as host:
        _ = host.nft


def require_trusted(place: Place) -> None:
    """The directories of state and socket: where others could change one, nothing is written to it."""
    from ...api import paths

    try:
        paths.require_trusted("the state directory", place.state_dir)
        paths.require_trusted("the directory of the socket", os.path.dirname(place.socket))
    except paths.UntrustedPath as error:
        raise OperationFailed(
            f"{error}; nothing was done", error.weakness.remedy, code="path-untrusted"
        ) from None


def require_own_node(state_dir: str, *, adopts: bool) -> list[str]:
    """Two agents on one host would each take the other's links and rules for leftovers.

    Warnings, if the node was another agent's and is adopted.
    """
    with Namespace.own() as host:
        another = another_at(host, state_dir, identity_of(journal_of(state_dir)))
        if another is None:
            return []
        if not adopts or another.process is not None:
            raise OperationFailed(
                f"{another.text()}; nothing was changed", another.advice(state_dir), code=ANOTHER
            )
        adopt(host)
    return [
        f"adopted this host from the agent with its state in {another.state_dir}: its containers keep their "
        "networks, and their links are not in this journal (orphaned); `netloom status` lists them"
    ]


def make_state_dir(path: str) -> None:
    try:
        make_directories(path, 0o700)
    except OSError as cause:
        raise OperationFailed(
            f"cannot make {path}: {cause.strerror}", "give another --state-dir", code="file-unwritable"
        ) from None


def require_plugin() -> bytes:
    try:
        return shipped_plugin()
    except NotBuilt as error:
        raise OperationFailed(
            str(error),
            "build it, with a C compiler: `make setup` in a checkout, or `pip install .`",
            code="plugin-not-built",
        ) from None


# Private addresses, and in which steps they are searched for a range that is free.
_PRIVATE = {"10.0.0.0/8": 16, "172.16.0.0/12": 16, "192.168.0.0/16": 24, "100.64.0.0/10": 16, "fd70::/12": 16}


def usable_default_pools(mtu: int | None, *, force: bool) -> tuple[str, ...]:
    """On a host without IPv6, the IPv4 pool alone: an attachment has an address of every family or fails.

    A default that overlaps a network that the host is connected to gives way to a range that is free, if
    there is one, but not with `force`.
    """
    pools = DEFAULT_POOLS if lack_of(DEFAULT_POOLS, mtu) is None else DEFAULT_POOLS[:1]
    networks = [] if force else pools_health.host_networks()
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
        raise OperationFailed(
            lacking.text,
            f"{lacking.next}: `netloom up {_options(others)}`; --force writes the network all the same",
            code="host-lacks",
            kind="configuration",
        )
    networks = pools_health.host_networks()
    connected = [it for it in networks if it.is_near]
    found = [pool for pool in _parsed(decision.new) if any(it.overlaps(pool) for it in connected)]
    if found:
        fitting = _fitting(decision.values.pools or (), networks)
        such = f"such as `netloom up {_options(fitting)}`" if fitting else "with `netloom up --pool CIDR`"
        raise OperationFailed(
            "; ".join(it.text for it in pools_health.overlaps(found, connected)),
            f"choose another pool, {such}; if these addresses are set aside for containers there, use "
            f"`netloom up {_options(decision.values.pools or ())} --force`",
            code="pool-overlap",
            kind="configuration",
        )


def _fitting(cidrs: Iterable[str], networks: Sequence[pools_health.HostNetwork]) -> list[str]:
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


def _free(pool: Pool, networks: Sequence[pools_health.HostNetwork], others: Sequence[Pool]) -> Iterator[Pool]:
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
            return read_host(host)
    except KernelError:
        return Host()
