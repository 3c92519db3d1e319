"""`netloom up` of other versions under load: no call fails, no packet is lost; a refusal changes nothing."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from netloom.journal.schema import VERSION

from ..fixtures.installation import Installation
from ..fixtures.machine import Machine
from ..fixtures.node import Outcome
from ..fixtures.successor import calling, failures
from .scene import needs_root
from .stream import Stream

pytestmark = [pytest.mark.crash, needs_root]

WORKERS = 8
ADDED = "ALTER TABLE attachment ADD COLUMN of_later TEXT NOT NULL DEFAULT 'later';"
BREAKING = "CREATE TABLE of_later (a INTEGER) STRICT;"


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory, Machine(Path(directory)) as made:
        yield made


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Installation]:
    """Three, of which one has another schema, another table and another plugin."""

    def made(name: str, **parts: Any) -> Installation:
        return Installation(tmp_path_factory.mktemp("installed") / name, name, **parts)

    later = made("98.0.0", migration=ADDED, readable_by=VERSION, table="set of_later { type ifname; }")
    plugin = later.directory / "netloom" / "_plugin" / "netloom"
    plugin.write_bytes(plugin.read_bytes() + b"\0")
    return {
        "this": made("97.0.0"),
        "other": made("97.1.0"),
        "later": later,
        "breaking": made("99.0.0", migration=BREAKING, readable_by=VERSION + 1),
        "wrong": made("99.1.0", migration="ALTER TABLE of_nobody ADD COLUMN a TEXT;", readable_by=VERSION),
    }


def up(machine: Machine, version: Installation, **variables: str) -> Outcome:
    done = subprocess.run(
        machine.node.command(*version.command, "up", "--plugin-dir", str(machine.cli.plugins), "--json"),
        env={**machine.cli.env, "PYTHONPATH": str(version.directory), **variables},
        capture_output=True,
        timeout=60,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def brought_up(machine: Machine, version: Installation) -> Any:
    done = up(machine, version)
    assert done.status == 0, done.errors.decode()
    document = done.document
    assert document["agent"]["version"] == version.version
    return document


def streams(machine: Machine) -> list[Stream]:
    """Between two containers, both ways, of both families."""
    node = machine.node
    one, other = node.container(), node.container()
    to_one, to_other = node.add(one).addresses, node.add(other).addresses
    return [
        *(Stream(other, one, address) for address in to_one),
        *(Stream(one, other, address) for address in to_other),
    ]


def require_sound(machine: Machine) -> None:
    assert machine.node.audit() == []
    assert machine.node.intents() == []
    verified = machine.run("journal", "verify", "--json")
    assert verified.status == 0, verified.stdout


def test_ten_upgrades_and_downgrades_under_load_cost_no_call_and_no_packet(
    machine: Machine, versions: dict[str, Installation]
) -> None:
    brought_up(machine, versions["this"])
    order = ["later", "this", "other", "later", "other", "this", "later", "this", "other", "this"]
    waited = []
    with ExitStack() as stack:
        running = [stack.enter_context(stream) for stream in streams(machine)]
        callers = stack.enter_context(calling(machine.node, WORKERS, machine.plugin))
        for name in order:
            done = brought_up(machine, versions[name])
            assert done["agent"]["change"] == "replaced"
            waited.append(done["agent"]["waited_ms"])
            time.sleep(0.5)
    print("calls", sum(caller.calls for caller in callers), "waited for", waited, "ms")
    assert failures(callers) == []
    assert all(caller.calls > len(order) for caller in callers)
    assert [(stream.sent > 500, stream.lost) for stream in running] == [(True, 0)] * 4
    require_sound(machine)


@pytest.mark.parametrize(
    ("runs", "comes", "said"),
    [("this", "wrong", "cannot migrate"), ("breaking", "this", f"schema {VERSION + 1}")],
    ids=["its migration fails", "it cannot read the journal"],
)
def test_a_version_that_cannot_follow_changes_nothing(
    machine: Machine, versions: dict[str, Installation], runs: str, comes: str, said: str
) -> None:
    before = brought_up(machine, versions[runs])["agent"]
    plugin = machine.plugin.read_bytes()
    files = sorted(path.name for path in machine.node.state_dir.iterdir())
    with ExitStack() as stack:
        running = [stack.enter_context(stream) for stream in streams(machine)]
        callers = stack.enter_context(calling(machine.node, WORKERS, machine.plugin))
        refused = up(machine, versions[comes])
        assert refused.status == 1
        error = json.loads(refused.errors)
        assert error["code"] == "agent-not-replaced"
        assert any(said in line for line in error["said"]), error
        time.sleep(0.5)
    assert failures(callers) == []
    assert [stream.lost for stream in running] == [0] * 4
    assert machine.agent == before["process"]
    assert machine.plugin.read_bytes() == plugin
    assert sorted(path.name for path in machine.node.state_dir.iterdir()) == files
    assert brought_up(machine, versions[runs])["agent"]["change"] == "kept"


def test_a_migration_that_fails_when_calls_wait_already_changes_nothing(
    machine: Machine, versions: dict[str, Installation]
) -> None:
    """As on a disk that becomes full: the agent that ran takes its journal back."""
    before = brought_up(machine, versions["this"])["agent"]
    with calling(machine.node, WORKERS, machine.plugin) as callers:
        refused = up(machine, versions["later"], NETLOOM_FAILPOINT="migration.kept:error")
        assert refused.status == 1
        assert json.loads(refused.errors)["code"] == "agent-not-replaced"
        time.sleep(0.3)
    assert failures(callers) == []
    assert machine.agent == before["process"]
    require_sound(machine)
    assert brought_up(machine, versions["later"])["agent"]["change"] == "replaced"
