"""`netloom status`: how the node is, also when its agent is not."""

from __future__ import annotations

import pytest

from netloom import __version__

from .machine import Machine

pytestmark = pytest.mark.kernel


def test_a_node_that_is_well_says_so_by_its_status(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.attach(container, "-i", "net1")
    machine.cni("del", container, "-i", "net1")
    outcome = machine.run("status")
    report = outcome.document
    assert outcome.status == 0
    assert report["agent"]["version"] == __version__
    assert report["agent"]["process"] == machine.agent
    assert report["attachments"] == {"pending": 0, "committed": 1, "deleting": 0}
    assert report["troubles"] == []
    assert report["counters"]["ADD done"] == 2
    (network,) = report["networks"]
    assert network["name"] == "netloom"
    assert network["pools"][0] == {
        "cidr": "10.78.0.0/16",
        "capacity": 65534,
        "held": 1,
        "resting": 1,
        "free": 65532,
    }


def test_without_an_agent_the_status_is_1_and_the_journal_is_shown(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.end_agent()
    outcome = machine.run("status")
    report = outcome.document
    assert (outcome.status, report["agent"]) == (1, None)
    assert str(machine.node.socket) in report["why"]
    assert report["attachments"]["committed"] == 1
    assert [pool["held"] for pool in report["networks"][0]["pools"]] == [1, 1]


def test_on_a_terminal_it_is_a_few_lines_and_a_table_of_pools(machine: Machine) -> None:
    machine.attach(machine.node.container())
    outcome = machine.on_a_terminal("status")
    assert outcome.status == 0
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith(f"agent        version {__version__}, process {machine.agent}, since ")
    assert "attachments  1 committed" in lines
    assert lines[-3].split() == ["NETWORK", "POOL", "CAPACITY", "HELD", "RESTING", "FREE"]
    assert lines[-1].split() == ["netloom", "fd78::/64", "2^64", "1", "0", "2^64"]


def test_a_machine_that_is_no_node_is_told_how_to_become_one(bare: Machine) -> None:
    outcome = bare.on_a_terminal("status")
    assert outcome.status == 1
    assert "not running" in outcome.stdout
    assert "`netloom up`" in outcome.stdout


def test_a_network_that_cannot_work_is_named_with_the_reason(machine: Machine) -> None:
    (machine.stage.networks / "20-bad.conflist").write_text(
        '{"cniVersion":"1.0.0","name":"bad","plugins":[{"type":"netloom","pools":[]}]}'
    )
    bad = machine.run("status").document["networks"][1]
    assert (bad["name"], bad["pools"]) == ("bad", [])
    assert "no pools" in bad["error"]
    assert "no pools" in machine.on_a_terminal("status").stdout


def test_a_journal_that_cannot_be_read_is_a_trouble(machine: Machine) -> None:
    machine.run("down")
    machine.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = machine.run("status")
    assert outcome.status == 1
    report = outcome.document
    assert any("journal.db" in trouble for trouble in report["troubles"])
    assert report["attachments"] is None
    assert [pool["free"] for pool in report["networks"][0]["pools"]] == [None, None]
    assert "unknown" in machine.on_a_terminal("status").stdout
