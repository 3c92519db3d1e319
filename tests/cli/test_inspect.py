"""`netloom inspect`: all that is known of an attachment, beside what the kernel has."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest

from netloom.kernel import Namespace
from netloom.networks.names import HOST_MAC

from ..fixtures.internet import IPV4, UDP, socket_at
from ..fixtures.machine import Machine
from ..fixtures.node import eventually
from ..fixtures.packets import send_raw, udp4

pytestmark = pytest.mark.kernel

POD = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=api-0;K8S_POD_UID=u-1"
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
# SO_SNDBUFFORCE: what waits in a queue counts as the sender's, who would have to wait for it.
_BUFFER = 32
LIMITS = {"egressRate": 8_000_000, "egressBurst": 4_000_000}


def inspected(machine: Machine, name: str) -> Any:
    (found,) = machine.run("inspect", "--json", name).document
    return found


def test_everything_that_was_asked_for_is_shown(machine: Machine) -> None:
    container = machine.node.container()
    capabilities = {"portMappings": PORTS, "bandwidth": LIMITS}
    result = machine.attach(container, CNI_ARGS=POD, CAP_ARGS=json.dumps(capabilities))
    (listed,) = machine.listed()
    found = inspected(machine, container)
    same = (
        "network",
        "containerID",
        "ifName",
        "addresses",
        "mac",
        "mtu",
        "hostLink",
        "hostPorts",
        "bandwidth",
    )
    assert {it: found[it] for it in same} == {it: listed[it] for it in same}
    assert (found["ipMasq"], found["isolation"]) == (listed["ipMasq"], "none")
    assert found["workload"] == {"namespace": "shop", "pod": "api-0", "uid": "u-1"}
    assert found["routes"] == [{"dst": it["dst"], "gw": it["gw"]} for it in result["routes"]]
    assert found["result"]["ips"] == result["ips"]
    assert (found["state"], found["queued"], found["rank"]) == ("committed", False, 0)
    assert len(found["configHash"]) == 32
    assert time.time() - found["created"] < 60


def test_every_object_of_the_plan_is_shown_as_it_is(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    found = inspected(machine, container)
    assert {it["state"] for it in found["objects"]} == {"as planned"}
    assert {"veth", "address", "route", "neighbour", "nft-element", "up"} <= {
        it["type"] for it in found["objects"]
    }
    assert found["findings"] == []


def test_what_is_missing_and_what_was_changed_is_told_apart(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    machine.node.in_container(container, "ip", "link", "set", "eth0", "mtu", "1400")
    machine.node.in_container(container, "ip", "route", "del", "default")
    outcome = machine.run("inspect", "--json", container)
    assert outcome.status == 1
    (found,) = outcome.document
    states = {it["object"]: it for it in found["objects"] if it["state"] != "as planned"}
    assert states["route 0.0.0.0/0 (attachment)"]["state"] == "missing"
    changed = states[f"veth {found['hostLink']}"]
    assert (changed["state"], changed["differences"]) == ("different", ["peer's mtu is 1400, not 1500"])
    assert {it["code"] for it in found["findings"]} == {"object-missing", "object-changed"}


def test_packets_are_counted_as_the_container_sees_them(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    before = inspected(machine, container)["counters"]
    assert machine.reaches("10.78.0.1")
    after = inspected(machine, container)["counters"]
    for direction in ("sent", "received"):
        assert after[direction]["packets"] > before[direction]["packets"]
        assert after[direction]["bytes"] - before[direction]["bytes"] >= 84
        assert after[direction]["limited"] is None


def test_what_a_limit_has_dropped_is_counted(machine: Machine) -> None:
    container = machine.node.container()
    slow = {"egressRate": 8_000, "egressBurst": 16_000}
    machine.attach(container, CAP_ARGS=json.dumps({"bandwidth": slow}))
    # More than may be sent, and more than may wait.
    with Namespace.open(f"/run/netns/{container}") as place, socket_at(place, UDP, IPV4) as sender:
        sender.setsockopt(socket.SOL_SOCKET, _BUFFER, 4 << 20)
        for _ in range(200):
            sender.sendto(bytes(1400), ("192.0.2.1", 9))
    assert eventually(lambda: inspected(machine, container)["counters"]["sent"]["limited"] > 0)
    assert inspected(machine, container)["counters"]["sent"]["waiting"] > 0


def test_who_holds_the_namespace_is_named(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    inside = machine.node.popen_in(container, "sleep", "1000")
    try:
        assert eventually(lambda: _name(inside.pid) == "sleep")
        netns = inspected(machine, container)["netns"]
    finally:
        inside.send_signal(signal.SIGKILL)
        inside.communicate()
    assert (netns["path"], netns["presence"]) == (f"/run/netns/{container}", "there")
    runs = {"process": inside.pid, "name": "sleep", "how": "runs in it", "mounted": ""}
    assert runs in netns["holders"]
    assert f"/run/netns/{container}" in [it["mounted"] for it in netns["holders"]]


def _name(process: int) -> str:
    with open(f"/proc/{process}/comm") as file:
        return file.read().strip()


def test_a_namespace_that_is_gone_is_told_and_that_somebody_holds_it(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    (listed,) = machine.listed()
    inside = machine.node.popen_in(container, "sleep", "1000")
    try:
        assert eventually(lambda: _name(inside.pid) == "sleep")
        machine.node.remove_container(container)
        (found,) = machine.run("inspect", "--json", listed["containerID"]).document
        assert [it["code"] for it in found["findings"]] == ["netns-busy"]
        assert inside.pid in [it["process"] for it in found["netns"]["holders"]]
    finally:
        inside.send_signal(signal.SIGKILL)
        inside.communicate()
    assert eventually(lambda: not machine.node.links())
    (found,) = machine.run("inspect", "--json", listed["containerID"]).document
    assert [it["code"] for it in found["findings"]] == ["netns-stale"]
    assert (found["netns"]["presence"], found["counters"]) == ("gone", None)


def test_another_namespace_in_its_place_is_not_taken_for_it(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    (listed,) = machine.listed()
    machine.run("down")
    machine.node.remove_container(container)
    assert eventually(lambda: not machine.node.links())
    machine.node.container(container)
    (found,) = machine.run("inspect", "--json", listed["containerID"]).document
    assert found["netns"]["presence"] == "replaced"
    assert [it["code"] for it in found["findings"]] == ["netns-stale"]


def test_all_interfaces_of_a_container_are_shown(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.attach(container, "-i", "net1")
    assert [it["ifName"] for it in machine.run("inspect", "--json", container).document] == ["eth0", "net1"]
    (second,) = machine.run("inspect", "--json", "10.78.0.2").document
    assert second["ifName"] == "net1"


def test_what_is_not_attached_is_an_error_with_where_to_look(machine: Machine) -> None:
    outcome = machine.run("inspect", "nobody", "--json")
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (1, "", "not-attached")
    assert "netloom explain nobody" in outcome.error["next"]


def test_a_beginning_that_several_have_is_refused(machine: Machine) -> None:
    for _ in range(2):
        machine.attach(machine.node.container())
    outcome = machine.run("inspect", "cnitool-", "--json")
    assert (outcome.status, outcome.error["code"]) == (2, "ambiguous-name")


def test_on_a_terminal_it_is_something_to_read(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container, CNI_ARGS=POD, CAP_ARGS=json.dumps({"portMappings": PORTS, "bandwidth": LIMITS}))
    outcome = machine.on_a_terminal("inspect", container)
    assert (outcome.status, outcome.stderr) == (0, "")
    lines = outcome.stdout.splitlines()
    assert lines[0].endswith("/eth0")
    assert any(line.split()[:2] == ["addresses", "10.78.0.1,"] for line in lines)
    assert any("8080/tcp leads to 10.78.0.1 port 80" in line for line in lines)
    assert any(line.split()[:4] == ["limits", "sends", "8", "Mbit/s"] for line in lines)
    assert sum(line.rstrip().endswith("as planned") for line in lines) > 10


def test_a_plan_that_cannot_be_read_is_told(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    # As a later version would have written it.
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        connection.execute("UPDATE attachment SET plan = ?", (b'{"version": 99, "objects": []}',))
    outcome = machine.run("inspect", "--json", container)
    assert outcome.status == 1
    (found,) = outcome.document
    assert (found["objects"], found["mac"]) == (None, None)
    assert [it["code"] for it in found["findings"]] == ["plan-unreadable"]


def test_no_machine_is_too_bare_to_be_asked(bare: Machine) -> None:
    outcome = bare.run("inspect", "web", "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "not-attached")


def refuse(container: str, result: Any, count: int) -> None:
    """Sends from an address that the container does not have, past its own stack."""
    (mac,) = (it["mac"] for it in result["interfaces"] if it.get("sandbox"))
    for _ in range(count):
        packet = udp4("192.0.2.77", "192.0.2.2", 9, b"forged")
        send_raw(container, "eth0", 0x0800, packet, to=HOST_MAC, source=mac)


def test_packets_from_addresses_that_are_not_its_own_are_counted(machine: Machine) -> None:
    container = machine.node.container()
    result = machine.attach(container)
    # Whatever it says to its neighbours by itself, such as that it tries an address out, is no such packet.
    assert machine.node.ping(container, "169.254.1.1")
    found = inspected(machine, container)
    assert (found["counters"]["refused"], found["findings"]) == (0, [])

    refuse(container, result, 24)

    assert eventually(lambda: inspected(machine, container)["counters"]["refused"] == 24)
    key = f"{found['network']}/{found['containerID']}/eth0"
    for words in (("inspect", container), ("explain", container), ("doctor", "--only", "sources")):
        document = machine.run(*words, "--json").document
        findings = (document[0] if isinstance(document, list) else document)["findings"]
        assert [(it["code"], it["subject"]) for it in findings] == [("packets-refused", key)], words

    # The count goes with the attachment.
    def counted() -> str:
        return machine.node.inside("nft", "list", "set", "inet", "netloom", "dropped")

    assert found["hostLink"] in counted()
    machine.cni("del", container)
    assert eventually(lambda: found["hostLink"] not in counted())
