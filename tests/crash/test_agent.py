"""SIGKILL at every step of the agent: the next one finds nothing lost, nothing twice, nothing left over."""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import netloom
from netloom.failpoints import NAMES

from ..fixtures.node import eventually
from .scene import FIRST, IMPATIENT, SECOND, Scene, needs_root
from .test_handover import STEPS as OF_HANDOVERS

pytestmark = [pytest.mark.crash, needs_root]

SOURCE = Path(netloom.__file__).parent


class Scenario(NamedTuple):
    """How an agent is brought to its steps, and what is done when the next one serves.

    `before` happens while an agent serves that does not die. `during` happens while the one serves that
    does; without it, that one dies before it serves. `after` is the same again, or what follows from it.
    """

    steps: tuple[str, ...]
    during: Callable[[Scene], object] | None = None
    before: Callable[[Scene], object] | None = None
    after: Callable[[Scene], object] | None = None
    options: tuple[str, ...] = ()


def attach(scene: Scene) -> None:
    assert scene.add().code == 0


def attach_in_vain(scene: Scene) -> None:
    assert scene.add().code == 11
    scene.died_unheard()


def attach_over_another(scene: Scene) -> None:
    """A link of that name, which is not ours, is in the container already."""
    scene.node.in_container(scene.victim, "ip", "link", "add", SECOND, "type", "bridge")
    assert scene.add().code in (11, 102)
    scene.node.in_container(scene.victim, "ip", "link", "del", SECOND)


def detach(scene: Scene) -> None:
    """DEL succeeds whatever becomes of the agent: the plugin leaves it as an intent."""
    assert scene.delete().code == 0


def collect_in_vain(scene: Scene) -> None:
    assert scene.collect().code == 11
    scene.died_unheard()


def collect(scene: Scene) -> None:
    assert scene.collect().code == 0


def lose_container(scene: Scene) -> None:
    """It goes without a DEL, and another one will be in its place."""
    scene.node.remove_container(scene.victim)
    scene.attached -= {(scene.victim, FIRST), (scene.victim, SECOND)}
    scene.victim = scene.node.container()


def flush_tables(scene: Scene) -> None:
    scene.node.inside("nft", "flush", "ruleset")


def lose_link(scene: Scene) -> None:
    found = scene.node.ledger().find(scene.key)
    assert found is not None
    scene.node.inside("ip", "link", "del", found.host_link)


def change_mac(scene: Scene) -> None:
    """As a plugin does that stands behind ours in a list."""
    scene.node.in_container(scene.victim, "ip", "link", "set", SECOND, "address", "02:00:00:00:00:99")


def leave_unfinished(scene: Scene) -> None:
    """One attachment is deleting, one is pending, and the DEL of one came when nobody was there."""
    node = scene.node
    pending, queued = node.container(), node.container()
    attach(scene)
    node.add(queued)
    scene.start("del.marked:error,add.applied", "--tick", "60")
    assert scene.collect((queued, FIRST)).code == 999
    assert node.plugin("ADD", pending).code == 11
    scene.died()
    node.delete(queued)
    states = sorted(place.state for place in node.ledger().places())
    assert states == ["committed", "committed", "committed", "committed", "deleting", "pending"]
    assert len(node.intents()) == 1
    scene.attached.discard((scene.victim, SECOND))


def lose_boot(scene: Scene) -> None:
    """As after a restart of the machine: the journal is of another boot, and the kernel knows nothing."""
    node = scene.node
    assert node.stop() == 0
    with sqlite3.connect(node.state_dir / "journal.db") as connection:
        connection.execute("UPDATE attachment SET boot_id = 'another'")
        connection.execute("UPDATE fact SET value = 'another' WHERE name = 'boot_id'")
    connection.close()
    flush_tables(scene)
    for link in node.links():
        node.inside("ip", "link", "del", link)
    scene.attached.clear()


_EVERY_COMMIT = tuple(
    f"journal.{step}:kill:{commit}" for commit in (2, 3) for step in ("begun", "written", "committed")
)
SCENARIOS = {
    "ADD": Scenario(
        ("add.judged", "add.reserved", "add.applied", "add.committed", "add.answered"),
        during=attach_in_vain,
        after=attach,
    ),
    "ADD that fails": Scenario(("add.undone", "add.freed"), during=attach_over_another, after=attach),
    "DEL": Scenario(
        ("del.judged", "del.marked", "del.removed", "del.released", "del.answered"),
        before=attach,
        during=detach,
        after=detach,
    ),
    "GC": Scenario(
        ("gc.listed", "gc.row", "gc.done"), before=attach, during=collect_in_vain, after=collect
    ),
    "collection": Scenario(
        ("collect.found", "collect.done"),
        before=attach,
        during=lose_container,
        after=Scene.attach_all,
        options=IMPATIENT,
    ),
    "repair of the table": Scenario(("repair.found",), during=flush_tables, options=IMPATIENT),
    "repair of a link": Scenario(("repair.done",), before=attach, during=lose_link, options=IMPATIENT),
    "repair of a MAC": Scenario(
        ("repair.forgotten", "repair.adopted"),
        before=attach,
        during=change_mac,
        after=detach,
        options=IMPATIENT,
    ),
    "recovery": Scenario(
        ("recovery.locked", "recovery.boot", "recovery.node", "recovery.intent", "recovery.intents",
         "recovery.row", "recovery.row-removed", "recovery.rows", "recovery.done"),
        before=leave_unfinished,
    ),
    "recovery after a boot": Scenario(
        ("recovery.boot", "recovery.orphans", "recovery.node"), before=lose_boot, after=Scene.attach_all
    ),
    # The first commit of an agent's life says which boot it is; ADD and DEL have two each.
    "journal at the start": Scenario(("journal.begun", "journal.written", "journal.committed")),
    "journal of ADD": Scenario(_EVERY_COMMIT, during=attach_in_vain, after=attach),
    "journal of DEL": Scenario(_EVERY_COMMIT, before=attach, during=detach, after=detach),
}  # fmt: skip
RECOVERY = SCENARIOS["recovery"]
CASES = [
    pytest.param(scenario, step, id=f"{name} at {step}")
    for name, scenario in SCENARIOS.items()
    for step in scenario.steps
]
# These are reached once for each kernel object, and have tests of their own.
OF_OBJECTS = {"kernel.made", "kernel.taken"}
# Whoever asked has its answer by then: tests/agent/test_afterwards.py.
AFTER_THE_ANSWER = {"operation.recorded"}
# No agent runs then: tests/cli/test_journal_restore.py.
OF_RESTORING = {"restore.aside", "restore.done"}
# Somebody has taken the journal away: tests/journal/test_moved_file.py.
OF_LOSING = {"moved-file.checkpointed"}
# Of commands that install files: tests/cli/test_missing_network.py.
OF_INSTALLING = {"install.intended", "install.written"}


