"""Which looks there are, in the order in which they are taken. Modules are imported when they are.

A look's module has `look(ground)`, which gives findings and changes nothing. One that fails does not keep the
others from being taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NamedTuple

from ...api.findings import Finding
from .ground import Ground


class Look(NamedTuple):
    """`codes` are what it may find. What `passes` may be over a moment later: it is looked at twice."""

    name: str
    about: str
    codes: tuple[str, ...]
    passes: bool = False

    def take(self, ground: Ground) -> list[Finding]:
        look: Callable[[Ground], Iterable[Finding]] = import_module(f"{__package__}.{self.name}").look
        return list(look(ground))


LOOKS = (
    Look(
        "node",
        "the agent, the journal and the pools, as `netloom status` has them",
        (
            "agent-not-running", "agent-silent", "agent-halted", "agent-strange", "agent-elsewhere",
            "socket-removed", "socket-unreachable", "socket-foreign", "path-untrusted",
            "attachment-unrepaired", "route-diverted", "object-changed",
            "agent-troubled", "agent-outdated", "agent-of-other-state", "queued-dels",
            "journal-gone", "journal-damaged", "journal-newer", "journal-unwritable", "journal-unreadable",
            "journal-read-only", "disk-full", "network-none", "network-broken", "network-file-missing",
            "pool-exhausted",
            "pool-nearly-exhausted", "pool-overlap", "host-lacks", "table-broken", "network-unloadable",
            "network-shadowed", "network-twice",
            "plugin-missing", "plugin-differs", "plugin-not-executable", "link-orphaned",
            "node-address-missing", "sysctl-forwarding", "address-clash",
            "orphan-incomplete", "node-of-another", "metrics-unavailable", "journal-restorable",
        ),
        passes=True,
    ),
    Look("agents", "that one agent runs here, and no other", ("two-agents",), passes=True),
    Look(
        "disk",
        "space and room for files where state is kept",
        ("disk-full", "disk-nearly-full", "journal-large"),
    ),
    Look("clock", "that nobody has set the clock since containers were attached", ("clock-jumped",)),
    Look(
        "plugin",
        "the plugin that runtimes run",
        (
            "plugin-missing", "plugin-differs", "plugin-not-executable", "plugin-not-built", "plugin-foreign",
            "receipt-unreadable",
        ),
    ),
    Look(
        "networks",
        "the files of networks, as runtimes find them",
        ("network-shadowed", "network-unloadable", "network-twice", "network-typo", "other-cni"),
    ),
    Look(
        "runtimes",
        "where container runtimes look for networks and plugins",
        ("runtime-elsewhere", "runtime-unreadable"),
    ),
    Look("features", "what the kernel can do, and libraries", ("feature-missing", "package-missing")),
    Look(
        "sysctls",
        "settings of the kernel",
        ("sysctl-forwarding", "sysctl-at-boot", "sysctl-in-the-way", "conntrack-full"),
        passes=True,
    ),
    Look(
        "firewall", "other firewalls that drop traffic of containers", ("foreign-drop", "legacy-iptables")
    ),
    Look(
        "services",
        "other services that manage links and routes",
        ("networkd-interferes", "networkmanager-interferes"),
    ),
    Look(
        "attachments",
        "that journal, pools and kernel agree",
        (
            "table-broken", "plan-unreadable", "attachment-unfinished", "address-inconsistent",
            "address-twice", "address-orphaned", "port-inconsistent", "pool-miscounted", "object-missing",
            "object-changed", "kernel-silent", "netns-stale", "netns-busy", "link-orphaned",
            "element-orphaned", "node-address-missing", "route-diverted",
        ),
        passes=True,
    ),
    Look(
        "addresses",
        "addresses on containers' links that netloom did not give",
        ("address-foreign",),
        passes=True,
    ),
    Look(
        "sources",
        "packets that were dropped since their source was not the sender's",
        ("packets-refused",),
    ),
    Look("mtu", "that what containers send fits the way out", ("mtu-mismatch",)),
)  # fmt: skip

# Of any look; the second of any that reads the journal.
FAILED = "look-failed"
DAMAGED = "journal-damaged"
