"""What the verbs work with: the journal, the dataplane, and what is known of the node."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

from msgspec.structs import replace

from ..api.findings import Finding
from ..cni import AttachmentKey, CNIError
from ..failpoints import reach
from ..journal import Attachment, Journal, Operation, lost
from ..kernel import InvalidNamespace, Namespace, NftElement, Plan, Scope
from ..kernel.dataplane import Dataplane, Request
from ..kernel.netlink.nftables import read_elements
from ..kernel.objects.link import find, link_names
from ..networks import owner, table
from ..networks.attachment import addresses_of
from ..networks.host import Host
from ..networks.owner import Owner
from ..ops.node import orphan_table
from ..ops.node import table_contents as contents
from ..ops.node.host import look_at
from ..ops.node.network_files import NetworkFiles
from ..ops.node.orphan_table import OrphanTable
from ..ops.node.orphans import orphans_at
from ..ops.node.ownership import mark_at
from ..ops.node.presence import boot_id, leads_there
from ..ops.node.table_contents import Content
from .conditions import Condition
from .keyed_lock import Turns
from .metrics.tally import Tally
from .reconcile.firewalls import Firewalls
from .reconcile.flows import Flows
from .settings import Settings
from .single_flight import Shared

T = TypeVar("T")

log = logging.getLogger(__name__)


_LOOKS_FOR_STRAYS = 3
# Of what is written down of an event.
_LONGEST = 2000

# What the journal can count, too: for each number there, the sets that must have as many elements together.
_COUNTED = ((table.SOURCES[0],), (table.SOURCES[1],), *zip(table.PORTS, table.PORTS_AT, strict=True))

# How long somebody waits for the journal to be read whole; and for how many times as long as that took, it
# is not read again.
_PROVING_PATIENCE, _PROVING_RESTS = 1.0, 20


class Node:
    def __init__(self, settings: Settings, journal: Journal, dataplane: Dataplane) -> None:
        self.settings = settings
        self.journal = journal
        self.dataplane = dataplane
        self.turns = Turns()
        self.started = time.time()
        self.boot_id = boot_id()
        # The journal's, which it has from its first agent on.
        self.identity = ""
        self.host = Host()
        with Namespace.own() as host:
            self._host = host.identity
        # Why an ADD would fail now, by what is wrong. Empty: it would not.
        self.troubles: dict[str, str] = {}
        # Notes in the troubles whether plugins reach the agent, as soon as it listens.
        self.look_at_socket: Callable[[], None] = lambda: None
        # What is wrong with the node, and lets an ADD be done all the same, by what it is about.
        self.conditions: dict[str, Condition] = {}
        # Attachments that are not as planned, and that the agent cannot or may not mend, by their numbers.
        self.unwell: dict[int, Sequence[Finding]] = {}
        # What was told already, and is not told again until it changes.
        self.warned: set[str] = set()
        # Attachments that were just made, and are looked at once more.
        self.recent: list[int] = []
        # Attachments whose paths lead to other namespaces by now, which have the numbers of theirs.
        self.replaced: set[int] = set()
        # Attachments that are gone from the kernel, while the disk did not take it yet.
        self.departed: set[AttachmentKey] = set()
        self.counters: Counter[str] = Counter()
        self.tally = Tally()
        journal.timed = lambda took, durable: self.tally.commit(took, durable)
        self.networks = NetworkFiles(settings.conf_dir)
        # When the slow work was last begun.
        self.ticked = time.monotonic()
        self.looks_for_strays = 0
        self.flows = Flows()
        # What orphaned links have in the nft table: as it is known, and as it was last written.
        self.orphan_table: OrphanTable = {}
        self._written_orphan_table: OrphanTable = {}
        self._table_lacks = False
        self.firewalls = Firewalls(self)
        self._proof: Shared[None] = Shared(lambda: asyncio.to_thread(journal.prove))
        self._laying = asyncio.Lock()
        self._learning = asyncio.Lock()

    @property
    def owner(self) -> Owner:
        """Whose the table is that it lays down."""
        return Owner(self.settings.state_dir, self.identity)

    def require_container(self, namespace: Namespace) -> None:
        """Whoever asks may live in a namespace of its own, and not know that this one is the host's."""
        if namespace.identity == self._host:
            raise InvalidNamespace(
                f"{namespace.name} is the host's namespace, which netloom never attaches to itself"
            )

    async def look(self, question: Callable[[Namespace], T]) -> T:
        """Asks the kernel something on a thread of its own, beside the dataplane."""

        def ask() -> T:
            with Namespace.own() as host:
                return question(host)

        return await asyncio.to_thread(ask)

    def tell(
        self,
        event: str,
        details: str,
        attachment: Attachment | None = None,
        *,
        network: str = "",
        trace: str = "",
        error: CNIError | None = None,
        heartbeat: float | None = None,
        reason: Literal["", "handover", "reboot"] = "",
    ) -> None:
        """Writes down what the agent did by itself, or could not; the verbs are the journal's `EVENTS`."""
        self.journal.log(
            Operation(
                verb=event,
                network=network if attachment is None else attachment.network,
                container_id="" if attachment is None else attachment.container_id,
                ifname="" if attachment is None else attachment.ifname,
                started=time.time(),
                duration=0.0,
                phases={},
                code=0 if error is None else error.code,
                error="" if error is None else error.reason[:_LONGEST],
                details=details[:_LONGEST],
                trace=trace,
                netns="" if attachment is None else attachment.netns,
                namespace="" if attachment is None else attachment.namespace,
                pod="" if attachment is None else attachment.pod,
                addresses=() if attachment is None else addresses_of(attachment.result),
                attached=None if attachment is None else attachment.created_at,
                heartbeat=heartbeat,
                reason=reason,
            )
        )

    async def prove_journal(self, fresh: float = 0.0) -> None:
        """Reads all of the journal's file, unless that was done `fresh` seconds ago. Nobody waits for long.

        However large the file is and however often somebody asks, it is read a small part of the time only.
        """
        journal = self.journal
        if time.monotonic() - journal.proved < max(fresh, _PROVING_RESTS * journal.proving_took):
            return
        with suppress(TimeoutError):  # it goes on, and tells the next who asks
            await self._proof(_PROVING_PATIENCE)

    def look_after_journal(self) -> None:
        """Its file may be damaged, or gone from its place."""
        self._look_for_damage()
        self._look_for_file()

    def _look_for_damage(self) -> None:
        damage = self.journal.damage
        if not damage:
            self.troubles.pop("damage", None)
            return
        trouble = f"{damage}; {lost.advice_on_damage(self.journal.path, runs=True)}"
        if self.troubles.get("damage") != trouble:
            self.troubles["damage"] = trouble
            log.error("%s", trouble)

    def _look_for_file(self) -> None:
        """A file that somebody removed or replaced takes changes; it is kept whole, wherever it is by now."""
        if self.journal.is_in_place():
            self.troubles.pop("journal", None)
            return
        self.journal.save()
        path = self.journal.path
        what_to_do = lost.advice(path, self.journal.where(), runs=True)
        trouble = f"the journal {path} was removed or replaced while the agent ran; {what_to_do}"
        if self.troubles.get("journal") != trouble:
            self.troubles["journal"] = trouble
            log.error("%s", trouble)

    async def look_at_host(self) -> None:
        found = await self.look(look_at)
        self.host = replace(found, orphans=self.host.orphans, orphan_ports=self.host.orphan_ports)

    async def recall_orphans(self) -> None:
        """What an agent before this one has kept of them."""
        kept = await asyncio.to_thread(orphan_table.read, self.settings.state_dir, self.boot_id)
        self.orphan_table = self._written_orphan_table = kept

    async def learn_orphans(self, known: Mapping[str, frozenset[bytes]] | None = None) -> bool:
        """Looks for links that no attachment has, once for all who found out. Whether the known were others.

        After a journal was lost, containers go on using the addresses that are routed to them.
        """
        async with self._learning:
            if known is None or self.host.orphans == known:
                found = await self.look(lambda host: orphans_at(host, self.journal.survey))
                if found or self._written_orphan_table:
                    await self._keep_table_of(found)
                if self.host.orphans.keys() - found.keys():
                    self.look_for_strays()  # what they had in the table goes, too
                own = orphan_table.ports_of(self.orphan_table) if found else ()
                self.host = replace(self.host, orphans=found, orphan_ports=own)
        return self.host.orphans != known

    async def _keep_table_of(self, orphans: Mapping[str, frozenset[bytes]]) -> None:
        """What they have in the table is known from now on, whatever becomes of the table."""
        before = self.orphan_table
        found, self._table_lacks = await self.look(lambda host: orphan_table.look(host, orphans, before))
        self.orphan_table = found
        if found == self._written_orphan_table:
            return
        try:
            await asyncio.to_thread(orphan_table.write, self.settings.state_dir, self.boot_id, found)
            self._written_orphan_table = found
            self.warned.discard("orphans")
        except OSError as cause:
            if "orphans" not in self.warned:
                log.error("what orphaned links have in the nft table is in memory only: %s", cause)
            self.warned.add("orphans")

    async def keep_orphans_guarded(self) -> None:
        """Looks for orphans, and lays the table down if it lacks something that one of them had."""
        await self.learn_orphans()
        if self.orphan_table and self._table_lacks:
            await self.lay_down()
            self.tell("TABLE", "elements of orphaned links were missing in the nft table, and are back")

    def forget_orphan(self, link: str) -> None:
        """It is gone, or an attachment's by now: nobody has to wait for the next look."""
        if link in self.host.orphans:
            left = {name: ips for name, ips in self.host.orphans.items() if name != link}
            self.host = replace(self.host, orphans=left)
            self.orphan_table = {name: it for name, it in self.orphan_table.items() if name != link}

    async def lay_down(self) -> None:
        """The node's table with all attachments' elements, in one step: no packet meets a part of it.

        Links that are there and in no journal keep theirs: it may have been lost, and they still work. A DEL
        that is on its way leaves strays, which are looked for.
        """

        await self.laying()
        self.look_for_strays()

    def laying(self) -> Request[None]:
        def every(host: Namespace) -> list[Content]:
            planned = self._planned()
            known = {it.key[0] for it in planned if isinstance(it, NftElement) and it.set in table.SOURCES}
            orphaned = orphan_table.to_lay_down(host, known, planned, self.orphan_table)
            return [*planned, *orphaned, owner.chain(self.owner)]

        return self.dataplane.lay_down(table.TABLE, every, timeout=30)

    async def keep_guarded(self) -> bool:
        """Lays the table down if it does not stand, once for all who found out. Whether that was needed."""
        async with self._laying:
            if await self.guards():
                return False
            reach("repair.found")
            await self.lay_down()
        self.counters["tables"] += 1
        self.tell("TABLE", f"the nft table {table.TABLE.name} was not whole, and was laid down anew")
        await self.flows.again(self)
        log.warning("the nft table %s was not whole; it is again, with all elements", table.TABLE.name)
        return True

    def _planned(self) -> list[Content]:
        return self.journal.survey(
            lambda ledger: [it for plan in ledger.plans() for it in contents.of_plan(plan)]
        )

    async def strays(self) -> tuple[list[NftElement], list[str]]:
        """Elements and chains that no attachment has: when the table was laid down, a DEL was on its way.

        The kernel is looked at first: an attachment is in the journal before its elements are in the table.
        """
        return await self.look(self._strays)

    async def remove_strays(self) -> None:
        """Those that are some when their turn has come: meanwhile, somebody may have got the same again."""
        await self.dataplane.remove_found(lambda host: Plan(tuple(self._strays(host)[0])), timeout=30)

    def _strays(self, host: Namespace) -> tuple[list[NftElement], list[str]]:
        there, chains = contents.there(host), contents.chains_there(host)
        links = set(link_names(host))
        planned = self._planned()
        elements = contents.strays(there, links, planned)
        return elements, contents.unused(chains, set(there) - set(elements), planned)

    def look_for_strays(self) -> None:
        """At the next ticks: by the last of them, every DEL that is on its way now is through."""
        self.looks_for_strays = _LOOKS_FOR_STRAYS

    async def guards(self) -> bool:
        """Whether the node's table stands as it was laid down, elements aside: chains, rules, flags."""
        return await self.look(lambda host: not table.TABLE.check(Scope(host)))

    async def has_table(self) -> bool:
        """Whether the table is of this version and ours, and has an element for every address and port."""
        of = table.TABLE

        def counted(host: Namespace) -> list[int] | None:
            if of.check(Scope(host)) or mark_at(host) != self.owner:
                return None
            return [
                sum(len(read_elements(host.netfilter, of.family, of.name, it) or ()) for it in sets)
                for sets in _COUNTED
            ]

        held = await self.journal.ask(lambda ledger: [*ledger.count_held(), *ledger.count_ports()])
        return await self.look(counted) == held


async def is_dead(node: Node, attachment: Attachment) -> bool:
    """A namespace that ends takes its links along, and so our end of the pair.

    While that is there, somebody holds the namespace, whatever has become of its path.
    """
    if leads_there(attachment):
        return False

    def has_link(host: Namespace) -> bool:
        return find(host, attachment.host_link) is not None

    return not await node.look(has_link)
