"""The dataplane: order, bounds, deadlines, and what becomes of requests that nobody waits for."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from netloom.kernel import (
    Address,
    Bridge,
    Conflict,
    DeadlineExceeded,
    InvalidPlan,
    Namespace,
    Object,
    Plan,
    QueueFull,
    Refused,
    Route,
    Stopped,
    Up,
    Veth,
)
from netloom.kernel.dataplane import Dataplane
from netloom.kernel.objects.base import Scope, Undo
from netloom.kernel.objects.link import find

pytestmark = pytest.mark.kernel

MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"


def veth(name: str = "nl0") -> Plan:
    return Plan(
        (
            Veth(name, "eth0", mac=MAC, peer_mac=PEER_MAC),
            Up(name),
            Up("eth0", on="attachment"),
            Address("eth0", "10.0.0.2/32", on="attachment"),
            Address("eth0", "fd00::2/128", on="attachment"),
        )
    )


class Gate(Object, frozen=True, tag="gate"):
    """An object of a test: it tells that it is being applied, and waits to be let through."""

    reached: threading.Event
    opened: threading.Event

    @property
    def label(self) -> str:
        return "gate"

    def apply(self, scope: Scope) -> Undo | None:
        del scope
        self.reached.set()
        assert self.opened.wait(10)
        return None


def gate() -> Gate:
    return Gate(threading.Event(), threading.Event())


def plan_of(*objects: Object) -> Plan:
    return Plan(objects)  # type: ignore[arg-type]


def test_a_plan_is_applied_checked_and_removed(dataplane: Dataplane, host: Namespace, pod: Namespace) -> None:
    changes = dataplane.apply(veth(), pod).result(5)
    assert [change.change for change in changes] == ["made"] * 5
    assert dataplane.check(veth(), pod).result(5) == []
    dataplane.remove(veth(), pod).result(5)
    assert find(host, "nl0") is None
    assert find(pod, "eth0") is None


def test_a_removal_ends_before_the_kernel_acknowledges_it(
    dataplane: Dataplane, host: Namespace, new_namespace: Callable[[], Namespace]
) -> None:
    """Otherwise each would take an RCU barrier: 15 ms and more."""
    took = []
    for _ in range(20):
        pod = new_namespace()
        dataplane.apply(veth(), pod).result(5)
        start = time.monotonic()
        dataplane.remove(veth(), pod).result(5)
        took.append(time.monotonic() - start)
        assert find(host, "nl0") is None
    assert sorted(took)[10] < 0.010


def test_requests_can_be_awaited_on_an_event_loop(host: Namespace, pod: Namespace) -> None:
    async def scenario(dataplane: Dataplane) -> None:
        changes = await dataplane.apply(veth(), pod)
        assert len(changes) == 5
        await dataplane.remove(veth(), pod)

    with Dataplane(host) as dataplane:
        asyncio.run(scenario(dataplane))
    assert find(host, "nl0") is None


def test_the_namespace_may_be_closed_as_soon_as_a_request_was_made(
    dataplane: Dataplane, host: Namespace
) -> None:
    stopper = gate()
    blocked = dataplane.apply(plan_of(stopper))
    pod = Namespace.new()
    request = dataplane.apply(veth(), pod)
    keep = os.dup(pod.fileno())
    pod.close()
    stopper.opened.set()
    blocked.result(5)
    assert len(request.result(5)) == 5
    os.close(keep)
    assert find(host, "nl0") is not None


def test_an_error_of_the_kernel_is_the_answer(dataplane: Dataplane) -> None:
    with pytest.raises(Refused, match="nowhere"):
        dataplane.apply(plan_of(Address("nowhere", "10.0.0.1/24"))).result(5)


def test_objects_in_an_attachment_need_its_namespace(dataplane: Dataplane, host: Namespace) -> None:
    with pytest.raises(InvalidPlan):
        dataplane.apply(veth()).result(5)
    assert find(host, "nl0") is None


def test_a_failed_plan_is_taken_back_without_stopping_others(
    dataplane: Dataplane, host: Namespace, pod: Namespace
) -> None:
    broken = Plan((*veth().objects, Route("10.9.0.0/16", via="192.0.2.1")))
    other = Plan((Bridge("br0"),))
    failed, made = dataplane.apply(broken, pod), dataplane.apply(other)
    with pytest.raises(Refused):
        failed.result(5)
    made.result(5)
    assert find(host, "nl0") is None
    assert find(host, "br0") is not None


def test_what_is_not_ours_is_left_when_it_is_removed(
    dataplane: Dataplane, host: Namespace, pod: Namespace
) -> None:
    theirs = Plan((Veth("nl0", "eth0", mac="02:00:00:00:00:99"),))
    dataplane.apply(theirs, pod).result(5)
    with pytest.raises(Conflict):
        dataplane.remove(veth(), pod).result(5)
    assert find(host, "nl0") is not None


def test_a_full_queue_refuses_at_once_and_does_nothing(host: Namespace) -> None:
    stopper = gate()
    with Dataplane(host, limit=2) as dataplane:
        requests = [dataplane.apply(plan_of(stopper)), dataplane.apply(Plan((Bridge("br0"),)))]
        with pytest.raises(QueueFull):
            dataplane.apply(Plan((Bridge("br1"),)))
        stopper.opened.set()
        for request in requests:
            request.result(5)
    assert find(host, "br1") is None


def test_a_flood_of_additions_does_not_shut_removals_out(host: Namespace) -> None:
    stopper = gate()
    with Dataplane(host, limit=50) as dataplane:
        dataplane.apply(Plan((Bridge("br0"),))).result(5)
        blocked = dataplane.apply(plan_of(stopper))
        stopper.reached.wait(5)
        flood = [dataplane.apply(Plan((Bridge(f"x{number}"),))) for number in range(49)]
        removal = dataplane.remove(Plan((Bridge("br0"),)))
        behind = []
        removal.add_done_callback(lambda _: behind.append(sum(not request.done() for request in flood)))
        stopper.opened.set()
        blocked.result(5)
        removal.result(5)
        for request in flood:
            request.result(5)
    assert behind[0] > 0


def test_a_request_that_waited_too_long_is_never_begun(dataplane: Dataplane, host: Namespace) -> None:
    stopper = gate()
    blocked = dataplane.apply(plan_of(stopper))
    late = dataplane.apply(Plan((Bridge("br0"),)), timeout=0.05)
    time.sleep(0.1)
    stopper.opened.set()
    blocked.result(5)
    with pytest.raises(DeadlineExceeded, match="nothing was done"):
        late.result(5)
    assert find(host, "br0") is None


def test_a_deadline_in_the_middle_undoes_what_was_made(
    dataplane: Dataplane, host: Namespace, pod: Namespace
) -> None:
    stopper = gate()
    request = dataplane.apply(plan_of(*veth().objects, stopper, Bridge("br0")), pod, timeout=0.2)
    assert stopper.reached.wait(5)
    time.sleep(0.25)
    stopper.opened.set()
    with pytest.raises(DeadlineExceeded):
        request.result(5)
    assert find(host, "nl0") is None
    assert find(host, "br0") is None


def test_a_task_that_is_cancelled_leaves_nothing_behind(host: Namespace, pod: Namespace) -> None:
    stopper = gate()

    async def scenario(dataplane: Dataplane) -> None:
        waiting = asyncio.ensure_future(_applied(dataplane, plan_of(*veth().objects, stopper, Bridge("br0"))))
        await asyncio.to_thread(stopper.reached.wait, 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stopper.opened.set()

    async def _applied(dataplane: Dataplane, plan: Plan) -> None:
        await dataplane.apply(plan, pod)

    with Dataplane(host) as dataplane:
        asyncio.run(scenario(dataplane))
    assert find(host, "nl0") is None
    assert find(host, "br0") is None


def test_a_request_that_is_given_up_while_it_waits_is_never_begun(
    dataplane: Dataplane, host: Namespace
) -> None:
    stopper = gate()
    blocked = dataplane.apply(plan_of(stopper))
    request = dataplane.apply(Plan((Bridge("br0"),)))
    request.give_up()
    stopper.opened.set()
    blocked.result(5)
    dataplane.check(Plan(())).result(5)
    with pytest.raises(CancelledError):
        request.result(5)
    assert find(host, "br0") is None


def test_closing_finishes_what_was_accepted(host: Namespace, new_namespace: Callable[[], Namespace]) -> None:
    dataplane = Dataplane(host)
    pods = [new_namespace() for _ in range(8)]
    added = [dataplane.apply(veth(f"nl{number}"), pod) for number, pod in enumerate(pods)]
    removed = [dataplane.remove(veth(f"nl{number}"), pod) for number, pod in enumerate(pods)]
    dataplane.close()
    assert all(request.done() for request in added)
    assert all(request.done() for request in removed)
    with pytest.raises(Stopped):
        dataplane.check(Plan(()))


def test_descriptors_and_threads_go_with_the_dataplane(host: Namespace, pod: Namespace) -> None:
    def use() -> None:
        with Dataplane(host) as dataplane:
            dataplane.apply(veth(), pod).result(5)
            dataplane.remove(veth(), pod).result(5)
            with pytest.raises(Refused):
                dataplane.apply(plan_of(Address("nowhere", "10.0.0.1/24")), pod).result(5)

    use()
    gc.collect()
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(5):
        use()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads


def test_links_in_other_namespaces_are_removed_the_same_way(dataplane: Dataplane, pod: Namespace) -> None:
    plan = Plan((Bridge("br0", on="attachment"), Bridge("br1", on="attachment")))
    dataplane.apply(plan, pod).result(5)
    assert find(pod, "br0") is not None  # which opens the test's own connection
    before = len(os.listdir("/proc/self/fd"))
    dataplane.remove(plan, pod).result(5)
    assert find(pod, "br0") is None
    assert find(pod, "br1") is None
    deadline = time.monotonic() + 2
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) <= before
