"""Every time that people are shown is of this machine's zone, and of one form."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from netloom.agent.life import last_sign
from netloom.journal.remarks import last_sign_of, with_last_sign, with_moments

from ..agent.stage import eventually
from .machine import Machine

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"


@pytest.mark.unit
def test_the_moment_within_a_sentence_is_shown_as_others_are() -> None:
    said = with_last_sign("version 1, process 2", 1_000_000_000.25)
    assert with_moments(said, lambda at: f"<{at}>").endswith("last heartbeat <1000000000.25>")
    assert with_moments("version 1, process 2", str) == "version 1, process 2"


@pytest.mark.kernel
@pytest.mark.usefixtures("own_etc")
def test_when_a_killed_agent_was_last_alive_is_told_in_the_readers_zone(machine: Machine) -> None:
    assert eventually(lambda: last_sign(str(machine.node.socket)) is not None)
    machine.end_agent()
    machine.brought_up()
    words, zone = ("events", "--verb", "START"), {"TZ": "Asia/Tokyo"}
    line = machine.told(*words, env=zone).stdout.splitlines()[-1]
    shown = re.fullmatch(rf"{MOMENT}  START .* last heartbeat ({MOMENT})", line)
    assert shown is not None, line
    alive = last_sign_of(machine.told(*words, "--json").stdout.splitlines()[-1])
    assert datetime.fromisoformat(f"{shown[1]}+09:00").timestamp() == pytest.approx(alive, abs=0.002)
