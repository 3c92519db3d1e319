"""The checks of `netloom doctor`, in the order in which they run, and the context that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from typing import NamedTuple

from ...api.findings import Finding
from ...api.paths import Place
from ...cni import CNIError
from ...ipam import Pool
from ...journal import Attachment, Ledger
from ...kernel import Namespace, Plan
from ...kernel.features import Availability
from ...kernel.uplink import Uplink, uplink
from ...networks.attachment import readable_plan
from ..errors import OperationFailed, UsageError
from ..journals.reading import copy_of_journal
from ..node.networks import NodeNetwork, node_networks
from ..status.document import Status
from ..status.report import report


def silently(_: str) -> None:
    return


class Context:
    """What checks work with. `notify` receives the progress of a check, for a person who waits."""

    def __init__(self, place: Place, host: Namespace, notify: Callable[[str], None] = silently) -> None:
        self.place = place
        self.host = host
        self.notify = notify
        # What the kernel can do; empty until the check `features` ran.
        self.features: list[Availability] = []

    @cached_property
    def report(self) -> Status:
        return report(self.place)

    @cached_property
    def ledger(self) -> Ledger | None:
        """A copy; None if there is no journal, or if it cannot be read, which the check `node` reports."""
        try:
            return copy_of_journal(self.place)
        except OperationFailed:
            return None

    @cached_property
    def attachments(self) -> list[Attachment]:
        return [] if self.ledger is None else list(self.ledger.attachments())

    @cached_property
    def plans(self) -> dict[int, Plan]:
        """The readable plans, by the IDs of their attachments."""
        found = ((row.id, readable_plan(row)) for row in self.attachments)
        return {number: plan for number, plan in found if plan is not None}

    @cached_property
    def networks(self) -> list[NodeNetwork]:
        try:
            return node_networks(self.place.conf_dir)
        except CNIError:
            return []

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools; one that several networks share is listed once."""
        pools = (pool for it in self.networks if it.network for pool in it.network.pools)
        return list({pool.cidr: pool for pool in pools}.values())

    @cached_property
    def uplink(self) -> Uplink | None:
        return uplink(self.host)

    @property
    def is_node(self) -> bool:
        """Whether this machine has a journal, a network or an agent of netloom."""
        return self.ledger is not None or bool(self.networks) or self.report.agent is not None


class NodeCheck(NamedTuple):
    """A check: `where` is its module and function, `codes` are those of its findings.

    Findings of a check with `passes` may be over a moment later, so it runs again before they are reported.
    """

    name: str
    where: str
    about: str
    codes: tuple[str, ...]
    passes: bool = False

    def run(self, context: Context) -> list[Finding]:
        return list(self.function()(context))

    def function(self) -> Callable[[Context], Iterable[Finding]]:
        module, _, name = self.where.partition(":")
        found: Callable[[Context], Iterable[Finding]]
        found = getattr(import_module(f"{__package__}.{module}"), name)
        return found


CHECKS = (
    NodeCheck(
        "node",
        "node:check_node",
        "the agent, the journal and the pools, as `netloom status` reports them",
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
            "node-object-missing", "node-address-missing", "sysctl-forwarding", "address-clash",
            "orphan-incomplete", "node-of-another", "metrics-unavailable", "journal-restorable",
        ),
        passes=True,
    ),
    NodeCheck(
        "agents",
        "node:check_agents",
        "that only one agent runs here",
        ("two-agents",),
        passes=True,
    ),
    NodeCheck(
        "disk",
        "host:check_disk",
        "free space and inodes on the disk of the state directory",
        ("disk-full", "disk-nearly-full", "journal-large"),
    ),
    NodeCheck(
        "clock",
        "host:check_clock",
        "that the clock was not set since containers were attached",
        ("clock-jumped",),
    ),
    NodeCheck(
        "plugin",
        "runtimes:check_plugin",
        "the CNI plugin that runtimes run",
        (
            "plugin-missing", "plugin-differs", "plugin-not-executable", "plugin-not-built", "plugin-foreign",
            "receipt-unreadable",
        ),
    ),
    NodeCheck(
        "networks",
        "runtimes:check_networks",
        "network files, as runtimes find them",
        ("network-shadowed", "network-unloadable", "network-twice", "network-typo", "other-cni"),
    ),
    NodeCheck(
        "runtimes",
        "runtimes:check_runtimes",
        "where container runtimes look for networks and plugins",
        ("runtime-elsewhere", "runtime-unreadable"),
    ),
    NodeCheck(
        "features",
        "host:check_features",
        "kernel features and libraries",
        ("feature-missing", "package-missing"),
    ),
    NodeCheck(
        "sysctls",
        "host:check_sysctls",
        "kernel settings (sysctls)",
        ("sysctl-forwarding", "sysctl-at-boot", "sysctl-in-the-way", "conntrack-full"),
        passes=True,
    ),
    NodeCheck(
        "firewall",
        "services:check_firewall",
        "other firewalls that drop traffic of containers",
        ("foreign-drop", "legacy-iptables"),
    ),
    NodeCheck(
        "services",
        "services:check_services",
        "other services that manage links and routes",
        ("networkd-interferes", "networkmanager-interferes"),
    ),
    NodeCheck(
        "attachments",
        "node:check_attachments",
        "that journal, pools and kernel agree",
        (
            "table-broken", "plan-unreadable", "attachment-unfinished", "address-inconsistent",
            "address-twice", "address-orphaned", "port-inconsistent", "pool-miscounted", "object-missing",
            "object-changed", "kernel-silent", "netns-stale", "netns-busy", "link-orphaned",
            "element-orphaned", "node-address-missing", "route-diverted",
        ),
        passes=True,
    ),
    NodeCheck(
        "addresses",
        "node:check_addresses",
        "addresses on containers' links that netloom did not assign",
        ("address-foreign",),
        passes=True,
    ),
    NodeCheck(
        "sources",
        "services:check_sources",
        "packets of containers that were dropped for a false source address",
        ("packets-refused",),
    ),
    NodeCheck(
        "mtu",
        "host:check_mtu",
        "that the MTU of containers' links fits the uplink",
        ("mtu-mismatch",),
    ),
)  # fmt: skip

# Codes that any check may find; the second, any that reads the journal.
FAILED = "look-failed"
DAMAGED = "journal-damaged"


class Selection(NamedTuple):
    """Checks to run, and the codes to report; without codes, all."""

    checks: tuple[NodeCheck, ...] = CHECKS
    codes: frozenset[str] = frozenset()


def selected(only: Sequence[str]) -> Selection:
    """Selects by names of checks and codes of findings; all checks if `only` is empty."""
    if not only:
        return Selection()
    names = {check.name for check in CHECKS}
    codes = {code for check in CHECKS for code in check.codes}
    for it in only:
        if it not in names | codes:
            raise UsageError(
                f"there is no check and no code {it!r}",
                f"checks are {', '.join(check.name for check in CHECKS)}; codes are those of findings, such "
                "as foreign-drop",
            )
    wanted = set(only)
    checks = tuple(check for check in CHECKS if check.name in wanted or wanted & set(check.codes))
    whole = {code for check in checks if check.name in wanted for code in check.codes}
    return Selection(checks, frozenset((wanted & codes) | whole) if wanted & codes else frozenset())
