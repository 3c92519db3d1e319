"""`netloom events`: the log of operations as a stream that survives whatever happens to the agent."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from netloom.journal import Ledger, Operation
from netloom.journal.ledger import OPERATIONS_KEPT

from ..fixtures.cli import Outcome
from ..fixtures.machine import Machine, up_to_date
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel


def events(machine: Machine, *words: str) -> list[Any]:
    outcome = machine.told("events", "--json", *words)
    assert (outcome.status, outcome.stderr) == (0, "")
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def verbs(machine: Machine, *words: str) -> list[str]:
    return [it["verb"] for it in events(machine, *words)]


def logged(machine: Machine, count: int) -> bool:
    return eventually(lambda: len(events(machine)) >= count)


def came_and_went(machine: Machine) -> str:
    """A container that was attached and deleted, and one that could not be attached; the first one's name."""
    container = machine.node.container()
    machine.attach(container)
    assert machine.cni("del", container).status == 0
    assert machine.cni("add", container, CNI_ARGS="IP=192.0.2.200").status == 1
    assert logged(machine, 4)
    return container


class Following:
    """A run with --follow, and what it printed so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._text = b""

    def lines(self) -> list[Any]:
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0.01)[0]:
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                break
            self._text += chunk
        return [json.loads(line) for line in self._text.splitlines()]

    def saw(self, holds: Callable[[list[Any]], bool]) -> bool:
        return eventually(lambda: holds(self.lines()))


@contextmanager
def following(machine: Machine, *words: str) -> Iterator[Following]:
    process = machine.cli.start("events", "--follow", "--json", *words, prefix=machine.node.command())
    try:
        yield Following(process)
    finally:
        process.kill()
        process.communicate()


def test_what_was_asked_and_done_is_listed_in_its_order(machine: Machine) -> None:
    container = came_and_went(machine)
    found = events(machine)
    assert [it["verb"] for it in found] == ["START", "ADD", "DEL", "ADD"]
    assert [it["id"] for it in found] == sorted(it["id"] for it in found)
    add = found[1]
    assert (add["network"], add["ifName"], add["netns"]) == ("netloom", "eth0", f"/run/netns/{container}")
    assert (add["addresses"], add["code"], add["error"]) == (["10.78.0.1", "fd78::1"], 0, "")
    assert add["caller"].startswith("netloom[")
    assert add["duration"] > 0
    assert found[3]["code"] == 4


def test_only_some_may_be_asked_for(machine: Machine) -> None:
    came_and_went(machine)
    assert verbs(machine, "--failed") == ["ADD"]
    assert verbs(machine, "--verb", "DEL") == ["DEL"]
    assert verbs(machine, "--verb", "del,start") == ["START", "DEL"]
    assert verbs(machine, "--verb", "ADD", "--verb", "DEL", "--limit", "2") == ["DEL", "ADD"]
    assert verbs(machine, "--limit", "0") == []
    assert len(verbs(machine, "--since", "10m")) == 4
    assert verbs(machine, "--since", f"@{time.time() + 5}") == []


def test_events_since_a_moment_are_listed(machine: Machine) -> None:
    came_and_went(machine)
    deleted = next(it for it in events(machine) if it["verb"] == "DEL")
    assert verbs(machine, "--since", f"@{deleted['started']}") == ["DEL", "ADD"]


@pytest.mark.parametrize(
    "words", [("--verb", "FOO"), ("--since", "soon"), ("--limit", "x"), ("--limit", "-1"), ("more",)], ids=str
)
def test_what_cannot_be_asked_is_refused(bare: Machine, words: tuple[str, ...]) -> None:
    outcome = bare.run("events", *words)
    assert (outcome.status, outcome.stdout) == (2, "")


def test_what_comes_is_shown_as_it_comes(machine: Machine) -> None:
    container = machine.node.container()
    with following(machine) as follow:
        assert follow.saw(lambda lines: [it["verb"] for it in lines] == ["START"])
        machine.attach(container)
        assert follow.saw(lambda lines: [it["verb"] for it in lines] == ["START", "ADD"])
        assert machine.cni("del", container).status == 0
        assert follow.saw(lambda lines: [it["verb"] for it in lines] == ["START", "ADD", "DEL"])
        follow.process.send_signal(signal.SIGINT)
        assert follow.process.wait(10) == 128 + signal.SIGINT
        assert follow.process.stderr is not None
        assert follow.process.stderr.read() == b""


def test_an_agent_that_starts_anew_does_not_end_the_stream(machine: Machine) -> None:
    with following(machine) as follow:
        assert follow.saw(lambda lines: len(lines) == 1)
        machine.end_agent()
        machine.brought_up()
        machine.attach(machine.node.container())
        assert follow.saw(lambda lines: [it["verb"] for it in lines] == ["START", "START", "ADD"])


def test_filters_hold_for_what_comes(machine: Machine) -> None:
    container = machine.node.container()
    with following(machine, "--failed") as follow:
        machine.attach(container)
        assert machine.cni("add", container, "-i", "net1", CNI_ARGS="IP=192.0.2.200").status == 1
        assert follow.saw(lambda lines: [it["ifName"] for it in lines] == ["net1"])


def test_a_journal_that_is_replaced_is_followed_from_its_beginning(machine: Machine) -> None:
    machine.attach(machine.node.container())
    assert logged(machine, 2)
    with following(machine) as follow:
        assert follow.saw(lambda lines: len(lines) == 2)
        machine.run("down")
        shutil.rmtree(machine.node.state_dir)
        machine.brought_up()
        assert follow.saw(lambda lines: [it["verb"] for it in lines][-1] == "START" and lines[-1]["id"] == 1)
        assert follow.process.poll() is None


def test_a_journal_that_comes_later_is_followed(bare: Machine) -> None:
    with following(bare) as follow:
        time.sleep(0.5)
        assert follow.process.poll() is None
        bare.brought_up()
        assert follow.saw(lambda lines: [it["verb"] for it in lines] == ["START"])


def test_events_that_were_dropped_before_they_were_read_are_no_end(machine: Machine) -> None:
    """The log is trimmed; who follows goes on with what there is."""
    machine.run("down")
    with following(machine) as follow:
        assert follow.saw(lambda lines: len(lines) >= 2)
        follow.process.send_signal(signal.SIGSTOP)
        many = [
            Operation(
                verb="ADD", network="n", container_id=f"c{number}", ifname="eth0", started=time.time(),
                duration=1.0, phases={},
            )
            for number in range(OPERATIONS_KEPT + 500)
        ]  # fmt: skip
        with closing(sqlite3.connect(machine.journal)) as connection, connection:
            Ledger(connection).record(many)
        follow.process.send_signal(signal.SIGCONT)
        assert follow.saw(lambda lines: bool(lines) and lines[-1]["containerID"] == many[-1].container_id)
        numbers = [it["id"] for it in follow.lines()]
        assert numbers == sorted(set(numbers))


def test_a_reader_that_has_seen_enough_ends_it_quietly(machine: Machine) -> None:
    machine.attach(machine.node.container())
    assert logged(machine, 2)
    process = machine.cli.start("events", "--follow", prefix=machine.node.command())
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(20) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_on_a_terminal_each_is_a_line_for_people(machine: Machine) -> None:
    came_and_went(machine)
    outcome = up_to_date(lambda: machine.on_a_terminal("events"))
    assert (outcome.status, outcome.stderr) == (0, "")
    lines = outcome.stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["START", "ADD", "DEL", "ADD"]
    assert ("FAILED" in lines[3], "FAILED" in lines[1]) == (True, False)


def test_names_that_would_steer_a_terminal_do_not(machine: Machine) -> None:
    machine.run("down")
    evil = Operation(
        verb="ADD", network="n\x1b[2J", container_id="c", ifname="e", started=time.time(), duration=1.0,
        phases={}, code=4, error="x\x1b]0;y\x07",
    )  # fmt: skip
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        Ledger(connection).record([evil])
    shown = up_to_date(lambda: machine.on_a_terminal("events")).stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_a_machine_that_was_never_a_node_has_none(bare: Machine) -> None:
    assert bare.run("events", "--json") == Outcome(0, "", "")
    said = bare.run("events")
    assert (said.status, said.stdout.count("\n"), said.stderr) == (0, 1, "")


def test_a_journal_that_is_gone_is_an_error_with_its_code(machine: Machine) -> None:
    machine.journal.unlink()
    outcome = machine.run("events", "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "journal-gone")


def test_a_busy_agent_is_followed_without_a_gap(machine: Machine) -> None:
    containers = [machine.node.container() for _ in range(6)]
    with following(machine, "--verb", "ADD,DEL", "--since", "10m") as follow:
        for _ in range(5):
            for verb in ("ADD", "DEL"):
                begun = [machine.node.begin(verb, it) for it in containers]
                assert [it.wait(20) for it in begun] == [0] * len(containers)
                for it in begun:
                    it.communicate()
        wanted = 2 * 5 * len(containers)
        assert follow.saw(lambda lines: len(lines) == wanted)
        numbers = [it["id"] for it in follow.lines()]
        assert numbers == list(range(numbers[0], numbers[0] + wanted))
