"""Every time that people are shown is of this machine's zone, and of one form."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest

from netloom.ops.node.namespaces import last_sign

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"


pytestmark = pytest.mark.kernel


@pytest.mark.usefixtures("own_etc")
def test_when_a_killed_agent_was_last_alive_is_told_in_the_readers_zone(machine: Machine) -> None:
    assert eventually(lambda: last_sign(str(machine.node.socket)) is not None)
    machine.end_agent()
    machine.brought_up()
    words, zone = ("events", "--verb", "START"), {"TZ": "Asia/Tokyo"}
    line = machine.told(*words, env=zone).stdout.splitlines()[-1]
    shown = re.fullmatch(rf"{MOMENT}  START .* last heartbeat ({MOMENT})", line)
    assert shown is not None, line
    alive = json.loads(machine.told(*words, "--json").stdout.splitlines()[-1])["heartbeat"]
    assert datetime.fromisoformat(f"{shown[1]}+09:00").timestamp() == pytest.approx(alive, abs=0.002)
