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
from ..findings import pools as pool_findings
from ..node.host import read_host
from ..node.install import NotBuilt, shipped_plugin
from ..node.table_contents import CODE as ANOTHER
from ..node.table_contents import adopt, another_at, identity_of
from .conflist import DEFAULT_POOLS, Decision


def require_nameable(conf_dir: str) -> None:
    """Refuses a path that is not UTF-8: the receipt, which is JSON, could not list it."""
    try:
        conf_dir.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "--conf-dir: its path is not UTF-8, so the receipt cannot list it",
            "give a directory whose path is UTF-8",
        ) from None


def require_library() -> None:
    """Raises `LibraryMissing`, which names the package. An agent would only log it, and end."""
    with Namespace.own() as host:
        _ = host.nft


def require_trusted(place: Place) -> None:
    """Refuses directories of state and socket that other users could change."""
    from ...api import paths

    try:
        paths.require_trusted("the state directory", place.state_dir)
        paths.require_trusted("the directory of the socket", os.path.dirname(place.socket))
    except paths.UntrustedPath as error:
        raise OperationFailed(
            f"{error}; nothing was done", error.weakness.remedy, code="path-untrusted"
        ) from None


def require_own_node(state_dir: str, *, adopts: bool) -> list[str]:
    """Refuses the host of another agent: each would take the other's links and rules for leaks.

    Returns warnings if the node was another agent's and is adopted.
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
            f"cannot create {path}: {cause.strerror}", "give another --state-dir", code="file-unwritable"
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


# Private ranges, and the prefix length of the steps in which they are searched for a free range.
_PRIVATE = {"10.0.0.0/8": 16, "172.16.0.0/12": 16, "192.168.0.0/16": 24, "100.64.0.0/10": 16, "fd70::/12": 16}


def usable_default_pools(mtu: int | None, *, force: bool) -> tuple[str, ...]:
    """The default pools that this host can use. Without IPv6, only the IPv4 pool: an attachment gets an
    address of every family or fails.

    A free range, if there is one, replaces a default that overlaps a network of the host; not with `force`.
    """
    pools = DEFAULT_POOLS if lack_of(DEFAULT_POOLS, mtu) is None else DEFAULT_POOLS[:1]
    networks = [] if force else pool_findings.host_networks()
    connected = [it for it in networks if it.is_near]
    if not any(it.overlaps(pool) for it in connected for pool in _parsed(pools)):
        return pools
    return tuple(_fitting(pools, networks)) or pools


def lack_of(cidrs: Iterable[str], mtu: int | None) -> Lack | None:
    """Why containers on this host cannot have addresses of these pools; None if they can."""
    return _host().lacks(_parsed(cidrs), mtu)


def require_pools_fit(decision: Decision, mtu: int | None) -> None:
    """Raises if a pool that is not in the network's file yet cannot work, or is in use beside this host.

    A pool that is in the file already is kept: containers have its addresses. The warnings report it.
    """
    lacking = lack_of(decision.new, decision.values.mtu or mtu)
    if lacking is not None:
        others = [it for it in decision.values.pools or () if ":" not in it] or [DEFAULT_POOLS[0]]
        raise OperationFailed(
            lacking.text,
            f"{lacking.next}: `netloom up {_options(others)}`; --force writes the network anyway",
            code="host-lacks",
            kind="configuration",
        )
    networks = pool_findings.host_networks()
    connected = [it for it in networks if it.is_near]
    found = [pool for pool in _parsed(decision.new) if any(it.overlaps(pool) for it in connected)]
    if found:
        fitting = _fitting(decision.values.pools or (), networks)
        such = f"such as `netloom up {_options(fitting)}`" if fitting else "with `netloom up --pool CIDR`"
        raise OperationFailed(
            "; ".join(it.text for it in pool_findings.overlaps(found, connected)),
            f"choose another pool, {such}; if these addresses are reserved for containers there, use "
            f"`netloom up {_options(decision.values.pools or ())} --force`",
            code="pool-overlap",
            kind="configuration",
        )


def _fitting(cidrs: Iterable[str], networks: Sequence[pool_findings.HostNetwork]) -> list[str]:
    """These pools, with a free private range of its size for each that overlaps a network of the host.

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


def _free(
    pool: Pool, networks: Sequence[pool_findings.HostNetwork], others: Sequence[Pool]
) -> Iterator[Pool]:
    """Free private ranges of a pool's size, beginning with the default pool."""
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
