"""Readiness: findings that would make an ADD fail now, on the whole node or on one network.

It checks what CNI's STATUS checks, and writes to the journal if no request has for a while: an idle agent
would not notice that its disk became read-only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from ..api.findings import Finding
from ..cni import CNIError
from ..cni.names import validate_network_name
from ..ipam import Shortage
from ..journal import JournalError, Ledger
from ..journal.errors import ReadOnly
from ..journal.search import networks_attached
from ..kernel import KernelError
from ..networks.config import Network
from ..ops.findings import kernel as kernel_findings
from ..ops.findings import networks
from ..ops.findings.node import Wrong, disk_full, is_full, wrong
from ..ops.findings.pools import exhausted, shortage_of
from ..ops.node.install import receipt
from ..ops.node.networks import FoundNetworks, Missing, copies, finding_of, missing
from .findings import failures_of
from .liveness import stuck_finding
from .locks import SingleFlight
from .node import Node

# How long a successful write proves that the journal is writable, in seconds.
_FRESH = 10.0
_PATIENCE = 3.0


class Readiness(Struct, frozen=True):
    """Findings that make ADDs fail: `of_node` on all networks, `of_networks` on one, by its name.

    `of_files` concern no known network: none is configured, or a file cannot be read.
    """

    of_node: Sequence[Finding] = ()
    of_networks: Mapping[str, Sequence[Finding]] = {}
    of_files: Sequence[Finding] = ()

    def findings(self, network: str | None = None) -> list[Finding]:
        """Returns all findings, or those that make ADDs to one network fail."""
        if network is not None:
            return [*self.of_node, *self.of_networks.get(network, [networks.unknown(network)])]
        return [*self.of_node, *self.of_files, *(it for found in self.of_networks.values() for it in found)]

    def knows(self, network: str) -> bool:
        return network in self.of_networks


class Judge:
    """Checks readiness. Reads of disk and kernel have a deadline, because a probe waits for the answer."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._full: SingleFlight[bool] = SingleFlight(
            lambda: asyncio.to_thread(is_full, node.settings.state_dir)
        )
        self._guards: SingleFlight[bool] = SingleFlight(node.table.stands)
        self._found: SingleFlight[FoundNetworks] = SingleFlight(
            lambda: asyncio.to_thread(node.networks.found)
        )

    async def close(self) -> None:
        for asked in (self._full, self._guards, self._found):
            await asked.close()

    async def readiness(self) -> Readiness:
        node = self._node
        await node.journal_keeper.prove(_FRESH)
        node.journal_keeper.check()
        node.check_socket()
        found_on_node = failures_of(node)
        found_on_node += await self._of_disk()
        if not node.conditions.failure("table"):
            found_on_node += await self._of_table()
        try:
            found = await self._found(_PATIENCE)
        except TimeoutError:
            directory = node.settings.conf_dir
            silent = networks.broken(directory, f"it cannot be read within {_PATIENCE:g} s")
            return Readiness(found_on_node, {}, [silent])
        of_networks = await asyncio.to_thread(_of_networks, node, found)
        return Readiness(
            found_on_node, of_networks, _of_files(node, found) if not of_networks else _of_broken(found)
        )

    async def _of_disk(self) -> list[Finding]:
        state_dir = self._node.settings.state_dir
        try:
            full = await self._full(_PATIENCE)
        except TimeoutError:
            return [stuck_finding(state_dir, f"the disk of {state_dir} does not answer")]
        if full:
            return [disk_full(state_dir)]
        if self._node.journal_keeper.failure():
            return []
        return await _of_journal(self._node)

    async def _of_table(self) -> list[Finding]:
        try:
            if await self._guards(_PATIENCE):
                return []
        except KernelError as error:
            return [kernel_findings.silent(f"the nft table cannot be read: {error}")]
        except TimeoutError:
            return [kernel_findings.silent(f"the kernel has not answered for {_PATIENCE:g} s")]
        return [kernel_findings.table_broken()]


async def _of_journal(node: Node) -> list[Finding]:
    journal = node.journal
    if journal.trouble or time.monotonic() - journal.written > _FRESH:
        now = f"{time.time():.0f}"
        try:
            async with asyncio.timeout(_PATIENCE):
                await journal.change(lambda ledger: ledger.set_fact("tried", now))
        except TimeoutError:
            text = f"the journal has not taken a change for {_PATIENCE:g} s"
            return [stuck_finding(journal.path, text)]
        except JournalError as error:
            is_read_only = isinstance(error, ReadOnly)
            code: Wrong = "journal-read-only" if is_read_only else "journal-unwritable"
            return [wrong(code, str(error), journal.path)]
    return []


def _of_networks(node: Node, found: FoundNetworks) -> dict[str, list[Finding]]:
    """Returns the findings of each network. Of two files with one name, the first counts."""
    judged: dict[str, list[Finding]] = {}
    for it in found.networks:
        if it.name in judged or not _is_name(it.name):
            continue
        if it.network is None:
            judged[it.name] = [networks.broken(it.path, it.discreet, it.name)]
        else:
            judged[it.name] = of_network(node, it.name, it.path, it.network, node.journal.survey)
    for lost in _missing(node, found):
        if lost.is_own:
            judged[lost.copy.name] = [finding_of(lost)]
    return judged


def _missing(node: Node, found: FoundNetworks) -> list[Missing]:
    state_dir = node.settings.state_dir
    kept = copies(state_dir)
    try:
        attached: Collection[str] = node.journal.survey(networks_attached) if kept else ()
    except JournalError:  # another finding reports it
        attached = ()
    return list(missing(node.settings.conf_dir, kept, found, receipt(state_dir), attached))


def of_node(node: Node) -> list[Finding]:
    """What is known to prevent every ADD. Waits for neither the disk nor the kernel."""
    found = failures_of(node)
    if node.journal.trouble and not node.journal.damage:
        found.append(wrong("journal-unwritable", node.journal.trouble, node.journal.path))
    if is_full(node.settings.state_dir):
        found.append(disk_full(node.settings.state_dir))
    return found


# Answers a question to the journal on the calling thread.
AskJournal: TypeAlias = Callable[[Callable[[Ledger], Shortage | None]], Shortage | None]


def of_network(node: Node, name: str, path: str, network: Network, ask: AskJournal) -> list[Finding]:
    """What prevents ADDs to this network on a node that is well."""
    host = node.host
    lacking = host.lacks(network.pools, network.mtu)
    found = [] if lacking is None else [networks.host_lacks(name, lacking)]
    found += node.conditions.blocking(pool.family for pool in network.pools)
    if found:
        return found
    try:
        shortage = ask(lambda ledger: shortage_of(network, host, ledger))
    except JournalError as error:
        return [wrong("journal-unreadable", str(error), node.journal.path)]
    return (
        [] if shortage is None else [exhausted(name, path, [pool.cidr for pool in network.pools], shortage)]
    )


def _is_name(name: str) -> bool:
    try:
        validate_network_name(name)
    except CNIError:
        return False
    return True


def _of_files(node: Node, found: FoundNetworks) -> list[Finding]:
    broken = _of_broken(found)
    if found.networks or broken:
        return broken
    return [networks.none_configured(node.settings.conf_dir)]


def _of_broken(found: FoundNetworks) -> list[Finding]:
    unusable = [(it.path, it.error.discreet) for it in found.problems]
    unusable += [(it.path, it.discreet) for it in found.networks if not _is_name(it.name)]
    return [networks.broken(path, why) for path, why in unusable]
