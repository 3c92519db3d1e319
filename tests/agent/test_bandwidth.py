"""Limits: a container sends and receives as fast as it may, and nobody else is slowed."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import pytest

from netloom.kernel import Namespace

from ..fixtures.node import Node, Outcome, eventually

pytestmark = pytest.mark.kernel

Direction = Literal["ingress", "egress"]
DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
MBIT = 1_000_000

TOLERANCE = 0.1
# The machine may have something else to do for a while.
LONGEST = 60.0
WARM_UP = 0.4
PIECE = bytes(1 << 16)
DATAGRAM = bytes(1400)


class Way(NamedTuple):
    """From a container to another one's address."""

    sender: str
    receiver: str
    address: str

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET


class Pair(NamedTuple):
    """A container that may be limited, and one that is not; both with their addresses."""

    node: Node
    limited: str
    added: Outcome
    other: str
    others: list[str]

    @property
    def host_link(self) -> str:
        return str(self.added.document["interfaces"][0]["name"])

    @property
    def queue(self) -> str:
        return self.host_link.replace("loom", "lque")

    def way(self, direction: Direction, family: int = 0) -> Way:
        """By which traffic comes that is limited so."""
        if direction == "ingress":
            return Way(self.other, self.limited, self.added.addresses[family])
        return Way(self.limited, self.other, self.others[family])


def paired(node: Node, config: bytes) -> Pair:
    limited, other = node.container(), node.container()
    return Pair(node, limited, node.add(limited, config), other, node.add(other).addresses)


def told(node: Node, **bandwidth: int) -> bytes:
    """A configuration as a runtime gives it that was told of limits."""
    return node.config(runtimeConfig={"bandwidth": bandwidth})


# Traffic.


@contextmanager
def entered(container: str) -> Iterator[None]:
    with Namespace.open(f"/run/netns/{container}") as namespace, namespace.entered():
        yield


@contextmanager
def working(work: Callable[[], object]) -> Iterator[None]:
    """It is done again and again meanwhile, until that fails."""

    def run() -> None:
        with contextlib.suppress(OSError):
            while not ended.is_set():
                work()

    ended = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def tcp(way: Way) -> Iterator[socket.socket]:
    """The end of a connection into which as much is sent as it takes."""
    with entered(way.receiver), socket.create_server((way.address, 0), family=way.family) as listening:
        with entered(way.sender):
            sending = socket.create_connection(listening.getsockname()[:2], timeout=5)
        receiving, _ = listening.accept()
    with sending, receiving, working(lambda: sending.send(PIECE)):
        receiving.settimeout(5)
        try:
            yield receiving
        finally:
            sending.shutdown(socket.SHUT_RDWR)


@contextmanager
def udp(way: Way, offered: float) -> Iterator[socket.socket]:
    """A socket to which datagrams are sent, so many bits a second."""
    with entered(way.receiver):
        receiving = socket.socket(way.family, socket.SOCK_DGRAM)
    with entered(way.sender):
        sending = socket.socket(way.family, socket.SOCK_DGRAM)
    with receiving, sending:
        receiving.bind((way.address, 0))
        receiving.settimeout(5)
        sending.connect(receiving.getsockname()[:2])
        interval = len(DATAGRAM) * 8 / offered
        begun, sent = time.monotonic(), 0

        def send() -> None:
            nonlocal sent
            due = (time.monotonic() - begun) / interval
            while sent < due:
                sending.send(DATAGRAM)
                sent += 1
            time.sleep(0.001)

        with working(send):
            yield receiving


@contextmanager
def busy(way: Way) -> Iterator[None]:
    """As much goes there meanwhile as can."""
    with tcp(way) as receiving, working(lambda: receiving.recv(1 << 20)):
        yield


def received(receiving: socket.socket, seconds: float) -> float:
    """Bits a second that arrive from now on."""
    begun, total = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        total += len(receiving.recv(1 << 20))
    return total * 8 / passed


