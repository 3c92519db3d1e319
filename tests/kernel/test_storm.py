"""Removals while links come and go by the thousand, and notifications are lost."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from netloom.kernel import Address, Bridge, Namespace, Plan, Up, Veth
from netloom.kernel.dataplane import Dataplane
from netloom.kernel.netlink import link
from netloom.kernel.netlink.message import CREATE, EXCLUSIVE
from netloom.kernel.objects.link import find

pytestmark = pytest.mark.kernel

TINY = 4096  # bytes of receive buffer: two or three notifications
GROUP = 4711


def attachment(number: int) -> Plan:
    name = f"nl{number}"
    return Plan(
        (
            Veth(name, "eth0", mac="02:00:00:00:00:01", peer_mac="02:00:00:00:00:02"),
            Up(name),
            Up("eth0", on="attachment"),
            Address("eth0", "10.0.0.2/32", on="attachment"),
        )
    )


class Storm:
    """Links that appear and vanish, a hundred at a time, in the host's namespace."""

    def __init__(self, host: Namespace, links: int) -> None:
        self._namespace = Namespace.of_descriptor(host.fileno(), "the storm's")
        self._links = links
        self.links = 0
        self.stop = threading.Event()
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._blow)

    def _blow(self) -> None:
        connection = self._namespace.route
        while not (self.links >= self._links and self.stop.is_set()):
            for number in range(50):
                near = link.properties(name=f"s{number}a", group=GROUP)
                far = link.properties(name=f"s{number}b")
                data = link.create("veth", near, link.veth_peer(far, None))
                connection.change(link.NEW, CREATE | EXCLUSIVE, data)
            self.links += 100
            connection.change(link.DELETE, 0, link.delete_group(GROUP))
        self._namespace.close()

    @contextmanager
    def blowing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self.stop.set()
            self._thread.join()


@contextmanager
def in_the_way() -> Iterator[None]:
    """A thread that lets no other one run before it has to."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_no_removal_misses_its_end_and_none_ends_too_early(
    host: Namespace, new_namespace: Callable[[], Namespace]
) -> None:
    """With a receive buffer that overflows, and a thousand other links that come and go."""
    storm = Storm(host, 1000)
    rounds, together = 12, 8
    slowest = 0.0
    with Dataplane(host, receive_buffer=TINY) as dataplane, storm.blowing(), ExitStack() as stack:
        for number in itertools.count():
            if number >= rounds and (dataplane.losses or number >= 20 * rounds):
                break
            if number == rounds:
                # Whoever reads the notifications has kept up with all of them: it gets less of the processor.
                stack.enter_context(in_the_way())
            pods = [new_namespace() for _ in range(together)]
            start = time.monotonic()
            for added in [dataplane.apply(attachment(n), pod) for n, pod in enumerate(pods)]:
                added.result(20)
            indexes = [host.route.index(f"nl{number}") for number in range(together)]
            requests = [dataplane.remove(attachment(n), pod) for n, pod in enumerate(pods)]
            for number, request in enumerate(requests):
                request.result(20)
                assert find(host, f"nl{number}") is None, "it ended before the link was gone"
                assert find(pods[number], "eth0") is None, "it ended before the peer was gone"
            slowest = max(slowest, time.monotonic() - start)
            assert len(set(indexes)) == together
        lost = dataplane.losses
    assert storm.links >= 1000
    assert lost > 0, "nothing was lost, so nothing was tested"
    assert slowest < 10


def test_a_storm_does_not_stall_the_queue_or_fill_the_memory(host: Namespace, pod: Namespace) -> None:
    with Dataplane(host) as dataplane:
        dataplane.apply(attachment(0), pod).result(20)
        dataplane.remove(attachment(0), pod).result(20)
        before = resident()
        storm = Storm(host, 3000)
        answered = 0
        with storm.blowing():
            while storm.links < 3000:
                dataplane.check(Plan((Bridge("br0"),))).result(20)
                answered += 1
                time.sleep(0.005)
        grown = resident() - before
    # Counted, not timed: the kernel has one lock for the links of all namespaces, which may be held elsewhere
    # for seconds. Whoever reads the whole storm first answers when it is over, once.
    assert answered > 10
    assert grown < 8 << 20


def test_a_removal_ends_when_somebody_else_removes_the_link_first(
    dataplane: Dataplane, host: Namespace, new_namespace: Callable[[], Namespace]
) -> None:
    for number in range(10):
        pod = new_namespace()
        dataplane.apply(attachment(number), pod).result(20)
        removal = dataplane.remove(attachment(number), pod)
        pod.close()  # which takes the veth along, at its own time
        removal.result(20)
        assert find(host, f"nl{number}") is None


def test_two_removals_of_one_link_both_succeed(
    dataplane: Dataplane, host: Namespace, new_namespace: Callable[[], Namespace]
) -> None:
    for number in range(10):
        pod = new_namespace()
        dataplane.apply(attachment(number), pod).result(20)
        requests = [dataplane.remove(attachment(number), pod) for _ in range(3)]
        for request in requests:
            request.result(20)
        assert find(host, f"nl{number}") is None


def test_links_that_were_not_to_be_removed_survive_those_that_go_together(
    dataplane: Dataplane, host: Namespace, new_namespace: Callable[[], Namespace]
) -> None:
    """Removals that wait together become a group: nobody else's link is in it, nor another of ours."""
    theirs = link.create("bridge", link.properties(name="theirs", group=GROUP))
    host.route.change(link.NEW, CREATE | EXCLUSIVE, theirs)
    pods = [new_namespace() for _ in range(32)]
    for number, pod in enumerate(pods):
        dataplane.apply(attachment(number), pod).result(20)
    for request in [dataplane.remove(attachment(number), pods[number]) for number in range(0, 32, 2)]:
        request.result(20)
    assert find(host, "theirs") is not None
    assert [find(host, f"nl{number}") is not None for number in range(32)] == [False, True] * 16
