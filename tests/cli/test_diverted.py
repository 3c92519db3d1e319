"""What leads a container's packets away, or was changed by hand, without anything being lost.

`status` names it, `check` and `explain` agree, and it is gone when its cause is.
"""

from __future__ import annotations

import shlex

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

WIRE = (
    "ip link add up0 type veth peer name up1",
    "ip address add 192.0.2.1/24 dev up0",
    "ip -6 address add 2001:db8::1/64 dev up0 nodad",
    "ip link set up0 up",
    "ip link set up1 up",
    "ip route add default via 192.0.2.2",
    "ip -6 route add default via 2001:db8::2",
)
# What somebody does, and how it is undone. Nothing of it touches an object of netloom's.
DIVERSIONS = {
    "a rule by the target": (
        "ip route add default via 192.0.2.2 table 99; ip rule add to {ip4} pref 100 table 99",
        "ip rule del pref 100; ip route flush table 99",
    ),
    "a rule that discards": ("ip rule add to {ip4} pref 50 blackhole", "ip rule del pref 50"),
    "a rule by the source": ("ip rule add from {ip4} pref 50 unreachable", "ip rule del pref 50"),
    "a rule by the link": ("ip rule add iif {link} pref 50 prohibit", "ip rule del pref 50"),
    "a rule of IPv6": ("ip -6 rule add from {ip6} pref 50 unreachable", "ip -6 rule del pref 50"),
    "a route before ours": (
        "ip -6 route add blackhole {ip6}/128 metric 1",
        "ip -6 route del blackhole {ip6}/128 metric 1",
    ),
    "a route of the host's own table": (
        "ip route add blackhole {ip4}/32 table local",
        "ip route del blackhole {ip4}/32 table local",
    ),
    "a link that does not forward": (
        "sysctl -qw net.ipv4.conf.{link}.forwarding=0",
        "sysctl -qw net.ipv4.conf.{link}.forwarding=1",
    ),
}


@pytest.fixture
def container(machine: Machine) -> str:
    """On a node with a way out."""
    run(machine, "; ".join(WIRE))
    made = machine.node.container()
    machine.attach(made)
    return made


def run(machine: Machine, script: str) -> None:
    for command in script.split(";"):
        machine.node.inside(*shlex.split(command))


def codes(machine: Machine, *words: str) -> set[str]:
    return {it["code"] for it in machine.run(*words, "--json").document["findings"]}


def test_what_leads_packets_away_is_named_and_gone_when_its_cause_is(
    machine: Machine, container: str
) -> None:
    (link,) = machine.node.links()
    (listed,) = machine.listed()
    ip4, ip6 = (it.partition("/")[0] for it in listed["addresses"])
    assert codes(machine, "status") == set()
    for name, commands in DIVERSIONS.items():
        do, undo = (it.format(ip4=ip4, ip6=ip6, link=link) for it in commands)
        run(machine, do)
        assert eventually(lambda: "route-diverted" in codes(machine, "status")), name
        assert machine.run("status").status == 1, name
        assert "route-diverted" in codes(machine, "explain", container), name
        run(machine, undo)
        assert eventually(lambda: codes(machine, "status") == set()), name
    run(machine, DIVERSIONS["a route before ours"][0].format(ip6=ip6))
    assert "route-diverted" in codes(machine, "check")


def test_a_route_in_the_place_of_ours_is_no_machine_with_the_containers_address(
    machine: Machine, container: str
) -> None:
    (listed,) = machine.listed()
    ip4 = listed["addresses"][0].partition("/")[0]
    run(machine, f"ip route replace {ip4} dev up0")
    assert eventually(lambda: "object-changed" in codes(machine, "status"))
    assert "address-clash" not in codes(machine, "status")
    assert machine.run("status").status == 1
    assert machine.run("check", container, "--repair").status == 0
    assert eventually(lambda: machine.run("status").status == 0)


def test_what_was_changed_by_hand_is_named_by_status(machine: Machine, container: str) -> None:
    """On the host, it is an error; in the container's own namespace, its owner may have meant it."""
    (link,) = machine.node.links()
    machine.node.inside("ip", "-n", container, "route", "replace", "default", "dev", "lo")
    assert eventually(lambda: "object-changed" in codes(machine, "status"))
    assert machine.run("status").status == 0
    run(machine, f"ip link set {link} address 02:00:00:00:00:77")
    assert eventually(lambda: machine.run("status").status == 1)
    assert machine.run("check", container, "--repair").status == 0
    assert eventually(lambda: codes(machine, "status") == set())