def tcp_rate(way: Way, seconds: float = 1.2, warm_up: float = WARM_UP) -> float:
    with tcp(way) as receiving:
        received(receiving, warm_up)
        return received(receiving, seconds)


def udp_rate(way: Way, offered: float, seconds: float = 0.8) -> float:
    with udp(way, offered) as receiving:
        received(receiving, WARM_UP)
        return received(receiving, seconds)


def assert_is(rate: float, measure: Callable[[], float]) -> None:
    """Within a tenth. Headers count, too, which are up to 4 % of what a container sends."""
    measured: list[float] = []
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        measured.append(measure())
        if abs(measured[-1] / rate - 1) <= TOLERANCE:
            return
    shown = ", ".join(f"{it / MBIT:.2f}" for it in measured)
    pytest.fail(f"{shown} Mbit/s were measured, not {rate / MBIT:.2f}")


# What the kernel says.


def shapers(pair: Pair) -> dict[str, tuple[int, int]]:
    """By direction, what the kernel was told: bits a second, and bits at once."""
    found = {}
    for direction, link in (("ingress", pair.host_link), ("egress", pair.queue)):
        for qdisc in qdiscs(pair.node, link):
            if qdisc["kind"] == "tbf":
                found[direction] = (qdisc["options"]["rate"] * 8, qdisc["options"]["burst"] * 8)
    return found


def passed(pair: Pair) -> dict[str, int]:
    """By direction, what has passed."""
    links = {"ingress": pair.host_link, "egress": pair.queue}
    return {
        direction: qdisc["bytes"]
        for direction, link in links.items()
        for qdisc in qdiscs(pair.node, link)
        if qdisc["kind"] == "tbf"
    }


