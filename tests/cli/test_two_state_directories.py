"""A second agent, with a state directory of its own, on another's host: it refuses, and touches nothing."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import NETLOOM

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


def copied(machine: Machine, other: Other) -> None:
    machine.run("down")
    words = ("journal", "restore", str(machine.journal), "--state-dir", str(other.state_dir))
    assert machine.run(*words).status == 0


def require_that_the_first_refuses(machine: Machine, other: Other) -> None:
    before = kernel_of(machine)
    refused = machine.up("--json")
    assert (refused.status, refused.error["code"]) == (1, "node-of-another")
    assert f"`netloom up --state-dir {other.state_dir}`" in refused.error["next"]
    status = machine.run("status", "--json").document
    assert status["findings"][0]["code"] == "node-of-another"
    assert status["next"] == refused.error["next"]
    assert kernel_of(machine) == before


def test_a_journal_that_was_copied_does_not_take_the_node_back(machine: Machine, other: Other) -> None:
    copied(machine, other)
    for _ in range(2):
        assert other.up().status == 0
        try:
            assert other.run("status", "--json").document["findings"] == []
        finally:
            other.run("down")
        require_that_the_first_refuses(machine, other)


def test_nor_does_it_after_the_second_was_killed_as_it_began(machine: Machine, other: Other) -> None:
    """With the table marked, and before the journal has its new identity."""
    copied(machine, other)
    words = machine.node.command(str(NETLOOM), "agent", *other.place)
    environment = {**machine.node.environment(), "NETLOOM_FAILPOINT": "recovery.node"}
    killed = subprocess.run(words, env=environment, capture_output=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    require_that_the_first_refuses(machine, other)
    assert other.up().status == 0
    other.run("down")
    require_that_the_first_refuses(machine, other)


def test_a_state_directory_that_was_moved_can_be_moved_back(machine: Machine, other: Other) -> None:
    before = machine.listed()
    machine.run("down")
    shutil.move(machine.node.state_dir, other.state_dir)
    assert other.up().status == 0
    other.run("down")
    shutil.move(other.state_dir, machine.node.state_dir)
    machine.brought_up()
    assert machine.listed() == before
    assert machine.run("status", "--json").document["findings"] == []


@pytest.mark.parametrize("words", [(), ("--purge", "--yes")])
def test_down_leaves_an_agent_with_another_state_directory(
    machine: Machine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    before = machine.agent, kernel_of(machine)
    refused = machine.run("down", "--json", *words, "--state-dir", str(tmp_path))
    assert (refused.status, refused.error["code"]) == (1, "agent-of-other-state")
    assert f"--state-dir {machine.node.state_dir}" in refused.error["next"]
    assert (machine.agent, kernel_of(machine)) == before
    assert machine.conflist.exists()
    assert machine.run("down", *words).status == 0


def test_another_path_to_the_state_directory_is_the_same(machine: Machine, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(machine.node.state_dir)
    assert machine.run("status", "--json", "--state-dir", str(link)).document["findings"] == []
    assert machine.run("down", "--state-dir", str(link)).status == 0
    assert machine.agent is None


def test_ls_tells_that_its_journal_is_not_the_agents(machine: Machine, other: Other) -> None:
    copied(machine, other)
    theirs = ("--state-dir", str(other.state_dir))
    assert machine.up("--json", *theirs).status == 0
    try:
        stale = machine.run("ls")
        assert (stale.status, f"--state-dir {other.state_dir}" in stale.stderr) == (0, True)
        as_json = machine.run("ls", "--json")
        assert (len(as_json.document), str(other.state_dir) in as_json.stderr) == (1, True)
        assert machine.run("ls", *theirs).stderr == ""
        nowhere = machine.run("ls", "--json", "--state-dir", str(other.state_dir.parent))
        assert nowhere.error["code"] == "agent-of-other-state"
    finally:
        machine.run("down", *theirs)
    assert machine.run("ls").stderr == ""


def test_a_purge_with_a_journal_that_was_copied_leaves_the_containers(machine: Machine, other: Other) -> None:
    copied(machine, other)
    assert other.up().status == 0
    try:
        before = kernel_of(machine)
        purged = machine.run("down", "--purge", "--yes", "--json")
        assert str(other.state_dir) in json.dumps(purged.document["kept"])
        assert kernel_of(machine) == before
        assert other.run("check", "--json").document["findings"] == []
    finally:
        other.run("down")
