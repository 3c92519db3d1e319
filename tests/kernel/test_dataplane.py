"""The dataplane: order, bounds, deadlines, and what becomes of requests that nobody waits for."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from netloom.kernel import (
    Address,
    Bridge,
    Conflict,
    InvalidPlan,
    KernelTimeout,
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


def test_what_has_to_go_is_looked_for_when_its_turn_has_come(dataplane: Dataplane, host: Namespace) -> None:
    dataplane.apply(plan_of(Bridge("br1"))).result(10)
    first, asked = gate(), threading.Event()

    def found(place: Namespace) -> Plan:
        asked.set()
        return plan_of(Bridge("br1")) if find(place, "br1") is not None else plan_of()

    dataplane.apply(plan_of(first))
    assert first.reached.wait(10)
    removed = dataplane.remove_found(found)
    assert not asked.wait(0.05)
    first.opened.set()
    removed.result(10)
    assert find(host, "br1") is None


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
    assert min(took) < 0.010


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
    stopper, behind = gate(), list[int]()
    with Dataplane(host, limit=50) as dataplane:
        dataplane.apply(Plan((Bridge("br0"),))).result(10)
        blocked = dataplane.apply(plan_of(stopper))
        assert stopper.reached.wait(10)
        flood = [dataplane.apply(Plan((Bridge(f"x{number}"),))) for number in range(49)]

        def found(_: Namespace) -> Plan:
            """When the removal's turn has come: how long it takes then is the kernel's matter."""
            behind.append(sum(not request.done() for request in flood))
            return Plan((Bridge("br0"),))

        removal = dataplane.remove_found(found)
        stopper.opened.set()
        removal.result(10)
        for request in (blocked, *flood):
            request.result(10)
    assert behind[0] >= len(flood) - 1


def test_a_request_that_waited_too_long_is_never_begun(dataplane: Dataplane, host: Namespace) -> None:
    stopper = gate()
    blocked = dataplane.apply(plan_of(stopper))
    late = dataplane.apply(Plan((Bridge("br0"),)), timeout=0.05)
    time.sleep(0.1)
    stopper.opened.set()
    blocked.result(5)
    with pytest.raises(KernelTimeout, match="nothing was done"):
        late.result(5)
    assert find(host, "br0") is None


def test_a_deadline_in_the_middle_undoes_what_was_made(
    dataplane: Dataplane, host: Namespace, pod: Namespace
) -> None:
    stopper = gate()
    request = dataplane.apply(plan_of(*veth().objects, stopper, Bridge("br0")), pod, timeout=3)
    assert stopper.reached.wait(5)
    time.sleep(3.1)
    stopper.opened.set()
    with pytest.raises(KernelTimeout):
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
    assert len(os.listdir("/proc/self/fd")) <= before
    assert threading.active_count() <= threads


def test_links_in_other_namespaces_are_removed_the_same_way(dataplane: Dataplane, pod: Namespace) -> None:
    plan = Plan((Bridge("br0", on="attachment"), Bridge("br1", on="attachment")))
    dataplane.apply(plan, pod).result(5)
    assert find(pod, "br0") is not None  # which opens the test's own connection
    before = len(os.listdir("/proc/self/fd"))
    dataplane.remove(plan, pod).result(5)
    assert find(pod, "br0") is None
    assert find(pod, "br1") is None
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_task_that_is_cancelled_at_the_last_object_leaves_nothing_behind(
    host: Namespace, pod: Namespace
) -> None:
    stopper = gate()

    async def scenario(dataplane: Dataplane) -> None:
        async def applied() -> None:
            await dataplane.apply(plan_of(*veth().objects, stopper), pod)

        waiting = asyncio.ensure_future(applied())
        await asyncio.to_thread(stopper.reached.wait, 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        stopper.opened.set()

    with Dataplane(host) as dataplane:
        asyncio.run(scenario(dataplane))
    assert find(host, "nl0") is None


def test_a_task_that_is_cancelled_after_the_plan_was_applied_leaves_nothing_behind(
    host: Namespace, pod: Namespace
) -> None:
    """The loop was busy and had not noticed."""
    assert find(host, "nl0") is None  # opens the test's connection, which the loop's thread must not

    async def scenario(dataplane: Dataplane) -> None:
        async def applied() -> None:
            await dataplane.apply(veth(), pod)

        waiting = asyncio.ensure_future(applied())
        await asyncio.sleep(0)
        deadline = time.monotonic() + 5
        while dataplane.under_way and time.monotonic() < deadline:
            time.sleep(0.01)
        assert find(host, "nl0") is not None
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with Dataplane(host) as dataplane:
        asyncio.run(scenario(dataplane))
    assert find(host, "nl0") is None


def test_timeouts_on_a_busy_loop_leave_nothing_behind(
    host: Namespace, new_namespace: Callable[[], Namespace]
) -> None:
    pods = [new_namespace() for _ in range(48)]

    async def attached(dataplane: Dataplane, number: int) -> bool:
        try:
            async with asyncio.timeout(0.001 * (number % 24)):
                await dataplane.apply(veth(f"nl{number}"), pods[number])
            return True
        except TimeoutError:
            return False

    async def scenario(dataplane: Dataplane) -> list[bool]:
        return list(await asyncio.gather(*(attached(dataplane, number) for number in range(48))))

    with Dataplane(host) as dataplane:
        outcomes = asyncio.run(scenario(dataplane))
    assert [find(host, f"nl{number}") is not None for number in range(48)] == outcomes


def test_a_queued_request_is_answered_at_its_deadline_while_the_thread_is_busy(dataplane: Dataplane) -> None:
    stopper = gate()
    blocked = dataplane.apply(plan_of(stopper))
    assert stopper.reached.wait(5)
    with pytest.raises(KernelTimeout, match="nothing was done"):
        dataplane.check(Plan(()), timeout=0.1).result(5)  # before the gate, which stays closed, is given up
    stopper.opened.set()
    blocked.result(5)
    assert dataplane.check(Plan(())).result(5) == []


def test_it_may_be_opened_and_closed_on_an_event_loop(host: Namespace, pod: Namespace) -> None:
    async def scenario() -> None:
        before = os.stat("/proc/thread-self/ns/net")
        async with Dataplane(host) as dataplane:
            await dataplane.apply(veth(), pod)
            await dataplane.remove(veth(), pod)
        assert os.path.samestat(before, os.stat("/proc/thread-self/ns/net"))

    asyncio.run(scenario())


def test_a_callback_that_wants_to_exit_does_not_end_the_thread(dataplane: Dataplane) -> None:
    def leave(_: object) -> None:
        raise SystemExit(1)

    request = dataplane.check(Plan(()))
    request.add_done_callback(leave)
    assert dataplane.check(Plan(())).result(5) == []


def test_closing_from_a_callback_and_twice_at_once_ends_everything(host: Namespace) -> None:
    threads = threading.active_count()
    dataplane = Dataplane(host)
    stopper = gate()
    request = dataplane.apply(plan_of(stopper))
    request.add_done_callback(lambda _: dataplane.close())
    second = threading.Thread(target=dataplane.close)
    second.start()
    stopper.opened.set()
    request.result(5)
    second.join(5)
    dataplane.close()
    assert not second.is_alive()
    deadline = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= threads


def test_a_process_that_was_forked_off_does_not_disturb_its_parent(
    dataplane: Dataplane, pod: Namespace
) -> None:
    child = os.fork()
    if child == 0:
        try:
            dataplane.check(Plan(()))
        except Stopped:
            dataplane.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    dataplane.apply(veth(), pod).result(5)
    dataplane.remove(veth(), pod).result(5)


SCARCE = """
import os, resource, sys, time
from netloom.kernel import *
from netloom.kernel.dataplane import Dataplane
from netloom.kernel.objects.link import find

resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
host, pod = Namespace.new(), Namespace.new()
find(host, "x"), find(pod, "x")
dataplane = Dataplane(host)
table = Plan((NftTable("inet", "t", "chain c { }", on="attachment"),))
links = Plan((Bridge("pb", on="attachment"), Bridge("hb"), Up("hb")))
broken = Plan((*links.objects, Route("10.9.0.0/16", via="192.0.2.1")))
for spare in range(0, 12):
    hogs = []
    try:
        while True:
            hogs.append(os.open("/dev/null", 0))
    except OSError:
        pass
    for _ in range(min(spare, len(hogs))):
        os.close(hogs.pop())
    for plan in (table, links, broken):
        try:
            dataplane.apply(plan, pod, timeout=2).result(20)
        except KernelError:
            pass
    for hog in hogs:
        os.close(hog)
    for plan in (table, links):
        dataplane.remove(plan, pod, timeout=5).result(20)
    assert find(host, "hb") is None and find(pod, "pb") is None, spare
    assert dataplane.check(Plan(())).result(5) == []
dataplane.close()
print("lives")
"""


def test_it_survives_when_descriptors_run_out() -> None:
    """libnftables would end the whole process."""
    done = subprocess.run([sys.executable, "-c", SCARCE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "lives\n", done.stderr


HIGH = """
import os, resource
from netloom.kernel import *
from netloom.kernel.dataplane import Dataplane

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
host = Namespace.new()
table = Plan((NftTable("inet", "t", "chain c { }"),))
with Dataplane(host) as dataplane:
    hogs = [os.open("/dev/null", 0)]
    while hogs[-1] < 1100:
        hogs.append(os.open("/dev/null", 0))
    try:
        dataplane.apply(table).result(20)
    except KernelError as error:
        print(error.errno)
    for hog in hogs:
        os.close(hog)
    dataplane.apply(table).result(20)
print("lives")
"""


def test_it_survives_when_only_high_descriptors_are_left() -> None:
    """libnftables waits with select(2): the C library would abort the whole process."""
    done = subprocess.run([sys.executable, "-c", HIGH], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{errno.EMFILE}\nlives\n", done.stderr


SHARED = """
import threading, time
from netloom.kernel import *
from netloom.kernel.dataplane import Dataplane

failures = []

def one():
    host = Namespace.new()
    with Dataplane(host) as dataplane:
        table = Plan((NftTable("inet", "t", 'chain c { iif "lo" accept; }'),))
        end = time.monotonic() + 3
        try:
            while time.monotonic() < end:
                for verb in (dataplane.apply, dataplane.check, dataplane.remove):
                    assert verb(table).result(9) != [Difference("x", "missing")]
        except BaseException as error:
            failures.append(error)

threads = [threading.Thread(target=one) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(failures or "fine")
"""


def test_several_may_use_nftables_in_one_process() -> None:
    """libnftables has one list of links for all of its contexts."""
    done = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
