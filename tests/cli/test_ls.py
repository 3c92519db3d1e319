"""`netloom ls`: what is attached."""

from __future__ import annotations

import json
import os
import time

import pytest

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel

POD = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=api-0;K8S_POD_UID=u-1;K8S_POD_INFRA_CONTAINER_ID=x"


def test_every_attachment_is_listed_with_all_that_is_known(machine: Machine) -> None:
    container = machine.node.container()
    result = machine.attach(container, CNI_ARGS=POD)
    (found,) = machine.listed()
    assert time.time() - found.pop("created") < 60
    assert found.pop("containerID").startswith("cnitool-")
    host, inside = result["interfaces"]
    assert found == {
        "network": "netloom",
        "ifName": "eth0",
        "addresses": ["10.78.0.1", "fd78::1"],
        "mac": inside["mac"],
        "mtu": inside["mtu"],
        "hostLink": host["name"],
        "hostPorts": [],
        "bandwidth": None,
        "ipMasq": {"ipv4": True, "ipv6": True, "inside": ["10.78.0.0/16", "fd78::/64"]},
        "isolation": "none",
        "netns": f"/run/netns/{container}",
        "state": "committed",
        "queued": False,
        "workload": {"namespace": "shop", "pod": "api-0", "uid": "u-1"},
    }


def test_host_ports_are_listed_with_where_they_lead(machine: Machine) -> None:
    ports = [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "192.0.2.1"},
        {"hostPort": 53, "containerPort": 5353, "protocol": "udp"},
    ]
    machine.attach(machine.node.container(), CAP_ARGS=json.dumps({"portMappings": ports}))
    (found,) = machine.listed()
    dns = {"hostIP": "", "hostPort": 53, "protocol": "udp", "containerPort": 5353}
    assert found["hostPorts"] == [
        {
            "hostIP": "192.0.2.1",
            "hostPort": 8080,
            "protocol": "tcp",
            "containerIP": "10.78.0.1",
            "containerPort": 80,
        },
        {**dns, "containerIP": "10.78.0.1"},
        {**dns, "containerIP": "fd78::1"},
    ]


def test_limits_are_listed_in_the_words_of_the_capability(machine: Machine) -> None:
    limits = {"egressRate": 8_000_000, "egressBurst": 4_000_000}
    machine.attach(machine.node.container(), CAP_ARGS=json.dumps({"bandwidth": limits}))
    (found,) = machine.listed()
    assert found["bandwidth"] == limits


def test_what_a_network_masquerades_and_keeps_apart_is_listed(machine: Machine) -> None:
    document = json.loads(machine.conflist.read_text())
    document["plugins"][0] |= {"isolation": "networks", "ipMasq": {"ipv6": False, "except": ["10.0.0.0/8"]}}
    machine.conflist.write_text(json.dumps(document))
    machine.attach(machine.node.container())
    (found,) = machine.listed()
    assert found["isolation"] == "networks"
    assert found["ipMasq"] == {"ipv4": True, "ipv6": False, "inside": ["10.78.0.0/16", "10.0.0.0/8"]}


def test_a_network_that_masquerades_nothing_has_none(machine: Machine) -> None:
    machine.brought_up("--no-masquerade")
    machine.attach(machine.node.container())
    (found,) = machine.listed()
    assert found["ipMasq"] is None


