"""SIGKILL at every step of a handover, of either side: no call fails for good, and nothing is lost.

A successor that dies costs nobody anything: the agent before it goes on, and whoever called has waited.
An agent that dies before it has offered its socket is one that was killed: who had called is to try again.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal.schema import VERSION

from ..fixtures.installation import Installation
from ..fixtures.node import NETLOOM, eventually, is_stopped
from ..fixtures.successor import calling, failures, start_installed, successor
from .scene import SECOND, Scene, needs_root

pytestmark = [pytest.mark.crash, needs_root]

BEFORE_ITS_WORD = (
    "handover.prepared", "handover.asked", "handover.received", "handover.opened", "recovery.locked",
    "recovery.boot", "recovery.node", "recovery.done", "journal.begun", "journal.written",
    "journal.committed", "handover.serving",
)  # fmt: skip
AFTER_ITS_WORD = ("handover.said",)
BEFORE_THE_OFFER = ("handover.begun", "handover.drained", "handover.released")
AFTER_THE_OFFER = ("handover.offered", "handover.heard")
MIGRATING = ("migration.kept", "migration.done")
TAKING_BACK = ("migration.undone",)
# The older agent's way has tests of its own: tests/agent/test_handover.py.
TAKING_OVER = ("takeover.placed", "takeover.ended")
STEPS = {
    *BEFORE_ITS_WORD, *AFTER_ITS_WORD, *BEFORE_THE_OFFER, *AFTER_THE_OFFER, *MIGRATING, *TAKING_BACK,
    *TAKING_OVER, "handover.resumed",
}  # fmt: skip
KILL = -signal.SIGKILL
BREAKING = "CREATE TABLE of_later (a INTEGER) STRICT;"


def serves(scene: Scene) -> bool:
    return scene.node.answers() and scene.node.plugin("STATUS").status == 0


def before(scene: Scene) -> subprocess.Popen[bytes]:
    assert scene.node.agent is not None
    return scene.node.agent


@pytest.mark.parametrize("step", BEFORE_ITS_WORD)
def test_a_successor_killed_before_its_word_has_changed_nothing(scene: Scene, step: str) -> None:
    agent = before(scene)
    with calling(scene.node, 2) as callers:
        assert successor(scene.node, step).wait(20) == KILL, scene.node.log()[-2000:]
        assert eventually(lambda: serves(scene))
    assert agent.poll() is None
    assert failures(callers) == []
    scene.require_sound()
    scene.require_verbs_work()


@pytest.mark.parametrize("step", BEFORE_ITS_WORD)
def test_a_step_of_a_successor_that_fails_has_changed_nothing(scene: Scene, step: str) -> None:
    agent = before(scene)
    with calling(scene.node, 2) as callers:
        assert successor(scene.node, f"{step}:error").wait(20) == 1, scene.node.log()[-2000:]
        assert eventually(lambda: serves(scene))
    assert agent.poll() is None
    assert failures(callers) == []
    scene.require_sound()


def test_one_after_the_other_may_fail_and_the_last_follows(scene: Scene) -> None:
    agent = before(scene)
    with calling(scene.node, 2) as callers:
        for step in BEFORE_ITS_WORD:
            assert successor(scene.node, step).wait(20) == KILL
        scene.node.agent = successor(scene.node)
        assert agent.wait(20) == 0
    assert failures(callers) == []
    scene.require_sound()
    scene.require_verbs_work()


@pytest.mark.parametrize("step", AFTER_ITS_WORD)
def test_a_successor_killed_after_its_word_is_an_agent_that_was_killed(scene: Scene, step: str) -> None:
    agent = before(scene)
    assert successor(scene.node, step).wait(20) == KILL
    assert agent.wait(20) == 0
    scene.node.start()
    scene.require_sound()
    scene.require_verbs_work()


@pytest.mark.parametrize("step", BEFORE_THE_OFFER)
def test_an_agent_killed_before_its_offer_is_followed_all_the_same(scene: Scene, step: str) -> None:
    scene.start(step)
    agent = before(scene)
    scene.node.agent = successor(scene.node)
    assert agent.wait(20) == KILL
    assert eventually(lambda: serves(scene)), scene.node.log()[-2000:]
    scene.require_sound()
    scene.require_verbs_work()


@pytest.mark.parametrize("step", AFTER_THE_OFFER)
def test_an_agent_killed_after_its_offer_costs_nobody_anything(scene: Scene, step: str) -> None:
    scene.start(step)
    agent = before(scene)
    with calling(scene.node, 2) as callers:
        scene.node.agent = successor(scene.node)
        assert agent.wait(20) == KILL
        assert eventually(lambda: serves(scene))
    assert failures(callers) == []
    scene.require_sound()
    scene.require_verbs_work()


def test_both_killed_leave_nothing_that_the_next_one_does_not_settle(scene: Scene) -> None:
    scene.start("handover.resumed")
    agent = before(scene)
    assert successor(scene.node, "handover.opened").wait(20) == KILL
    assert agent.wait(20) == KILL
    scene.node.start()
    scene.require_sound()
    scene.require_verbs_work()


@pytest.fixture
def later(tmp_path: Path) -> Installation:
    """A version whose journal has one more column, which this one need not know."""
    return Installation(
        tmp_path,
        "98.0.0",
        migration="ALTER TABLE attachment ADD COLUMN of_later TEXT NOT NULL DEFAULT '';",
        readable_by=VERSION,
    )


@pytest.mark.parametrize("step", [*MIGRATING, "recovery.done", "handover.serving"])
def test_a_successor_killed_while_or_after_it_migrates_has_changed_nothing_that_matters(
    scene: Scene, later: Installation, step: str
) -> None:
    agent = before(scene)
    with calling(scene.node, 2) as callers:
        follower = successor(scene.node, step, command=later.command, environment=later.environment())
        assert follower.wait(20) == KILL, scene.node.log()[-2000:]
        assert eventually(lambda: serves(scene))
    assert agent.poll() is None
    assert failures(callers) == []
    assert (scene.node.state_dir / f"journal.db.backup-{VERSION}").exists()
    scene.require_sound()
    scene.require_verbs_work()
    # And the next one of that version follows.
    scene.node.agent = successor(scene.node, command=later.command, environment=later.environment())
    assert agent.wait(20) == 0
    assert scene.node.info()["version"] == "98.0.0"
    scene.require_verbs_work()


@pytest.fixture
def breaking(tmp_path: Path) -> Installation:
    """A version whose journal this one cannot read."""
    return Installation(tmp_path, "99.0.0", migration=BREAKING, readable_by=VERSION + 1)


@pytest.mark.parametrize(
    "step",
    [*MIGRATING, "recovery.done", "handover.serving", "migration.done:error", "handover.serving:error"],
)
def test_a_successor_that_ends_after_a_migration_that_nobody_else_can_read_has_changed_nothing(
    scene: Scene, breaking: Installation, step: str
) -> None:
    """The journal as it was is put back: the agent that was there goes on."""
    agent = before(scene)
    with calling(scene.node, 2) as callers:
        follower = successor(scene.node, step, command=breaking.command, environment=breaking.environment())
        assert follower.wait(20) == (1 if step.endswith(":error") else KILL), scene.node.log()[-2000:]
        assert eventually(lambda: serves(scene)), scene.node.log()[-2000:]
    assert agent.poll() is None
    assert failures(callers) == []
    assert schema_of(scene) == VERSION
    scene.require_sound()
    scene.require_verbs_work()
    # And the next one of that version follows.
    scene.node.agent = successor(scene.node, command=breaking.command, environment=breaking.environment())
    assert agent.wait(20) == 0
    assert eventually(lambda: schema_of(scene) == VERSION + 1)
    assert scene.node.plugin("STATUS").status == 0


def test_what_such_a_successor_has_taken_away_stays_away(scene: Scene, breaking: Installation) -> None:
    """It has done a DEL that waited, and the promise of it is gone: the journal of before must not forget."""
    agent = before(scene)
    assert scene.add().status == 0
    steps = "handover.received:stop,recovery.done"
    follower = successor(scene.node, steps, command=breaking.command, environment=breaking.environment())
    assert eventually(lambda: is_stopped(follower)), scene.node.log()[-2000:]
    deleted = scene.node.plugin("DEL", scene.victim, ifname=SECOND, NETLOOM_DEADLINE="0.3")
    assert (deleted.status, len(scene.node.intents())) == (0, 1)
    follower.send_signal(signal.SIGCONT)
    assert follower.wait(20) == KILL, scene.node.log()[-2000:]
    assert eventually(lambda: serves(scene)), scene.node.log()[-2000:]
    assert agent.poll() is None
    scene.attached.discard((scene.victim, SECOND))
    scene.require_sound()
    scene.require_verbs_work()


def test_an_agent_that_is_killed_when_it_has_put_its_journal_back_is_one_that_was_killed(
    scene: Scene, breaking: Installation
) -> None:
    scene.start("migration.undone")
    agent = before(scene)
    follower = successor(
        scene.node, "migration.done", command=breaking.command, environment=breaking.environment()
    )
    assert follower.wait(20) == KILL
    assert agent.wait(20) == KILL
    scene.node.start()
    scene.require_sound()
    scene.require_verbs_work()


def test_an_agent_whose_journal_nobody_can_put_back_says_so_and_ends(
    scene: Scene, breaking: Installation
) -> None:
    """It could wait for ever. Containers keep their networks, and the later version goes on from there."""
    agent = before(scene)
    follower = successor(
        scene.node, "migration.done:stop", command=breaking.command, environment=breaking.environment()
    )
    assert eventually(lambda: is_stopped(follower)), scene.node.log()[-2000:]
    (scene.node.state_dir / f"journal.db.backup-{VERSION}").unlink()
    follower.kill()
    assert follower.wait(10) == KILL
    assert agent.wait(20) == 1
    assert not scene.node.socket.exists()
    scene.require_neighbours()
    said = subprocess.run(
        scene.node.command(str(NETLOOM), "status", "--json"),
        env=scene.node.environment(),
        capture_output=True,
        timeout=30,
    )
    assert "journal-newer" in [it["code"] for it in json.loads(said.stdout)["findings"]]
    start_installed(scene.node, breaking)
    assert scene.add().code == 0
    assert scene.delete().code == 0


def schema_of(scene: Scene) -> int:
    with closing(sqlite3.connect(f"file:{scene.node.state_dir}/journal.db?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def test_an_agent_that_cannot_take_its_journal_back_waits_until_it_can(scene: Scene) -> None:
    """Whatever is wrong with the disk for a while: whoever calls waits, too."""
    agent = before(scene)
    journal, aside = scene.node.state_dir / "journal.db", scene.node.state_dir / "aside.db"
    follower = successor(scene.node, "handover.opened:stop")
    assert eventually(lambda: is_stopped(follower))
    journal.rename(aside)
    journal.mkdir()
    follower.kill()
    assert follower.wait(10) == KILL
    with calling(scene.node, 1) as callers:
        assert eventually(lambda: "cannot resume yet" in scene.node.log())
        journal.rmdir()
        aside.rename(journal)
        assert eventually(lambda: serves(scene))
    assert agent.poll() is None
    assert failures(callers) == []
    scene.require_sound()
