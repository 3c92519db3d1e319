"""A second agent, with a state directory of its own, on another's host: it refuses, and touches nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ..agent.stage import NETLOOM
from .machine import Machine
from .stage import Outcome

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


class Other:
    """Another operator on the same host, with directories of its own."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        self.machine = machine
        self.state_dir = directory / "other"
        self.place = ("--state-dir", str(self.state_dir), "--socket", str(directory / "other.sock"))

    def up(self, *words: str) -> Outcome:
        return self.machine.up("--json", *self.place, *words)

    def run(self, *words: str) -> Outcome:
        return self.machine.run(*words, *self.place)

    def agent(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.machine.node.command(str(NETLOOM), "agent", *self.place),
            env=self.machine.node.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture
def other(machine: Machine, tmp_path: Path) -> Other:
    """The first one's machine has a container."""
    machine.attach(machine.node.container())
    return Other(machine, tmp_path)


def kernel_of(machine: Machine) -> tuple[str, list[str]]:
    return machine.node.inside("nft", "list", "ruleset"), machine.node.links()


def require_refusal(machine: Machine, other: Other) -> None:
    before = kernel_of(machine)
    refused = other.up()
    assert (refused.status, refused.error["code"]) == (1, "node-of-another")
    assert str(machine.node.state_dir) in refused.error["error"]
    assert not other.state_dir.exists()
    agent = other.agent()
    assert agent.returncode == 1
    assert str(machine.node.state_dir) in agent.stderr
    assert kernel_of(machine) == before


def test_it_refuses_while_the_first_runs(machine: Machine, other: Other) -> None:
    require_refusal(machine, other)
    assert other.up("--adopt").error["code"] == "node-of-another"


def test_it_refuses_while_the_first_is_stopped_and_its_containers_run(machine: Machine, other: Other) -> None:
    machine.run("down")
    require_refusal(machine, other)
    found = other.run("status", "--json").document["findings"]
    assert "node-of-another" in [it["code"] for it in found]
    machine.brought_up()
    assert machine.run("status", "--json").document["findings"] == []


def test_it_refuses_after_a_flush_that_the_first_has_undone(machine: Machine, other: Other) -> None:
    machine.node.inside("nft", "flush", "ruleset")
    machine.attach(machine.node.container())  # which lays the table down, if nobody has yet
    require_refusal(machine, other)


def test_who_adopts_keeps_what_containers_have(machine: Machine, other: Other) -> None:
    machine.run("down")
    before = machine.node.inside("nft", "-j", "list", "map", "inet", "netloom", "leaving4")
    adopted = other.up("--adopt", "--json")
    assert adopted.status == 0
    assert any(str(machine.node.state_dir) in it for it in adopted.document["warnings"])
    try:
        after = machine.node.inside("nft", "-j", "list", "map", "inet", "netloom", "leaving4")
        elements = [json.loads(it)["nftables"][1]["map"]["elem"] for it in (before, after)]
        assert elements[0] == elements[1]
        (finding,) = other.run("status", "--json").document["findings"]
        assert finding["code"] == "link-orphaned"
        refused = machine.up("--json")
        assert (refused.status, refused.error["code"]) == (1, "node-of-another")
    finally:
        other.run("down")


def test_a_journal_that_was_moved_brings_its_node_along(machine: Machine, other: Other) -> None:
    machine.run("down")
    words = ("journal", "restore", str(machine.journal), "--state-dir", str(other.state_dir))
    assert machine.run(*words).status == 0
    assert other.up().status == 0
    try:
        assert other.run("status", "--json").document["findings"] == []
    finally:
        other.run("down")


def test_a_purge_of_the_second_leaves_the_node_of_the_first(machine: Machine, other: Other) -> None:
    before = kernel_of(machine)
    other.state_dir.mkdir()
    purged = other.run("down", "--purge", "--yes", "--json")
    assert str(machine.node.state_dir) in json.dumps(purged.document)
    assert kernel_of(machine) == before


def test_a_host_without_containers_is_free_for_another(machine: Machine, tmp_path: Path) -> None:
    machine.run("down")
    other = Other(machine, tmp_path)
    assert other.up().status == 0
    other.run("down")


def test_a_table_without_the_mark_is_any_agents(machine: Machine, other: Other) -> None:
    """As an earlier version has laid it down. The next agent marks it."""
    machine.run("down")
    machine.node.inside("nft", "delete", "chain", "inet", "netloom", "owner")
    machine.brought_up()
    require_refusal(machine, other)