def test_one_network_may_be_asked_for_and_no_agent_is_needed(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.end_agent()
    assert len(machine.listed("netloom")) == 1


def test_on_a_terminal_containers_are_short_unless_they_are_wanted_whole(machine: Machine) -> None:
    container = machine.node.container(f"{os.getpid():08x}" * 8)
    machine.node.add(container, CNI_ARGS=POD)
    (whole,) = machine.listed()
    header, row = machine.on_a_terminal("ls").stdout.splitlines()
    assert header.split("  ")[0] == "NETWORK"
    assert row.split()[1] == whole["containerID"][:12]
    assert row.split()[4] == "shop/api-0"
    _, wide = machine.on_a_terminal("ls", "--wide").stdout.splitlines()
    assert wide.split()[1] == whole["containerID"]
    assert wide.split()[-1] == f"/run/netns/{container}"


def test_nothing_is_said_to_be_nothing(bare: Machine) -> None:
    assert bare.run("ls", "--json") == Outcome(0, "[]\n", "")
    assert bare.run("ls") == Outcome(0, "no attachments\n", "")
    assert bare.on_a_terminal("ls") == Outcome(0, "no attachments\n", "")


def test_a_network_that_is_configured_may_have_no_attachment(machine: Machine) -> None:
    assert machine.run("ls", "--json", "netloom") == Outcome(0, "[]\n", "")
    assert machine.on_a_terminal("ls", "netloom") == Outcome(0, "no attachments to netloom\n", "")


def test_a_network_that_nobody_knows_is_an_error(machine: Machine) -> None:
    machine.attach(machine.node.container())
    shown = machine.on_a_terminal("ls", "netlom")
    assert (shown.status, shown.stdout) == (1, "")
    assert "'netlom'" in shown.said["error"]
    assert shown.said["next"]
    outcome = machine.run("ls", "netlom", "--json")
    assert (outcome.status, outcome.document) == (1, [])
    assert "'netlom'" in outcome.error["error"]


def test_a_network_whose_file_is_gone_is_known_by_its_attachments(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.conflist.unlink()
    assert len(machine.listed("netloom")) == 1


def test_every_line_can_be_detached_by_what_it_shows(machine: Machine) -> None:
    machine.node.add(machine.node.container(), machine.node.config("netloom"))
    (found,) = machine.listed()
    outcome = machine.run(
        "cni", "del", found["network"], found["netns"], "--container-id", found["containerID"],
        "-i", found["ifName"], "--cache-dir", str(machine.cli.cache),
    )  # fmt: skip
    assert (outcome.status, outcome.stderr) == (0, "")
    machine.await_dels()
    assert machine.listed() == []
    assert machine.node.links() == []


def test_a_journal_that_is_none_is_an_error_with_its_name(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.run("ls", "--json")
    assert outcome.status == 1
    assert str(bare.journal) in outcome.error["error"]


def test_a_journal_that_is_gone_is_no_empty_list(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.journal.unlink()
    # What an agent keeps when it ends is named.
    for agent, advice in (("running", "put it back"), ("stopped", f"restore {machine.journal}.rescued-1")):
        outcome = machine.run("ls", "--json")
        assert (outcome.status, outcome.stdout, agent) == (1, "", agent)
        assert str(machine.journal) in outcome.error["error"]
        assert advice in outcome.error["next"]
        machine.run("down")


def test_a_state_directory_that_is_not_there_is_no_empty_list(machine: Machine) -> None:
    outcome = machine.run("ls", "--state-dir", "/nope")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert "/nope" in outcome.said["error"]
    assert "--state-dir" in outcome.said["next"]


@pytest.mark.parametrize("words", [("ls",), ("ports",), ("gc", "--dry-run")], ids=" ".join)
def test_what_lies_among_the_dels_that_wait_and_is_none_is_not_read(
    machine: Machine, words: tuple[str, ...]
) -> None:
    machine.run("down")
    intents = machine.node.socket.parent / "intents"
    intents.mkdir(mode=0o700, exist_ok=True)
    with open(intents / "1.del", "wb") as file:
        file.truncate(4 << 30)
    (intents / "2.del").mkdir()
    os.mkfifo(intents / "3.del")
    outcome = machine.run(*words, "--json", prefix=("prlimit", f"--as={1 << 30}"))
    assert (outcome.status, outcome.stderr) == (0, "")
    if words[0] == "gc":
        assert [it["subject"] for it in outcome.document["kept"]] == [
            str(intents / f"{number}.del") for number in (1, 2, 3)
        ]


def test_an_attachment_whose_del_waits_for_the_agent_says_so(machine: Machine) -> None:
    kept, gone = machine.node.container(), machine.node.container()
    machine.attach(kept)
    machine.attach(gone)
    machine.run("down")
    assert [it["queued"] for it in machine.listed()] == [False, False]
    assert machine.cni("del", gone).status == 0
    assert [(it["netns"], it["queued"]) for it in machine.listed()] == [
        (f"/run/netns/{kept}", False),
        (f"/run/netns/{gone}", True),
    ]
    _, first, second = machine.on_a_terminal("ls").stdout.splitlines()
    assert ("committed" in first, "DEL queued" in second) == (True, True)
