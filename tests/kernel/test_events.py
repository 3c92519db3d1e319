from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from netloom.kernel.events import Events, EventsLost, KernelEvent
from netloom.kernel.namespace import Namespace
from netloom.kernel.netlink import address, link, nft_elements, nftables, route, rule
from netloom.kernel.netlink.address import AddressRecord
from netloom.kernel.netlink.connection import ROUTE, NetlinkConnection
from netloom.kernel.netlink.link import Link
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE, NetlinkMessage
from netloom.kernel.netlink.neighbour import NeighbourRecord
from netloom.kernel.netlink.route import RouteHop, RouteRecord
from netloom.kernel.netlink.rule import RuleRecord

pytestmark = pytest.mark.kernel

TINY = 1 << 12
PATIENCE = 5.0


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.new() as made:
        yield made


@pytest.fixture
def events(namespace: Namespace) -> Iterator[Events]:
    with Events.open(namespace) as opened:
        yield opened


def make_veth(namespace: Namespace, name: str) -> int:
    peer = link.veth_peer(link.properties(name=f"{name}-far"), None)
    created = link.create("veth", link.properties(name=name), peer)
    namespace.route.change(link.NEW, CREATE | EXCLUSIVE, created)
    return namespace.route.index(name)


def delete(namespace: Namespace, index: int) -> None:
    namespace.route.change(link.DELETE, 0, link.by_index(index))


def set_up(namespace: Namespace, index: int, up: bool = True) -> None:
    namespace.route.change(link.NEW, 0, link.change(index, up=up))


def storm(namespace: Namespace, index: int, rounds: int) -> None:
    for number in range(rounds):
        namespace.route.change(link.NEW, 0, link.change(index, link.properties(mtu=1000 + number % 400)))


def ip(namespace: Namespace, words: str) -> None:
    with namespace.entered():
        subprocess.run(["ip", *words.split()], check=True)


def first(events: Events, wanted: Callable[[KernelEvent], bool]) -> KernelEvent:
    """The first event that is wanted; fails if it does not come."""
    for event in events.read(PATIENCE):
        if isinstance(event, KernelEvent) and wanted(event):
            return event
    pytest.fail("the event did not come")


def of_link(name: str, gone: bool) -> Callable[[KernelEvent], bool]:
    return lambda event: isinstance(event.value, Link) and event.value.name == name and event.gone == gone


def of_address(text: str, gone: bool) -> Callable[[KernelEvent], bool]:
    return lambda event: (
        isinstance(event.value, AddressRecord) and event.value.address == text and event.gone == gone
    )


def of_route(destination: bytes, gone: bool) -> Callable[[KernelEvent], bool]:
    return lambda event: (
        isinstance(event.value, RouteRecord) and event.value.destination == destination and event.gone == gone
    )


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_a_link_that_appears_and_vanishes_is_told(namespace: Namespace, events: Events) -> None:
    index = make_veth(namespace, "one")
    came = first(events, of_link("one", gone=False))
    delete(namespace, index)
    went = first(events, of_link("one", gone=True))
    assert (came.kind, went.kind) == ("link", "link")
    assert isinstance(came.value, Link)
    assert (came.value.index, came.value.kind) == (index, "veth")


