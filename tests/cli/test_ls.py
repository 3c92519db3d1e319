"""`netloom ls`: what is attached."""

from __future__ import annotations

import time

import pytest

from .machine import Machine
from .stage import Outcome

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
        "netns": f"/run/netns/{container}",
        "state": "committed",
        "queued": False,
        "workload": {"namespace": "shop", "pod": "api-0", "uid": "u-1"},
    }


def test_one_network_may_be_asked_for_and_no_agent_is_needed(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.end_agent()
    assert len(machine.listed("netloom")) == 1


def test_on_a_terminal_containers_are_short_unless_they_are_wanted_whole(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container, CNI_ARGS=POD)
    (whole,) = machine.listed()
    header, row = machine.on_a_terminal("ls").stdout.splitlines()
    assert header.split("  ")[0] == "NETWORK"
    assert row.split()[1] == whole["containerID"][:12]
    assert row.split()[4] == "shop/api-0"
    _, wide = machine.on_a_terminal("ls", "--wide").stdout.splitlines()
    assert wide.split()[1] == whole["containerID"]
    assert wide.split()[-1] == f"/run/netns/{container}"


def test_nothing_is_said_to_be_nothing(bare: Machine) -> None:
    assert bare.run("ls") == Outcome(0, "[]\n", "")
    assert bare.on_a_terminal("ls") == Outcome(0, "nothing is attached\n", "")


def test_a_network_that_is_configured_may_have_no_attachment(machine: Machine) -> None:
    assert machine.run("ls", "netloom") == Outcome(0, "[]\n", "")
    assert machine.on_a_terminal("ls", "netloom") == Outcome(0, "nothing is attached to netloom\n", "")


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
        "-i", found["ifName"], "--cache-dir", str(machine.stage.cache),
    )  # fmt: skip
    assert (outcome.status, outcome.stderr) == (0, "")
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
    for agent in ("running", "stopped"):
        outcome = machine.run("ls", "--json")
        assert (outcome.status, outcome.stdout, agent) == (1, "", agent)
        assert str(machine.journal) in outcome.error["error"]
        assert "put it back" in outcome.error["next"]
        machine.run("down")


def test_a_state_directory_that_is_not_there_is_no_empty_list(machine: Machine) -> None:
    outcome = machine.run("ls", "--state-dir", "/nope")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert "/nope" in outcome.said["error"]
    assert "--state-dir" in outcome.said["next"]


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