def qdiscs(node: Node, link: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(node.inside("tc", "-s", "-j", "qdisc", "show"))
    return [it for it in listed if it.get("dev") == link]


# How fast it is.


@pytest.mark.parametrize("rate", [5 * MBIT, 50 * MBIT, 500 * MBIT])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_tcp_is_as_fast_as_the_limit(shared: Node, direction: Direction, rate: int) -> None:
    pair = paired(shared, told(shared, **{f"{direction}Rate": rate}))
    # The slower it is, the longer a sender takes to find that out. What it has lost meanwhile comes again,
    # and then much else at once that had to wait for it.
    warm_up = WARM_UP + 5 * MBIT / rate
    assert_is(rate, lambda: tcp_rate(pair.way(direction), warm_up=warm_up))


@pytest.mark.parametrize("rate", [5 * MBIT, 50 * MBIT])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_udp_is_as_fast_as_the_limit(shared: Node, direction: Direction, rate: int) -> None:
    pair = paired(shared, told(shared, **{f"{direction}Rate": rate}))
    assert_is(rate, lambda: udp_rate(pair.way(direction), offered=2 * rate))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_both_families_share_a_limit(shared: Node, direction: Direction) -> None:
    rate = 20 * MBIT
    pair = paired(shared, told(shared, **{f"{direction}Rate": rate}))

    def measured() -> float:
        time.sleep(WARM_UP)
        before, begun = passed(pair)[direction], time.monotonic()
        time.sleep(0.8)
        after, ended = passed(pair)[direction], time.monotonic()
        return (after - before) * 8 / (ended - begun)

    with busy(pair.way(direction)), busy(pair.way(direction, family=1)):
        assert_is(rate, measured)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_direction_alone_may_be_limited(shared: Node, direction: Direction) -> None:
    pair = paired(shared, told(shared, **{f"{direction}Rate": 5 * MBIT}))
    other: Direction = "egress" if direction == "ingress" else "ingress"
    assert eventually(lambda: tcp_rate(pair.way(other), seconds=0.5) > 50 * MBIT)


def test_a_neighbour_of_a_limited_container_is_not_slowed(shared: Node) -> None:
    pair = paired(shared, told(shared, ingressRate=5 * MBIT, egressRate=5 * MBIT))
    third = shared.container()
    neighbours = Way(third, pair.other, pair.others[0])
    shared.add(third)
    with busy(pair.way("ingress")), busy(pair.way("egress")):
        assert eventually(lambda: tcp_rate(neighbours, seconds=0.5) > 50 * MBIT)


def test_without_a_burst_what_comes_first_is_little_more_than_the_rate(shared: Node) -> None:
    """A fiftieth of a second's worth: nobody who asks for 50 Mbit/s gets a second of all that there is."""
    rate = 50 * MBIT
    pair = paired(shared, told(shared, ingressRate=rate))
    begun = time.monotonic()
    with udp(pair.way("ingress"), offered=4 * rate) as receiving:
        received(receiving, 0.1 - (time.monotonic() - begun))
        # Counted by the kernel, and so to the moment at which it is asked.
        total, took = passed(pair)["ingress"] * 8, time.monotonic() - begun
    assert total <= 1.05 * rate * (took + 0.02)


def test_a_burst_comes_at_once(shared: Node) -> None:
    """Of 4 Mbit, at 4 Mbit/s: without it, they would take a second."""
    pair = paired(shared, told(shared, ingressRate=4 * MBIT, ingressBurst=4 * MBIT))

    def arrives() -> bool:
        begun, total = time.monotonic(), 0
        with tcp(pair.way("ingress")) as receiving:
            while total < 3 * MBIT / 8:
                total += len(receiving.recv(1 << 20))
            took = time.monotonic() - begun
        time.sleep(1)
        return took < 0.5

    assert eventually(arrives, patience=10)


# What is said of it, and by whom.


@pytest.mark.parametrize("burst", [2147483647, 4294967295, 34359738367])
def test_a_burst_that_is_as_good_as_none_is_not_said(shared: Node, burst: int) -> None:
    """As runtimes send it with every limit. It would be seconds of no limit at all."""
    plain = paired(shared, told(shared, ingressRate=5 * MBIT, egressRate=50 * MBIT))
    boundless = told(
        shared, ingressRate=5 * MBIT, egressRate=50 * MBIT, ingressBurst=burst, egressBurst=burst
    )
    assert shapers(paired(shared, boundless)) == shapers(plain)


def rates(pair: Pair) -> dict[str, int]:
    return {direction: rate for direction, (rate, _) in shapers(pair).items()}


def test_a_network_may_have_limits_for_all_of_its_containers(shared: Node) -> None:
    pair = paired(shared, shared.config(bandwidth={"ingressRate": 8 * MBIT, "egressRate": 16 * MBIT}))
    assert rates(pair) == {"ingress": 8 * MBIT, "egress": 16 * MBIT}


def test_of_each_direction_the_runtime_has_the_last_word(shared: Node) -> None:
    config = shared.config(
        bandwidth={"ingressRate": 8 * MBIT, "ingressBurst": 4 * MBIT, "egressRate": 16 * MBIT},
        runtimeConfig={"bandwidth": {"ingressRate": 24 * MBIT, "ingressBurst": 8 * MBIT}},
    )
    pair = paired(shared, config)
    assert rates(pair) == {"ingress": 24 * MBIT, "egress": 16 * MBIT}
    assert shapers(pair)["ingress"][1] == pytest.approx(8 * MBIT, rel=0.01)


@pytest.mark.parametrize(
    "keys",
    [
        {"bandwidth": {}},
        {"bandwidth": {"ingressRate": 0, "egressRate": 0}},
        {"runtimeConfig": {"bandwidth": {"ingressRate": 0, "ingressBurst": 0}}},
        {"runtimeConfig": {"bandwidth": None}},
    ],
    ids=json.dumps,
)
def test_a_rate_of_nothing_is_no_limit(shared: Node, keys: dict[str, Any]) -> None:
    pair = paired(shared, shared.config(**keys))
    assert shapers(pair) == {}
    assert pair.queue not in shared.inside("ip", "link")


@pytest.mark.parametrize("rate", [8_000, 400_000_000_000])
def test_the_slowest_and_the_fastest_limit_work(shared: Node, rate: int) -> None:
    pair = paired(shared, told(shared, ingressRate=rate, egressRate=rate))
    assert rates(pair) == {"ingress": rate, "egress": rate}
    assert shared.audit() == []


# What becomes of it.


def test_nothing_is_left_after_del(shared: Node) -> None:
    pair = paired(shared, told(shared, ingressRate=5 * MBIT, egressRate=5 * MBIT))
    assert pair.queue in shared.inside("ip", "link")
    shared.delete(pair.limited)
    assert "lque" not in shared.inside("ip", "link")
    assert "tbf" not in shared.inside("tc", "qdisc", "show")


def test_nothing_is_left_of_a_container_whose_namespace_went_first(node: Node) -> None:
    node.start("--tick", "0.1", "--grace", "0.3")
    pair = paired(node, told(node, egressRate=5 * MBIT))
    node.remove_container(pair.limited)
    assert eventually(lambda: "lque" not in node.inside("ip", "link"))
    assert eventually(lambda: node.audit() == []), node.audit()


def test_a_limit_can_be_taken_away_by_nobody_inside(shared: Node) -> None:
    rate = 5 * MBIT
    pair = paired(shared, told(shared, ingressRate=rate, egressRate=rate))
    for words in (["root"], ["ingress"], ["clsact"]):
        shared.in_container(pair.limited, "tc", "qdisc", "del", "dev", "eth0", *words, check=False)
    assert_is(rate, lambda: udp_rate(pair.way("egress"), offered=2 * rate))


class Loss(NamedTuple):
    """What takes a limit away, and of which direction."""

    direction: Direction
    command: list[str]

    def of(self, pair: Pair) -> None:
        names = {"HOST": pair.host_link, "QUEUE": pair.queue}
        pair.node.inside(*(names.get(word, word) for word in self.command))


LOSSES = {
    "what waits for the container": Loss("ingress", ["tc", "qdisc", "del", "dev", "HOST", "root"]),
    "what waits behind it": Loss("egress", ["tc", "qdisc", "del", "dev", "QUEUE", "root"]),
    "the way to the queue": Loss("egress", ["tc", "filter", "del", "dev", "HOST", "ingress"]),
    "the hook": Loss("egress", ["tc", "qdisc", "del", "dev", "HOST", "ingress"]),
    "the queue's link": Loss("egress", ["ip", "link", "del", "QUEUE"]),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_check_tells_of_a_limit_that_is_gone(node: Node, loss: Loss) -> None:
    node.start("--tick", "600")
    limits = {"runtimeConfig": {"bandwidth": {"ingressRate": 5 * MBIT, "egressRate": 5 * MBIT}}}
    pair = paired(node, node.config_with(limits))
    config = node.config_with({**limits, "prevResult": pair.added.document})
    assert node.plugin("CHECK", pair.limited, config).status == 0

    def is_told() -> bool:
        loss.of(pair)
        return node.plugin("CHECK", pair.limited, config).code == 103

    # A link that is gone is soon back, and may have been so before it was looked for.
    assert eventually(is_told)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_limit_that_is_lost_comes_back_and_is_counted(node: Node, loss: Loss) -> None:
    node.start("--tick", "0.1")
    rate = 5 * MBIT
    pair = paired(node, told(node, ingressRate=rate, egressRate=rate))
    loss.of(pair)
    assert eventually(lambda: node.counted("repaired") >= 1)
    assert eventually(lambda: node.audit() == []), node.audit()
    assert_is(rate, lambda: udp_rate(pair.way(loss.direction), offered=2 * rate, seconds=0.5))