@pytest.mark.parametrize(
    ("family", "text"), [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")], ids=["v4", "v6"]
)
def test_an_address_that_appears_and_vanishes_is_told(
    namespace: Namespace, events: Events, family: int, text: str
) -> None:
    index = make_veth(namespace, "one")
    payload = address.build(index, family, socket.inet_pton(family, text), 32, flags=address.NODAD)
    namespace.route.change(address.NEW, CREATE | EXCLUSIVE, payload)
    came = first(events, of_address(text, gone=False))
    namespace.route.change(address.DELETE, 0, payload)
    went = first(events, of_address(text, gone=True))
    assert (came.kind, went.kind) == ("address", "address")
    assert isinstance(went.value, AddressRecord)
    assert went.value.index == index


@pytest.mark.parametrize(
    ("family", "text", "prefix"),
    [(socket.AF_INET, "198.51.100.0", 24), (socket.AF_INET6, "2001:db8:1::", 48)],
    ids=["v4", "v6"],
)
def test_a_route_that_appears_and_vanishes_is_told(
    namespace: Namespace, events: Events, family: int, text: str, prefix: int
) -> None:
    index = make_veth(namespace, "one")
    set_up(namespace, index)
    packed = socket.inet_pton(family, text)
    payload = route.build(family, packed, prefix, hops=[RouteHop(index, None)], protocol=196)
    namespace.route.change(route.NEW, CREATE | EXCLUSIVE, payload)
    came = first(events, of_route(packed, gone=False))
    namespace.route.change(route.DELETE, 0, payload)
    went = first(events, of_route(packed, gone=True))
    assert (came.kind, went.kind) == ("route", "route")
    assert isinstance(went.value, RouteRecord)
    assert (went.value.prefix, went.value.protocol) == (prefix, 196)


def test_a_neighbour_is_told_to_who_asked_for_it(namespace: Namespace) -> None:
    set_up(namespace, make_veth(namespace, "one"))
    with Events.open(namespace, groups=["neighbour"]) as events:
        ip(namespace, "neighbour add 192.0.2.7 lladdr 02:00:00:00:00:07 dev one nud permanent")
        found = first(events, lambda event: not event.gone).value
    assert isinstance(found, NeighbourRecord)
    assert (found.address, found.mac) == (socket.inet_aton("192.0.2.7"), "02:00:00:00:00:07")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["v4", "v6"])
def test_a_rule_is_told_to_who_asked_for_it(namespace: Namespace, family: int) -> None:
    with Events.open(namespace, groups=["rule"]) as events:
        ip(namespace, f"-{4 if family == socket.AF_INET else 6} rule add priority 77 table 77")
        found = first(events, lambda event: not event.gone).value
    assert isinstance(found, RuleRecord)
    assert (found.family, found.priority, found.action) == (family, 77, rule.LOOKUP)


def test_what_was_not_asked_for_is_not_told(namespace: Namespace) -> None:
    with Events.open(namespace, groups=["address"]) as events:
        index = make_veth(namespace, "one")
        set_up(namespace, index)
        packed = socket.inet_aton("192.0.2.1")
        namespace.route.change(
            address.NEW, CREATE | EXCLUSIVE, address.build(index, socket.AF_INET, packed, 32)
        )
        first(events, of_address("192.0.2.1", gone=False))
        delete(namespace, index)
        kinds = {event.kind for event in events.read(0.2) if isinstance(event, KernelEvent)}
    assert kinds == {"address"}


