"""What keeps an ADD from working now: on this node at all, and for each of its networks.

It is judged as CNI's STATUS is, and a little harder: an agent that nobody asks would not notice a disk that
has become read-only, so the journal is written to if it has not been for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence

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
from ..ops.health.pool_remedy import remedy_of
from ..ops.health.shortage import shortage_of
from ..ops.health.space import lack_of_space
from ..ops.node.install import receipt
from ..ops.node.kept_networks import Missing, copies, finding_of, missing
from ..ops.node.networks import Found
from .conditions import blocking
from .node import Node
from .single_flight import Shared

# The journal's last success says something for so long.
_FRESH = 10.0
_PATIENCE = 3.0

# Codes of what an agent notes in `Node.troubles`, by the names that those have.
CODES = {
    "journal": "journal-gone",
    "damage": "journal-damaged",
    "table": "table-broken",
    "socket": "socket-unreachable",
    "directory": "path-untrusted",
}


class Obstacles(Struct, frozen=True):
    """`of_node` are in the way of every ADD, `of_networks` in that of one network's, by its name.

    `of_files` are networks that have no name: none is configured, or a file cannot be read.
    """

    of_node: Sequence[Finding] = ()
    of_networks: Mapping[str, Sequence[Finding]] = {}
    of_files: Sequence[Finding] = ()

    def findings(self, network: str | None = None) -> list[Finding]:
        """All, or those that are in the way of one network."""
        if network is not None:
            return [*self.of_node, *self.of_networks.get(network, [_unknown(network)])]
        return [*self.of_node, *self.of_files, *(it for found in self.of_networks.values() for it in found)]

    def knows(self, network: str) -> bool:
        return network in self.of_networks


def _finding(code: str, text: str, subject: str = "") -> Finding:
    from ..api.catalogue import ENTRIES  # which a node that is well never needs

    entry = ENTRIES.get(code)
    return Finding(code=code, text=text, next="" if entry is None else entry.remedy, subject=subject)


def _unknown(network: str) -> Finding:
    return _finding("network-unknown", "no file has a network of this name", network)


class Judge:
    """Asks disk and kernel, and waits no longer for them than somebody waits for an answer."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._full: Shared[str] = Shared(lambda: asyncio.to_thread(lack_of_space, node.settings.state_dir))
        self._guards: Shared[bool] = Shared(node.guards)
        self._found: Shared[Found] = Shared(lambda: asyncio.to_thread(node.networks.found))

    async def close(self) -> None:
        for asked in (self._full, self._guards, self._found):
            await asked.close()

    async def obstacles(self) -> Obstacles:
        node = self._node
        await node.prove_journal(_FRESH)
        node.look_after_journal()
        node.look_at_socket()
        of_node = [_finding(CODES.get(what, what), text) for what, text in dict(node.troubles).items()]
        of_node += await self._of_disk()
        if "table" not in node.troubles:
            of_node += await self._of_table()
        try:
            found = await self._found(_PATIENCE)
        except TimeoutError:
            directory = node.settings.conf_dir
            silent = _finding(
                "network-broken", f"{directory} cannot be read within {_PATIENCE:g} s", directory
            )
            return Obstacles(of_node, {}, [silent])
        of_networks = await asyncio.to_thread(_of_networks, node, found)
        return Obstacles(
            of_node, of_networks, _of_files(node, found) if not of_networks else _of_broken(found)
        )

    async def _of_disk(self) -> list[Finding]:
        state_dir = self._node.settings.state_dir
        try:
            full = await self._full(_PATIENCE)
        except TimeoutError:
            return [_finding("agent-stuck", f"the disk of {state_dir} does not answer", state_dir)]
        if full:
            return [_finding("disk-full", full, state_dir)]
        if self._node.troubles.keys() & {"journal", "damage"}:
            return []
        return await _of_journal(self._node)

    async def _of_table(self) -> list[Finding]:
        try:
            if await self._guards(_PATIENCE):
                return []
        except KernelError as error:
            return [_finding("kernel-silent", f"the nft table could not be looked at: {error}")]
        except TimeoutError:
            return [_finding("kernel-silent", f"the kernel has not answered for {_PATIENCE:g} s")]
        return [_finding("table-broken", "the nft table is not as it was laid down")]


async def _of_journal(node: Node) -> list[Finding]:
    journal = node.journal
    if journal.trouble or time.monotonic() - journal.written > _FRESH:
        now = f"{time.time():.0f}"
        try:
            async with asyncio.timeout(_PATIENCE):
                await journal.change(lambda ledger: ledger.set_fact("tried", now))
        except TimeoutError:
            text = f"the journal has not taken a change for {_PATIENCE:g} s"
            return [_finding("agent-stuck", text, journal.path)]
        except JournalError as error:
            code = "journal-read-only" if isinstance(error, ReadOnly) else "journal-unwritable"
            return [_finding(code, str(error), journal.path)]
    return []


def _of_networks(node: Node, found: Found) -> dict[str, list[Finding]]:
    """Of two files of one name, the first counts."""
    judged: dict[str, list[Finding]] = {}
    for it in found.networks:
        if it.name in judged or not _is_name(it.name):
            continue
        if it.network is None:
            judged[it.name] = [_finding("network-broken", f"{it.path}: {it.discreet}", it.name)]
        else:
            judged[it.name] = _of_network(node, it.name, it.path, it.network)
    for lost in _missing(node, found):
        if lost.is_own:
            judged[lost.copy.name] = [finding_of(lost)]
    return judged


def _missing(node: Node, found: Found) -> list[Missing]:
    state_dir = node.settings.state_dir
    kept = copies(state_dir)
    try:
        attached: Collection[str] = node.journal.survey(networks_attached) if kept else ()
    except JournalError:  # which is told already
        attached = ()
    return list(missing(node.settings.conf_dir, kept, found, receipt(state_dir), attached))


def _of_network(node: Node, name: str, path: str, network: Network) -> list[Finding]:
    host = node.host
    lacking = host.lacks(network.pools, network.mtu)
    if lacking is not None:
        return [Finding(code="host-lacks", text=lacking.text, next=lacking.next, subject=name)]
    blocked = blocking(node.conditions, (pool.family for pool in network.pools))
    if blocked:
        return blocked

    def judged(ledger: Ledger) -> Shortage | None:
        return shortage_of(network, host, ledger)

    try:
        found = node.journal.survey(judged)
    except JournalError as error:
        return [_finding("journal-unreadable", str(error), name)]
    if found is None:
        return []
    pools = [pool.cidr for pool in network.pools]
    remedy = remedy_of("pool-exhausted", name, path, pools, rests=found.ready_in is not None)
    return [Finding(code="pool-exhausted", text=str(found), next=remedy, subject=name)]


def _is_name(name: str) -> bool:
    try:
        validate_network_name(name)
    except CNIError:
        return False
    return True


def _of_files(node: Node, found: Found) -> list[Finding]:
    broken = _of_broken(found)
    if found.networks or broken:
        return broken
    directory = node.settings.conf_dir
    return [_finding("network-none", f"no file in {directory} has a network of netloom", directory)]


def _of_broken(found: Found) -> list[Finding]:
    wrong = [(it.path, it.error.discreet) for it in found.problems]
    wrong += [(it.path, it.discreet) for it in found.networks if not _is_name(it.name)]
    return [_finding("network-broken", f"{path}: {why}", path) for path, why in wrong]
