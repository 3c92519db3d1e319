"""SIGKILL at every step: an intent is whole or not there, and the next run works."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ..fixtures.plugin import CONFIG, FarEnd, Plugin, Request, reply

pytestmark = pytest.mark.crash

FAILPOINTS = [
    "plugin.start",
    "plugin.stdin-read",
    "plugin.netns-opened",
    "plugin.connected",
    "plugin.half-sent",
    "plugin.sent",
    "plugin.replied",
    "plugin.intent-written",
    "plugin.intent-renamed",
]
OF_INTENTS = ["plugin.intent-written", "plugin.intent-renamed"]
# The first process there is a shell: SIGKILL from its own namespace does not reach it.
NEW_PID_NAMESPACE = [
    *("unshare", "--pid", "--fork", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])),
    *("sh", "-c", '"$0"; exit $?'),
]
OF_EXCHANGE = ["plugin.connected", "plugin.half-sent", "plugin.sent", "plugin.replied"]


def test_every_step_at_which_it_can_be_killed_is_tested(executable: Path) -> None:
    done = subprocess.run([executable, "--failpoints"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == FAILPOINTS


@pytest.mark.parametrize("step", [step for step in FAILPOINTS if step not in OF_INTENTS])
@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_a_run_killed_on_its_way_to_the_agent_prints_nothing_and_harms_no_later_one(
    plugin: Plugin, far_end: FarEnd, command: str, step: str
) -> None:
    far_end.answer = reply(b"done")
    killed = plugin(command, NETLOOM_FAILPOINT=step)
    assert (killed.status, killed.stdout) == (-signal.SIGKILL, b"")
    assert plugin(command).stdout == b"done"
    assert not plugin.intents.exists()


@pytest.mark.parametrize("step", [step for step in FAILPOINTS if step not in OF_EXCHANGE])
def test_a_del_killed_anywhere_leaves_a_whole_intent_or_none(plugin: Plugin, step: str) -> None:
    assert plugin("DEL", NETLOOM_FAILPOINT=step).status == -signal.SIGKILL
    assert len(plugin.queued) == (step == "plugin.intent-renamed")
    assert len(plugin.unfinished) == (step == "plugin.intent-written")
    for intent in plugin.queued:
        assert Request(intent.read_bytes(), []).body == CONFIG
    assert plugin("DEL").is_silent_success
    (intent,) = plugin.queued
    assert Request(intent.read_bytes(), []).body == CONFIG


def test_an_older_intent_survives_a_kill_while_it_is_replaced(plugin: Plugin) -> None:
    plugin("DEL")
    before = plugin.queued[0].read_bytes()
    plugin("DEL", NETLOOM_FAILPOINT="plugin.intent-written")
    assert plugin.queued[0].read_bytes() == before


def test_what_a_killed_run_left_is_not_in_the_way_of_one_with_its_number(
    plugin: Plugin, tmp_path: Path
) -> None:
    """In a new PID namespace, each run is the second process. A link in the place is not followed either."""
    plugin.command = [*NEW_PID_NAMESPACE, *plugin.command]
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path = os.environ["PATH"]
    plugin("DEL", NETLOOM_FAILPOINT="plugin.intent-written", PATH=path)
    (left,) = plugin.unfinished
    left.unlink()
    left.symlink_to(precious)
    assert plugin("DEL", PATH=path).is_silent_success
    assert len(plugin.queued) == 1
    assert plugin.unfinished == []
    assert precious.read_text() == "precious"
