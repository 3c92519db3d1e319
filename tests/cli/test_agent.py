"""`netloom agent`: what keeps it from starting, and what to do."""

from __future__ import annotations

import json

import pytest

from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel


def test_a_second_agent_is_told_who_is_there_and_how_to_stop_it(machine: Machine) -> None:
    outcome = machine.run("agent")
    assert outcome.status == 1
    assert f"process {machine.agent}" in outcome.said["error"]
    assert "`netloom down`" in outcome.said["next"]


def test_an_agent_with_a_damaged_journal_is_told_what_to_do_with_it(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.run("agent")
    assert (outcome.status, outcome.said["next"].startswith("restore a copy")) == (1, True)


def test_the_log_is_an_object_a_line_if_that_is_asked_for(bare: Machine) -> None:
    node = bare.node
    node.start("--json")
    node.plugin("ADD", "nobody")
    assert node.stop() == 0
    lines = [json.loads(line) for line in node.log().splitlines()]
    assert {"info", "warning"} <= {line["level"] for line in lines}
    assert all(set(line) >= {"time", "level", "message"} for line in lines)
    assert any("code 8" in line["message"] for line in lines)
