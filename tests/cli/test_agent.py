"""`netloom agent`: what keeps it from starting, and what to do."""

from __future__ import annotations

import pytest

from .machine import Machine

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
    assert (outcome.status, outcome.said["next"].startswith("move it away")) == (1, True)