def leave_a_bridge(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")
    namespace.route.change(
        link.NEW, CREATE | EXCLUSIVE, link.create("bridge", link.properties(name="br"), b"")
    )
    bridge = namespace.route.index("br")
    namespace.route.change(link.NEW, 0, link.change(index, link.properties(master=bridge)))
    namespace.route.change(link.NEW, 0, link.change(index, link.properties(master=0)))


def test_a_port_that_leaves_its_bridge_is_no_link_that_is_gone(namespace: Namespace, events: Events) -> None:
    leave_a_bridge(namespace)
    found = [event for event in events.read(0.2) if isinstance(event, KernelEvent)]
    assert {(event.kind, event.gone) for event in found} == {("link", False)}


def test_a_port_that_leaves_its_bridge_is_told_to_who_asked_for_ports(namespace: Namespace) -> None:
    with Events.open(namespace, ["port"]) as events:
        leave_a_bridge(namespace)
        found = [event for event in events.read(0.2) if isinstance(event, KernelEvent)]
    assert {event.kind for event in found} == {"port"}
    assert of_link("one", gone=True)(found[-1])


def test_an_overflow_is_told_as_lost(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")
    with Events.open(namespace, receive_buffer=TINY) as events:
        storm(namespace, index, 200)
        assert EventsLost() in list(events.read(0))


def test_what_happens_after_lost_is_told(namespace: Namespace) -> None:
    """A socket that overflowed stays deaf until it is empty; nobody may look before it hears again."""
    index = make_veth(namespace, "one")
    with Events.open(namespace, receive_buffer=TINY) as events:
        storm(namespace, index, 200)
        assert any(event == EventsLost() for event in events.read(PATIENCE))
        make_veth(namespace, "later")
        heard = [event for event in events.read(0.2) if event == EventsLost() or _is_later(event)]
    assert heard


def _is_later(event: KernelEvent | EventsLost) -> bool:
    return isinstance(event, KernelEvent) and of_link("later", gone=False)(event)


def test_a_storm_that_nobody_reads_is_not_kept(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")
    rounds = 500
    with Events.open(namespace, receive_buffer=TINY) as events:
        storm(namespace, index, rounds)
        assert len(list(events.read(0))) < rounds / 10


def test_reading_ends_at_its_deadline_in_the_middle_of_a_storm(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")
    over = threading.Event()

    def blow() -> None:
        while not over.is_set():
            storm(namespace, index, 10)

    with Events.open(namespace, receive_buffer=TINY) as events:
        wind = threading.Thread(target=blow)
        wind.start()
        try:
            started = time.monotonic()
            seen = sum(1 for _ in events.read(0.5))
            took = time.monotonic() - started
        finally:
            over.set()
            wind.join()
    assert seen > 1
    assert took < 10


def test_reading_ends_at_its_deadline_though_every_event_causes_the_next(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")
    limit = 1000
    with Events.open(namespace, receive_buffer=TINY) as events:
        storm(namespace, index, 1)
        seen = 0
        for _ in events.read(0):
            seen += 1
            if seen == limit:
                break
            storm(namespace, index, 1 + seen % 2)
    assert 1 < seen < limit


def test_reading_without_events_ends_at_its_deadline(events: Events) -> None:
    started = time.monotonic()
    assert list(events.read(0.2)) == []
    assert 0.2 <= time.monotonic() - started < 10


def test_a_timeout_of_nothing_takes_all_that_is_there(namespace: Namespace, events: Events) -> None:
    index = make_veth(namespace, "one")
    delete(namespace, index)
    found = [event for event in events.read(0) if isinstance(event, KernelEvent)]
    assert [event for event in found if of_link("one", gone=False)(event)]
    assert [event for event in found if of_link("one", gone=True)(event)]


class Garbling(NetlinkConnection):
    """Cuts the first notification short, as no kernel is known to do."""

    garbled = False

    def notifications(self) -> list[NetlinkMessage]:
        found = super().notifications()
        if self.garbled or not found:
            return found
        self.garbled = True
        return [found[0]._replace(payload=found[0].payload[:5])]


def test_a_message_that_cannot_be_read_is_lost(namespace: Namespace) -> None:
    with namespace.entered():
        connection = Garbling.open(ROUTE, groups=(1,))
    with Events(connection, ["link"], most=100) as events:
        make_veth(namespace, "one")
        assert list(events.read(0)) == [EventsLost()]


def test_closing_ends_a_reader_that_waits(events: Events) -> None:
    ended = threading.Event()

    def read() -> None:
        for _ in events.read():
            pass
        ended.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    time.sleep(0.1)
    assert not ended.is_set()
    events.close()
    assert ended.wait(PATIENCE)


def test_closing_in_the_middle_of_a_loop_ends_it(namespace: Namespace, events: Events) -> None:
    make_veth(namespace, "one")
    seen = 0
    for _ in events.read(PATIENCE):
        seen += 1
        events.close()
    assert seen == 1


def test_reading_what_is_closed_gives_nothing(events: Events) -> None:
    events.close()
    events.close()
    assert list(events.read()) == []


def test_closing_while_reading_leaves_no_descriptor(namespace: Namespace) -> None:
    before = descriptors()
    for _ in range(20):
        events = Events.open(namespace)
        reader = threading.Thread(target=lambda opened: list(opened.read()), args=(events,))
        reader.start()
        events.close()
        reader.join(PATIENCE)
        assert not reader.is_alive()
    assert descriptors() == before


def test_a_stream_that_is_dropped_leaves_no_descriptor(namespace: Namespace) -> None:
    before = descriptors()
    Events.open(namespace)
    assert descriptors() == before


def test_an_event_loop_reads_events(namespace: Namespace) -> None:
    async def run() -> KernelEvent:
        with await Events.open_async(namespace) as events:
            await asyncio.to_thread(make_veth, namespace, "one")
            async with asyncio.timeout(PATIENCE):
                async for event in events:
                    if isinstance(event, KernelEvent) and of_link("one", gone=False)(event):
                        return event
        pytest.fail("the event did not come")

    assert asyncio.run(run()).kind == "link"


def test_an_event_loop_that_already_waits_is_woken(namespace: Namespace) -> None:
    async def run() -> KernelEvent | EventsLost | None:
        with await Events.open_async(namespace) as events:
            waiting = asyncio.create_task(events.next())
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await asyncio.to_thread(make_veth, namespace, "one")
            return await asyncio.wait_for(waiting, PATIENCE)

    assert isinstance(asyncio.run(run()), KernelEvent)


def test_an_overflow_reaches_an_event_loop(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")

    async def run() -> bool:
        with await Events.open_async(namespace, receive_buffer=TINY) as events:
            await asyncio.to_thread(storm, namespace, index, 200)
            async with asyncio.timeout(PATIENCE):
                async for event in events:
                    if event == EventsLost():
                        return True
        return False

    assert asyncio.run(run())


def test_a_wait_that_is_cancelled_loses_nothing(namespace: Namespace) -> None:
    async def run() -> KernelEvent | EventsLost | None:
        with await Events.open_async(namespace) as events:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(events.next(), 0.05)
            await asyncio.to_thread(make_veth, namespace, "one")
            return await asyncio.wait_for(events.next(), PATIENCE)

    assert isinstance(asyncio.run(run()), KernelEvent)


def test_closing_ends_an_asynchronous_loop_and_leaves_no_descriptor(namespace: Namespace) -> None:
    async def run() -> tuple[int, int, list[KernelEvent | EventsLost]]:
        await asyncio.to_thread(lambda: None)
        before = descriptors()
        events = await Events.open_async(namespace)

        async def collect() -> list[KernelEvent | EventsLost]:
            return [event async for event in events]

        waiting = asyncio.create_task(collect())
        await asyncio.sleep(0.05)
        events.close()
        found = await asyncio.wait_for(waiting, PATIENCE)
        return before, descriptors(), found

    before, after, found = asyncio.run(run())
    assert found == []
    assert after == before


def test_a_storm_leaves_the_event_loop_its_turns(namespace: Namespace) -> None:
    index = make_veth(namespace, "one")

    async def run() -> bool:
        with await Events.open_async(namespace) as events:
            await asyncio.to_thread(storm, namespace, index, 100)
            turned = asyncio.Event()
            asyncio.get_running_loop().call_soon(turned.set)
            await events.next()
            await events.next()
            return turned.is_set()

    assert asyncio.run(run())


def test_opening_on_an_event_loop_is_refused(namespace: Namespace) -> None:
    async def run() -> None:
        Events.open(namespace)

    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(run())


# Rules.

_TABLE = "table inet t { set s { type ipv4_addr; }; }"


def change_element(namespace: Namespace, kind: int) -> None:
    item = nft_elements.Item(("inet", "t", "s"), socket.inet_aton("192.0.2.1"))
    nft_elements.change_elements(namespace.netfilter, kind, [item])


def test_each_transaction_of_nftables_is_one_event(namespace: Namespace) -> None:
    with Events.open(namespace, ("ruleset",)) as events:
        namespace.nft.run(_TABLE)
        namespace.nft.run("flush ruleset")
        first, second = list(events.read(0))
    assert isinstance(first, KernelEvent)
    assert isinstance(second, KernelEvent)
    assert isinstance(first.value, nftables.Generation)
    assert isinstance(second.value, nftables.Generation)
    assert second.value.number == first.value.number + 1


def test_changes_of_a_connection_that_is_ignored_are_not_told(namespace: Namespace) -> None:
    namespace.nft.run(_TABLE)
    with Events.open(namespace, ("ruleset",), ignoring=(namespace.netfilter.port,)) as events:
        change_element(namespace, nft_elements.NEW_ELEMENT)
        change_element(namespace, nft_elements.DELETE_ELEMENT)
        assert list(events.read(0)) == []
        namespace.nft.run("delete table inet t")
        assert len(list(events.read(0))) == 1


def test_more_changes_of_rules_than_fit_are_told_as_lost(namespace: Namespace) -> None:
    namespace.nft.run(_TABLE)
    with Events.open(namespace, ("ruleset",), TINY) as events:
        for _ in range(100):
            change_element(namespace, nft_elements.NEW_ELEMENT)
            change_element(namespace, nft_elements.DELETE_ELEMENT)
        assert EventsLost() in list(events.read(0))
        change_element(namespace, nft_elements.NEW_ELEMENT)
        assert len(list(events.read(0))) == 1


def test_rules_and_links_are_not_one_stream(namespace: Namespace) -> None:
    with pytest.raises(ValueError, match="cannot be combined"):
        Events.open(namespace, ("ruleset", "link"))
