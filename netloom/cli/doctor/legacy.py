"""Tables of iptables-legacy: packets meet their rules beside nftables', and no `nft list` shows them.

A table that is empty and accepts everything, as one look with `iptables-legacy -L` leaves it behind, is none.
"""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Iterator
from struct import Struct

from msgspec import Struct as Record

from ...findings import Finding
from ...modes.names import PREFIX

# IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES; IPv6 has the same numbers.
_GET_INFO, _GET_ENTRIES = 64, 65
# struct ipt_getinfo: name, hooks that the table has, where the chain of each begins, and where its policy is,
# the number of entries, and their size.
_INFO = Struct("=32sI5I5III")
_HEAD = Struct("=32sI4x")  # struct ipt_get_entries, up to its entries
_FORWARD = 2
_OFFSET, _VERDICT = Struct("=H"), Struct("=i")
_TARGET_HEAD = 32
_DROP = -1  # -NF_DROP - 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Family(Record, frozen=True):
    """`target` is where an entry says at what distance its target is (struct ipt_entry, ip6t_entry)."""

    names: str
    command: str
    family: int
    level: int
    target: int


_FAMILIES = {
    4: _Family("/proc/net/ip_tables_names", "iptables-legacy", socket.AF_INET, socket.IPPROTO_IP, 88),
    6: _Family("/proc/net/ip6_tables_names", "ip6tables-legacy", socket.AF_INET6, socket.IPPROTO_IPV6, 140),
}


class _Table(Record, frozen=True):
    """`rules` are those besides what every table has; `drops` is the policy of its chain FORWARD, and
    `judges` whether that chain has rules before it."""

    rules: int
    drops: bool = False
    judges: bool = False


def legacy_findings(families: set[int]) -> Iterator[Finding]:
    for family, it in _FAMILIES.items():
        tables = {name: _table(it, name) for name in _names(it.names)}
        for name, table in tables.items():
            if table.drops and family in families:
                yield _dropping(it, name, table)
        in_force = [name for name, table in tables.items() if table.rules]
        if in_force:
            yield Finding(
                code="legacy-iptables",
                severity="warning",
                subject=it.command,
                text="rules of the old iptables are in force, and packets meet them, too: "
                f"{it.command} has some in {', '.join(in_force)}",
                next=f"`{it.command}-save` shows them; make sure that they let {PREFIX}* pass, or move them "
                "to nftables",
            )


def _dropping(it: _Family, name: str, table: _Table) -> Finding:
    does = "may drop" if table.judges else "drops"
    insert = f"{it.command} -I FORWARD"
    return Finding(
        code="foreign-drop",
        severity="warning" if table.judges else "error",
        subject=f"{it.command} {name} FORWARD",
        text=f"the policy of {it.command}'s chain FORWARD {does} what containers send",
        next=f"`{insert} -i {PREFIX}+ -j ACCEPT` and `{insert} -o {PREFIX}+ -j ACCEPT`; keep them where that "
        "firewall keeps its rules",
    )


def _names(path: str) -> list[str]:
    try:
        with open(path) as file:
            return sorted(file.read().split())
    except OSError:
        return []


def _table(it: _Family, name: str) -> _Table:
    """One of which the kernel does not tell may have rules."""
    packed = name.encode()
    try:
        with socket.socket(it.family, socket.SOCK_RAW, socket.IPPROTO_RAW) as asker:
            info = _asked(asker, it.level, _GET_INFO, _INFO.pack(packed, *(0 for _ in range(13))))
            _, hooks, *numbers, entries, size = _INFO.unpack(info)
            begins, policies = numbers[:5], numbers[5:]
            rules = entries - hooks.bit_count() - 1
            if not hooks & 1 << _FORWARD:
                return _Table(rules)
            content = _asked(asker, it.level, _GET_ENTRIES, _HEAD.pack(packed, size) + bytes(size))
    except OSError:
        return _Table(1)
    policy = content[_HEAD.size + policies[_FORWARD] :]
    (target,) = _OFFSET.unpack_from(policy, it.target)
    (verdict,) = _VERDICT.unpack_from(policy, target + _TARGET_HEAD)
    return _Table(rules, verdict == _DROP, begins[_FORWARD] != policies[_FORWARD])


def _asked(asker: socket.socket, level: int, option: int, question: bytes) -> bytes:
    """The question and the answer share one place, which Python's own function does not have."""
    place = ctypes.create_string_buffer(question, len(question))
    length = ctypes.c_uint32(len(question))
    if _libc.getsockopt(asker.fileno(), level, option, place, ctypes.byref(length)) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not tell")
    return place.raw[: length.value]
