"""Sysctls that a network may set in its containers.

They are those of the container's namespace, except those that would break what netloom sets up there.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from ... import kernel

# The placeholder for the interface's name, as in the reference plugin `tuning`.
IFNAME = "IFNAME"

ALLOWED = (
    "net/core/somaxconn",
    "net/ipv4/conf/all/*",
    "net/ipv4/conf/IFNAME/*",
    "net/ipv4/icmp_*",
    "net/ipv4/igmp_*",
    "net/ipv4/ip_*",
    "net/ipv4/neigh/IFNAME/*",
    "net/ipv4/ping_group_range",
    "net/ipv4/tcp_*",
    "net/ipv4/udp_*",
    "net/ipv4/vs/*",
    "net/ipv6/conf/all/*",
    "net/ipv6/conf/IFNAME/*",
    "net/ipv6/neigh/IFNAME/*",
    "net/netfilter/nf_conntrack_*",
    "net/unix/max_dgram_qlen",
)
REFUSED = ("*/route_localnet", "*/disable_ipv6")


def path_of(name: str) -> str:
    """Returns the name with slashes. In a name that has a slash, dots do not separate parts."""
    return name if "/" in name else name.replace(".", "/")


def is_allowed(path: str) -> bool:
    parts = path.split("/")
    return (
        ".." not in parts
        and any(fnmatchcase(path, pattern) and _as_deep(path, pattern) for pattern in ALLOWED)
        and not any(fnmatchcase(path, pattern) for pattern in REFUSED)
    )


def _as_deep(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/")


def setting(path: str, value: str, ifname: str) -> kernel.Sysctl:
    return kernel.Sysctl(
        "/".join(ifname if part == IFNAME else part for part in path.split("/")), value, on="attachment"
    )
