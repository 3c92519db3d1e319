"""Finds other firewalls that drop containers' traffic, whenever rules have changed.

Reading the rules takes milliseconds, so a thread does it: at some ticks, and when a command asks for the
node's findings. The kernel's generation number of the ruleset shows in 0.03 ms whether anything changed.
"""

from __future__ import annotations

import logging
import time

from ...api.findings import Finding
from ...journal import Journal, JournalError, Ledger
from ...kernel import KernelError, Namespace
from ...kernel.netfilter import legacy
from ...kernel.netfilter.nft import generation
from ...ops.firewall.flows import Around, around, flows_of
from ...ops.firewall.openings import findings_of
from ...ops.node.networks import NetworkFiles
from ..host_view import ask_kernel
from ..locks import SingleFlight

log = logging.getLogger(__name__)

# Seconds for one evaluation; only `netloom doctor` evaluates rules that take longer.
_LONGEST = 2.0
# How long a command waits for an evaluation, and how old a result it accepts, in seconds.
_PATIENCE, _YOUNG = 0.5, 1.0
# The share of time that evaluations may take at ticks.
_SHARE = 0.02


class Firewalls:
    def __init__(self, journal: Journal, networks: NetworkFiles) -> None:
        self._journal = journal
        self._networks = networks
        self.findings: tuple[Finding, ...] = ()
        self._judged: tuple[int, Around] | None = None
        self._ended = self._rests_until = 0.0
        self._judging: SingleFlight[None] = SingleFlight(self._judge)

    async def refresh(self) -> None:
        """Evaluates changed rules, but not too often: each ADD changes rules, too."""
        if time.monotonic() >= self._rests_until:
            await self._judging()

    async def current(self) -> tuple[Finding, ...]:
        """Returns recent findings, for a command. Some commands ask every second."""
        try:
            if time.monotonic() >= min(self._rests_until, self._ended + _YOUNG):
                await self._judging(_PATIENCE)
        except TimeoutError:
            log.debug("rules of other firewalls are still being read")
        return self.findings

    async def close(self) -> None:
        await self._judging.close()

    async def _judge(self) -> None:
        began = time.monotonic()
        try:
            self.findings = tuple(await ask_kernel(self._evaluate))
        except (KernelError, JournalError, OSError) as error:
            log.debug("rules of other firewalls cannot be read: %s", error)
        self._ended = time.monotonic()
        self._rests_until = self._ended + (self._ended - began) / _SHARE

    def _evaluate(self, host: Namespace) -> list[Finding]:
        networks = self._networks
        apart = {
            it.name for it in networks.found().networks if it.network and it.network.isolation == "containers"
        }
        pools = [(it.pool.cidr, it.network in apart) for it in networks.pools()]
        if not pools:
            self._judged = None
            return []
        has_ports = any(self._journal.survey(Ledger.count_ports))
        seen = generation(host.netfilter), around(host, pools, has_ports=has_ports)
        # Tables of iptables-legacy have no generation number.
        if seen == self._judged and not legacy.tables():
            return list(self.findings)
        found = findings_of(host, flows_of(seen[1]), _LONGEST)
        self._judged = seen
        return found
