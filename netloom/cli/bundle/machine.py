"""The machine that the kernel runs on: settings, time, load, memory, disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from .member import Asked, Found, Member

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
        about="settings of the kernel that containers depend on; null: there is no such setting",
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
