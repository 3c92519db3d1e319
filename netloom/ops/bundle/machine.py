"""Sources on the host: its system, its programs, its kernel objects."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, to_builtins

from ... import __version__
from ...kernel import KernelError, Namespace
from ...kernel.errors import ABSENT
from ...kernel.netlink import address, link, neighbour, route, rule
from ...kernel.netlink.nftables import read_table
from ...kernel.nft import listed
from ...kernel.values import shown_ip
from ...networks.table import TABLE
from .archive import Asked, Found, Member, MissingMember

# Each prints its version and does nothing else.
_PROGRAMS = (
    "containerd", "crio", "podman", "dockerd", "nerdctl", "runc", "crun", "kubelet", "cnitool", "nft", "ip",
    "iptables", "systemctl",
)  # fmt: skip
_OPTIONS = {"ip": ("-V",)}
_ELSEWHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PATIENCE = 3.0
_LIBRARY = "libnftables"


def versions(_asked: Asked) -> Iterator[Found]:
    yield Member(
        name="versions.json",
        about="versions of netloom, Python, the kernel, the distribution, runtimes",
        document={
            "netloom": __version__,
            "installation": os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
            "python": platform.python_version(),
            "executable": sys.executable,
            "msgspec": _msgspec(),
            "sqlite": sqlite3.sqlite_version,
            "kernel": platform.release(),
            "kernel_version": platform.version(),
            "machine": platform.machine(),
            "distribution": _distribution(),
            "libnftables": _library(),
            "programs": {name: version for name in _PROGRAMS if (version := _version_of(name))},
        },
    )


def _msgspec() -> str:
    import msgspec

    return msgspec.__version__


def _distribution() -> dict[str, str]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return {}
    return {name: release[name] for name in ("ID", "VERSION_ID", "PRETTY_NAME") if name in release}


def _library() -> str:
    """The file of libnftables that the dynamic linker loads; its name ends with the version."""
    from ...kernel import KernelError, Namespace

    try:
        with Namespace.own() as here:
            here.nft.run("")
    except KernelError as error:
        return str(error)
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        paths = (line.split(maxsplit=5)[-1].strip() for line in maps if _LIBRARY in line)
        return next((os.path.realpath(path) for path in paths), "")


def _version_of(program: str) -> str:
    """The first line that a program prints, or why it prints none; empty if it is not installed."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_ELSEWHERE}")
    if path is None:
        return ""
    try:
        done: subprocess.CompletedProcess[Any] = subprocess.run(
            [path, *_OPTIONS.get(program, ("--version",))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.SubprocessError) as cause:
        return f"{path}: {cause}"
    said = done.stdout.decode(errors="replace").strip().splitlines()
    return said[0][:200] if said else f"{path}: printed nothing"


_CONF = ("all", "default")
_OF_IPV4 = (
    "forwarding", "rp_filter", "route_localnet", "accept_local", "src_valid_mark", "arp_ignore",
    "arp_announce", "proxy_arp",
)  # fmt: skip
_OF_IPV6 = ("forwarding", "disable_ipv6", "accept_ra", "addr_gen_mode")
SYSCTLS = (
    "net.ipv4.ip_forward",
    *(f"net.ipv4.conf.{it}.{name}" for it in _CONF for name in _OF_IPV4),
    *(f"net.ipv6.conf.{it}.{name}" for it in _CONF for name in _OF_IPV6),
    *(f"net.{family}.neigh.default.gc_thresh{number}" for family in ("ipv4", "ipv6") for number in (1, 2, 3)),
    "net.ipv4.ip_local_port_range",
    "net.ipv6.route.max_size",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_buckets",
    "user.max_net_namespaces",
)
_MODULES = (
    "nf", "ip_", "ip6", "veth", "bridge", "br_", "vxlan", "wireguard", "ifb", "sch_", "act_", "cls_", "tun",
    "vrf", "xt_",
)  # fmt: skip
_CONNTRACK = "/proc/net/stat/nf_conntrack"


def settings(_asked: Asked) -> Iterator[Found]:
    yield Member(
        name="kernel/sysctl.json",
        about="kernel settings that containers depend on; null: there is no such setting",
        document={name: _setting(name) for name in SYSCTLS},
    )


def machine(asked: Asked) -> Iterator[Found]:
    parameters = " ".join(_lines("/proc/cmdline")).split()
    yield Member(
        name="kernel/machine.json",
        about="time, load, memory, disk, tracked connections",
        document={
            "time": time.time(),
            "boottime": time.clock_gettime(time.CLOCK_BOOTTIME),
            "zone": time.tzname,
            "processors": os.cpu_count(),
            "load": os.getloadavg(),
            "memory": _memory(),
            "state_dir": _disk(asked.state_dir),
            "conntrack": {
                "count": _setting("net.netfilter.nf_conntrack_count"),
                "max": _setting("net.netfilter.nf_conntrack_max"),
                "statistics": _lines(_CONNTRACK),
            },
            "namespaces": _count("/run/netns"),
            "modules": [line.split()[0] for line in _lines("/proc/modules") if line.startswith(_MODULES)],
            "parameters": [word for word in parameters if word.startswith("ipv6.")],
        },
    )


def _setting(name: str) -> str | None:
    try:
        with open(f"/proc/sys/{name.replace('.', '/')}") as file:
            return file.read().strip()
    except OSError:
        return None


def _memory() -> dict[str, str]:
    wanted = ("MemTotal", "MemAvailable", "SwapFree")
    pairs = (line.partition(":") for line in _lines("/proc/meminfo"))
    return {name: value.strip() for name, _, value in pairs if name in wanted}


def _disk(path: str) -> dict[str, int] | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return {
        "size": found.f_blocks * found.f_frsize,
        "free": found.f_bavail * found.f_frsize,
        "files_free": found.f_favail,
        "flags": found.f_flag,
    }


def _lines(path: str) -> list[str]:
    try:
        with open(path, errors="backslashreplace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _count(path: str) -> int:
    try:
        return len(os.listdir(path))
    except OSError:
        return 0


_MOST = 20_000
_FOR_ROOT = "only root may read nftables: run it as root"
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_OF_A_LINK = (
    "index", "name", "kind", "up", "mac", "mtu", "txqlen", "parent", "parent_netnsid", "master", "group",
    "port_kind",
)  # fmt: skip


def links(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        yield from map(_link, host.route.dump(link.GET, link.everything()))

    yield _dumped("links", "links of the host", listed)


def addresses(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            for payload in host.route.dump(address.GET, address.of_link(0, family)):
                yield to_builtins(address.decode(payload))

    yield _dumped("addresses", "addresses of the host", listed)


def routes(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            yield from map(_route, _all(host, route.GET, route.everything(family)))

    yield _dumped("routes", "routes of the host, of all tables", listed)


def rules(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            for payload in _all(host, rule.GET, rule.everything(family)):
                yield _readable(to_builtins(rule.decode(payload), builtin_types=(bytes,)))

    yield _dumped("rules", "policy rules of the host", listed)


def neighbours(_asked: Asked) -> Iterator[Found]:
    def listed(host: Namespace) -> Iterator[Any]:
        for family in _FAMILIES:
            for payload in _all(host, neighbour.GET, neighbour.everything(family)):
                yield _readable(to_builtins(neighbour.decode(payload), builtin_types=(bytes,)))

    yield _dumped("neighbours", "neighbours of the host", listed)


def firewall(_asked: Asked) -> Iterator[Found]:
    about = f"the nft table {TABLE.family} {TABLE.name}"
    if os.geteuid() != 0:  # libnftables would only print an error on stderr
        yield MissingMember("kernel/nft-netloom.txt", about, _FOR_ROOT)
        yield MissingMember("kernel/nft-others.json", "base chains of other programs", _FOR_ROOT)
        return
    try:
        with Namespace.own() as host:
            try:
                # The table of an older version has no family arp.
                there = [it for it in TABLE.bodies if read_table(host.netfilter, it, TABLE.name) is not None]
                yield Member(
                    name="kernel/nft-netloom.txt",
                    about=about,
                    text="".join(
                        host.nft.run(f"list table {it} {TABLE.name}") for it in there or [TABLE.family]
                    ),
                )
            except KernelError as error:
                yield MissingMember("kernel/nft-netloom.txt", about, _first_line(error))
            chains = foreign_chains(host)
    except KernelError as error:
        yield MissingMember("kernel/nft-others.json", "base chains of other programs", _first_line(error))
        return
    yield Member(
        name="kernel/nft-others.json",
        about="base chains of other programs: their names, hooks and policies, not their rules",
        document={
            "chains": to_builtins(chains),
            "legacy": {family: legacy_tables(family) for family in ("ipv4", "ipv6")},
        },
    )


def _dumped(name: str, about: str, listed: Callable[[Namespace], Iterable[Any]]) -> Found:
    place = f"kernel/{name}.jsonl"
    rows: list[Any] = []
    total = 0
    try:
        with Namespace.own() as host:
            for row in listed(host):
                total += 1
                if len(rows) < _MOST:
                    rows.append(row)
    except KernelError as error:
        return MissingMember(place, about, _first_line(error))
    cut = f"{len(rows)} of {total} rows" if total > len(rows) else ""
    return Member(name=place, about=about, rows=rows, cut=cut)


def _all(host: Namespace, kind: int, question: bytes) -> list[bytes]:
    try:
        return host.route.dump(kind, question)
    except KernelError as error:
        if error.errno in ABSENT:
            return []
        raise


def _link(payload: bytes) -> dict[str, Any]:
    found = link.decode(payload)
    return {name: getattr(found, name) for name in _OF_A_LINK}


def _route(payload: bytes) -> Any:
    return _readable(to_builtins(route.decode(payload), builtin_types=(bytes,)))


def _readable(value: Any) -> Any:
    """Addresses as people write them."""
    if isinstance(value, bytes):
        return shown_ip(value) if len(value) in (4, 16) else value.hex()
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    return value


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


_LEGACY = {"ipv4": "/proc/net/ip_tables_names", "ipv6": "/proc/net/ip6_tables_names"}
_REFUSALS = ("drop", "reject")


class CollectedChain(Struct, frozen=True, kw_only=True):
    """A base chain. `refuses` is whether it, or a chain that it calls, may drop packets."""

    family: str
    table: str
    name: str
    type: str
    hook: str
    priority: int
    policy: str
    rules: int
    refuses: bool

    def __str__(self) -> str:
        return f"table {self.family} {self.table}, chain {self.name} (hook {self.hook}, policy {self.policy})"


def foreign_chains(host: Namespace) -> list[CollectedChain]:
    """Base chains of other programs. Raises `KernelError` if nftables cannot be read."""
    return foreign_chains_in(listed(host))


def foreign_chains_in(ruleset: list[dict[str, Any]]) -> list[CollectedChain]:
    """The same, of a ruleset as `nft -j list ruleset` prints it."""
    chains: dict[tuple[str, str, str], dict[str, Any]] = {}
    rules: dict[tuple[str, str, str], list[list[Any]]] = {}
    for it in ruleset:
        if "chain" in it:
            chain = it["chain"]
            chains[chain["family"], chain["table"], chain["name"]] = chain
        elif "rule" in it:
            rule = it["rule"]
            rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule.get("expr", []))
    found = []
    for key, chain in chains.items():
        if "hook" not in chain or TABLE.is_at(*key[:2]):
            continue
        policy = str(chain.get("policy", "accept"))
        found.append(
            CollectedChain(
                family=key[0],
                table=key[1],
                name=key[2],
                type=str(chain.get("type", "")),
                hook=str(chain["hook"]),
                priority=int(chain.get("prio", 0)),
                policy=policy,
                rules=len(rules.get(key, ())),
                refuses=policy == "drop" or _refuses(key, rules, set()),
            )
        )
    return sorted(found, key=lambda it: (it.hook, it.priority, it.family, it.table, it.name))


def legacy_tables(family: str) -> list[str]:
    """Tables of iptables-legacy, whose rules nft does not show."""
    try:
        with open(_LEGACY[family]) as file:
            return sorted(file.read().split())
    except OSError:
        return []


def _refuses(
    chain: tuple[str, str, str],
    rules: Mapping[tuple[str, str, str], list[list[Any]]],
    seen: set[tuple[str, str, str]],
) -> bool:
    """Whether a rule of a chain drops or rejects, or calls a chain with such a rule."""
    if chain in seen:
        return False
    seen.add(chain)
    for expressions in rules.get(chain, ()):
        for verdict, target in _verdicts(expressions):
            if verdict in _REFUSALS:
                return True
            if verdict in ("jump", "goto") and _refuses((*chain[:2], target), rules, seen):
                return True
    return False


def _verdicts(value: Any) -> Iterator[tuple[str, str]]:
    """All verdicts anywhere in a rule: at its end, in a map, or as a target of iptables."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _REFUSALS:
                yield key, ""
            elif key in ("jump", "goto") and isinstance(item, dict):
                yield key, str(item.get("target", ""))
            elif key == "xt" and isinstance(item, dict):
                yield str(item.get("name", "")).lower(), ""
            else:
                yield from _verdicts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _verdicts(item)
