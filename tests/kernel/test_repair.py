"""Repair: what an attachment has lost comes back, and nothing else is touched."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable

import pytest

from netloom.kernel import (
    Address,
    AnyObject,
    Conflict,
    InvalidPlan,
    KernelError,
    KernelTimeout,
    Namespace,
    Neighbour,
    NftElement,
    NftTable,
    Object,
    Plan,
    Repair,
    Route,
    Scope,
    Shaper,
    Sysctl,
    Up,
    Veth,
    apply,
    check,
    repair,
)
from netloom.kernel.dataplane import Dataplane
from netloom.kernel.errors import Difference, missing
from netloom.kernel.objects import Undo, Where
from netloom.kernel.objects.link import find

pytestmark = pytest.mark.kernel

MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
TABLE = NftTable(
    "inet", "t", "set sources { type ifname . ipv4_addr; }\nset sources6 { type ifname . ipv6_addr; }"
)
ELEMENTS = (
    NftElement("inet", "t", "sources", ("nl0", "10.0.0.2")),
    NftElement("inet", "t", "sources6", ("nl0", "fd00::2")),
)
ADDRESS, ADDRESS6 = (Address("eth0", address, on="attachment") for address in ("10.0.0.2/32", "fd00::2/128"))
HOST_ROUTE, HOST_ROUTE6 = (Route(address, link="nl0") for address in ("10.0.0.2/32", "fd00::2/128"))
DEFAULT = Route("0.0.0.0/0", link="eth0", via="169.254.1.1", onlink=True, on="attachment")
DEFAULT6 = Route("::/0", link="eth0", via="fe80::1", on="attachment")
GATEWAY = Neighbour("eth0", "169.254.1.1", MAC, on="attachment")
NEIGHBOUR = Neighbour("nl0", "10.0.0.2", PEER_MAC)
SHAPER = Shaper("nl0", rate=1250000, burst=20000, limit=50000)
PLAN = Plan(
    (
        *ELEMENTS,
        Veth("nl0", "eth0", mac=MAC, peer_mac=PEER_MAC, mtu=1400),
        Sysctl("net/ipv6/conf/nl0/accept_ra", "0"),
        Sysctl("net/ipv4/conf/eth0/arp_notify", "1", on="attachment"),
        SHAPER,
        Up("nl0"),
        Up("eth0", on="attachment"),
        ADDRESS,
        ADDRESS6,
        GATEWAY,
        NEIGHBOUR,
        DEFAULT,
        DEFAULT6,
        HOST_ROUTE,
        HOST_ROUTE6,
    )
)
EVERYTHING_ON_THE_LINK = [item.label for item in PLAN.objects if not isinstance(item, NftElement)]


@pytest.fixture
def scope(host: Namespace, pod: Namespace) -> Scope:
    """The host and a pod, with the plan applied."""
    for namespace in (host, pod):
        by_hand(namespace, "sysctl -qw net.ipv6.conf.default.addr_gen_mode=1")
    scope = Scope(host, pod)
    apply(Plan((TABLE,)), scope)
    apply(PLAN, scope)
    return scope


def by_hand(namespace: Namespace, *commands: str) -> None:
    with namespace.entered():
        for command in commands:
            done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}: {done.stderr}"


LOSSES: dict[str, tuple[Where, str, list[str]]] = {
    "the link": ("host", "ip link del nl0", EVERYTHING_ON_THE_LINK),
    "the link, in the pod": ("attachment", "ip link del eth0", EVERYTHING_ON_THE_LINK),
    # With its last IPv4 address, a link loses all that it has of IPv4.
    "an IPv4 address": (
        "attachment",
        "ip addr del 10.0.0.2/32 dev eth0",
        [ADDRESS.label, GATEWAY.label, DEFAULT.label],
    ),
    "an IPv6 address": ("attachment", "ip addr del fd00::2/128 dev eth0", [ADDRESS6.label]),
    "the pod's IPv4 route": ("attachment", "ip route del default", [DEFAULT.label]),
    "the pod's IPv6 route": ("attachment", "ip -6 route del default", [DEFAULT6.label]),
    "the host's IPv4 route": ("host", "ip route del 10.0.0.2", [HOST_ROUTE.label]),
    "the host's IPv6 route": ("host", "ip -6 route del fd00::2", [HOST_ROUTE6.label]),
    "all of the host's IPv4 routes": ("host", "ip route flush table main", [HOST_ROUTE.label]),
    "elements": (
        "host",
        "nft flush set inet t sources; flush set inet t sources6",
        [element.label for element in ELEMENTS],
    ),
    "the qdisc": ("host", "tc qdisc del dev nl0 root", [SHAPER.label]),
    "a neighbour": ("host", "ip neigh del 10.0.0.2 dev nl0", [NEIGHBOUR.label]),
}


@pytest.mark.parametrize(("where", "command", "lost"), LOSSES.values(), ids=LOSSES)
def test_what_was_lost_comes_back(scope: Scope, where: Where, command: str, lost: list[str]) -> None:
    by_hand(scope.at(where), command)
    assert [found.object for found in check(PLAN, scope)] == lost
    assert repair(PLAN, scope) == Repair(lost, [])
    assert check(PLAN, scope) == []
    assert repair(PLAN, scope) == Repair([], [])


@pytest.mark.parametrize(
    ("where", "link", "routes"),
    [("host", "nl0", [HOST_ROUTE, HOST_ROUTE6]), ("attachment", "eth0", [DEFAULT, DEFAULT6])],
)
def test_a_link_that_is_down_comes_up_with_what_went_with_it(
    scope: Scope, where: Where, link: str, routes: list[Route]
) -> None:
    by_hand(scope.at(where), f"ip link set {link} down")
    result = repair(PLAN, scope)
    assert Up(link, on=where).label in result.put_back
    assert {route.label for route in routes} <= set(result.put_back)
    assert result.left == []
    assert check(PLAN, scope) == []


def test_a_link_whose_maker_ended_before_it_was_set_and_up_is_finished(scope: Scope) -> None:
    by_hand(scope.host, "ip link del nl0")
    apply(Plan(PLAN.objects[:3]), scope)
    result = repair(PLAN, scope)
    assert result.put_back == EVERYTHING_ON_THE_LINK[1:]
    assert result.left == []
    assert check(PLAN, scope) == []


def test_nothing_is_done_where_nothing_is_lost(scope: Scope) -> None:
    said = watched(scope)
    assert repair(PLAN, scope) == Repair([], [])
    assert said() == ""


def watched(scope: Scope) -> Callable[[], str]:
    """What `ip monitor` sees in the host's namespace from now on."""
    with scope.host.entered():
        monitor = subprocess.Popen(
            ["ip", "monitor", "link", "address", "route", "rule", "neigh"], stdout=subprocess.PIPE, text=True
        )
    time.sleep(0.3)

    def stop() -> str:
        time.sleep(0.2)
        monitor.terminate()
        return monitor.communicate(timeout=5)[0]

    return stop


