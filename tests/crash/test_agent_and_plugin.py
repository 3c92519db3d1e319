"""The plugin is killed at any of its steps: the agent keeps nothing of it, and the verb can be repeated."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ..fixtures.node import PLUGIN, eventually
from .scene import SECOND, Scene, needs_root

pytestmark = [pytest.mark.crash, needs_root]

STEPS = [
    "plugin.start",
    "plugin.stdin-read",
    "plugin.netns-opened",
    "plugin.connected",
    "plugin.half-sent",
    "plugin.sent",
    "plugin.replied",
]
STEPS_WITHOUT_AGENT = ["plugin.intent-written", "plugin.intent-renamed"]


def test_every_step_of_the_plugin_is_tested() -> None:
    listed = subprocess.run([PLUGIN, "--failpoints"], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == STEPS + STEPS_WITHOUT_AGENT


def kill_plugin(scene: Scene, verb: str, step: str) -> None:
    done = scene.node.plugin(verb, scene.victim, ifname=SECOND, NETLOOM_FAILPOINT=step)
    assert (done.status, done.output) == (-signal.SIGKILL, b"")


_KILLS = 3


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_plugin_killed_at_any_step_costs_the_agent_nothing(scene: Scene, verb: str, step: str) -> None:
    scene.require_verbs_work()  # with all that an agent opens once
    if verb == "DEL":
        assert scene.add().code == 0
    # What the agent opens once, when it first judges the host's rules, may come later: less than a leak.
    before = scene.descriptors() + _KILLS - 1
    for _ in range(_KILLS):
        kill_plugin(scene, verb, step)
    assert eventually(lambda: scene.descriptors() <= before)
    assert eventually(lambda: scene.node.info()["under_way"] == 0)
    scene.believe_journal()
    scene.require_sound()
    scene.require_verbs_work()
    assert eventually(lambda: scene.descriptors() <= before)


@pytest.mark.parametrize("step", STEPS_WITHOUT_AGENT)
def test_a_del_that_was_killed_while_nobody_answered_can_be_repeated(scene: Scene, step: str) -> None:
    assert scene.add().code == 0
    scene.node.kill()
    kill_plugin(scene, "DEL", step)
    abandon_unfinished(scene)
    assert scene.delete().code == 0
    scene.start()
    scene.require_sound()
    scene.require_verbs_work()


def abandon_unfinished(scene: Scene) -> None:
    """As if the files without a name had been there for long: younger ones may be somebody's work."""
    directory = scene.node.socket.parent / "intents"
    for unfinished in directory.glob(".*"):
        os.utime(unfinished, (0, 0))