def test_every_step_in_the_source_is_one_that_an_agent_is_killed_at() -> None:
    in_source = set()
    for path in SOURCE.rglob("*.py"):
        in_source |= set(re.findall(r'\bfailpoint\("([^"]+)"\)', path.read_text()))
    killed_at = {step.split(":")[0] for scenario in SCENARIOS.values() for step in scenario.steps}
    elsewhere = OF_OBJECTS | AFTER_THE_ANSWER | OF_HANDOVERS | OF_RESTORING | OF_LOSING | OF_INSTALLING
    assert in_source == set(NAMES) == killed_at | elsewhere


@pytest.mark.parametrize(("scenario", "step"), CASES)
def test_an_agent_killed_at_any_step_leaves_nothing_that_the_next_one_does_not_settle(
    scene: Scene, scenario: Scenario, step: str
) -> None:
    live_and_die(scene, scenario, step)
    scene.start("", *scenario.options)
    live_on(scene, scenario)


def live_and_die(scene: Scene, scenario: Scenario, step: str) -> None:
    if scenario.before is not None:
        scenario.before(scene)
    if scenario.during is None:
        scene.start_and_die(step)
        return
    # It tells the journal of its start when it serves already, and may die of that.
    scene.lives_to_serve(step, *scenario.options)
    scenario.during(scene)
    scene.died()


def live_on(scene: Scene, scenario: Scenario) -> None:
    """All is well as soon as the next agent serves; what it does by itself needs a moment more."""
    if scenario.options:
        assert eventually(lambda: scene.node.audit() == []), scene.node.audit()
    scene.require_sound()
    if scenario.after is not None:
        scenario.after(scene)
        scene.require_sound()
    scene.require_verbs_work()


@pytest.mark.parametrize("step", RECOVERY.steps)
def test_a_recovery_killed_twice_at_the_same_step_is_finished_by_the_third(scene: Scene, step: str) -> None:
    live_and_die(scene, RECOVERY, step)
    scene.lives_to_serve(step)  # what would bring it there again may have been done by the first
    scene.start()
    live_on(scene, RECOVERY)


def test_a_recovery_killed_at_one_step_after_the_other_is_finished_at_last(scene: Scene) -> None:
    leave_unfinished(scene)
    for step in RECOVERY.steps:
        if step in ("recovery.intents", "recovery.row-removed", "recovery.rows"):
            continue  # what would bring an agent there was done by the one before it
        scene.start_and_die(step)
    scene.start()
    live_on(scene, RECOVERY)


def test_an_add_killed_after_any_kernel_object_is_undone(scene: Scene) -> None:
    deaths = 0
    for number in itertools.count(1):
        if not scene.lives_to_serve(f"kernel.made:kill:{number}"):
            continue  # the node has objects of its own
        scene.require_sound()
        if scene.add().code == 0:
            break
        scene.died()
        deaths += 1
    assert deaths > 10
    scene.node.kill()  # it would die at the next object, if not now
    scene.start()
    scene.require_verbs_work()


@pytest.mark.parametrize("verb", [detach, attach_over_another])
def test_a_removal_killed_after_any_kernel_object_is_finished(
    scene: Scene, verb: Callable[[Scene], object]
) -> None:
    deaths = 0
    for number in itertools.count(1):
        if verb is detach:
            attach(scene)
        scene.start(f"kernel.taken:kill:{number}")
        verb(scene)
        if scene.survived():
            break
        deaths += 1
        scene.start()
        scene.require_sound()
    assert deaths >= 1
    scene.start()
    scene.require_verbs_work()


def test_a_repair_killed_after_any_kernel_object_is_done_by_the_next(scene: Scene) -> None:
    attach(scene)
    deaths = 0
    for number in range(2, 16, 2):
        # It hears of the link. Ticks come to that step, too, but none before the link is lost.
        if not scene.lives_to_serve(f"kernel.made:kill:{number}", "--tick", "5"):
            continue
        lose_link(scene)
        scene.died()
        deaths += 1
        scene.start("", *IMPATIENT)
        assert eventually(lambda: scene.node.audit() == []), scene.node.audit()
        scene.require_sound()
    assert deaths > 4
    scene.require_verbs_work()