@pytest.mark.parametrize(
    ("where", "command", "field"),
    [
        ("host", "ip link set nl0 mtu 1300", "mtu"),
        ("attachment", "ip route replace default via 169.254.1.2 dev eth0 onlink", "way"),
        ("host", "sysctl -qw net.ipv6.conf.nl0.accept_ra=1", "value"),
    ],
)
def test_what_is_different_is_told_and_left_alone_while_the_rest_comes_back(
    scope: Scope, where: Where, command: str, field: str
) -> None:
    by_hand(scope.at(where), command)
    by_hand(scope.host, "ip route del 10.0.0.2")
    different = [found for found in check(PLAN, scope) if found.what == "different"]
    assert [found.field for found in different] == [field]
    assert repair(PLAN, scope) == Repair([HOST_ROUTE.label], different)
    assert check(PLAN, scope) == different


def test_what_rests_on_a_link_that_will_not_come_back_does_not_keep_the_rest(scope: Scope) -> None:
    """The pod's end has another name: that is somebody's doing, and its address is on it."""
    by_hand(scope.at("attachment"), "ip link set eth0 down", "ip link set eth0 name other0")
    by_hand(scope.host, "ip route del 10.0.0.2")
    result = repair(PLAN, scope)
    assert result.put_back == [HOST_ROUTE.label]
    assert ADDRESS.label in [found.object for found in result.left]
    assert find(scope.at("attachment"), "other0") is not None


class Broken(Object, frozen=True, tag="broken"):
    """An object of a test: it is always missing, and cannot be made."""

    @property
    def label(self) -> str:
        return "broken"

    def check(self, scope: Scope) -> list[Difference]:
        del scope
        return missing(self.label)

    def apply(self, scope: Scope) -> Undo | None:
        del scope
        raise KernelError("it is broken")


def and_then(item: Object) -> Plan:
    objects: tuple[AnyObject, ...] = (*PLAN.objects, item)  # type: ignore[arg-type]
    return Plan(objects)


def test_a_repair_that_fails_takes_back_what_it_put_back(scope: Scope) -> None:
    by_hand(scope.host, "ip link del nl0")
    before = check(PLAN, scope)
    with pytest.raises(KernelError, match="it is broken"):
        repair(and_then(Broken()), scope)
    assert check(PLAN, scope) == before
    assert find(scope.host, "nl0") is None


def test_what_comes_into_the_way_between_check_and_apply_is_a_conflict(scope: Scope) -> None:
    class Meddler(Object, frozen=True, tag="meddler"):
        """Puts another route in the place of one that was found missing."""

        @property
        def label(self) -> str:
            return "meddler"

        def check(self, scope: Scope) -> list[Difference]:
            by_hand(scope.host, "ip route add blackhole 10.0.0.2")
            return []

    by_hand(scope.host, "ip route del 10.0.0.2")
    with pytest.raises(Conflict):
        repair(and_then(Meddler()), scope)
    assert [found.field for found in HOST_ROUTE.check(scope)] == ["kind", "way"]


def test_the_dataplane_repairs(scope: Scope, dataplane: Dataplane) -> None:
    by_hand(scope.host, "ip link del nl0")
    assert dataplane.repair(PLAN, scope.attachment).result(5) == Repair(EVERYTHING_ON_THE_LINK, [])
    assert check(PLAN, scope) == []
    dataplane.remove(PLAN, scope.attachment).result(5)


def test_a_repair_that_runs_out_of_time_is_taken_back(scope: Scope, dataplane: Dataplane) -> None:
    by_hand(scope.host, "ip link del nl0")

    class Slow(Broken, frozen=True, tag="slow"):
        def apply(self, scope: Scope) -> Undo | None:
            del scope
            time.sleep(0.4)
            return None

    with pytest.raises(KernelTimeout):
        dataplane.repair(and_then(Slow()), scope.attachment, timeout=0.3).result(5)
    assert find(scope.host, "nl0") is None


def test_objects_in_an_attachment_need_its_namespace(scope: Scope) -> None:
    by_hand(scope.host, "ip link del nl0")
    with pytest.raises(InvalidPlan):
        repair(PLAN, Scope(scope.host))
    assert find(scope.host, "nl0") is None
