"""What the log of operations says right after something happened, and after an agent was killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from netloom.api.client import Connection, UnknownRPC
from netloom.ops.node.namespaces import last_sign

from ..fixtures.machine import Machine, up_to_date
from ..fixtures.node import eventually
from .test_explain import pod

pytestmark = pytest.mark.kernel


def added(machine: Machine, container: str, name: str = "") -> str:
    """By the plugin itself, which takes milliseconds; the container's IPv4 address."""
    return machine.node.add(container, CNI_ARGS=pod("shop", name) if name else "").addresses[0]


def deleted(machine: Machine, container: str) -> None:
    assert machine.node.plugin("DEL", container).status == 0


def explained(machine: Machine, *words: str) -> Any:
    return machine.told("explain", *words, "--json").document


def events(machine: Machine, *words: str) -> list[Any]:
    return [json.loads(line) for line in machine.told("events", "--json", *words).stdout.splitlines()]


def test_what_was_answered_is_in_the_log_at_once(machine: Machine) -> None:
    for number in range(4):
        container = machine.node.container()
        address = added(machine, container)
        assert [it["verb"] for it in explained(machine, container)["operations"]] == ["ADD"]
        deleted(machine, container)
        assert events(machine)[-1]["containerID"] == container
        assert events(machine)[-1]["verb"] == "DEL", number
        added(machine, container)
        seen = machine.told("top", "--json").document["events"]
        assert [it["verb"] for it in seen if it["containerID"] == container] == ["ADD", "DEL", "ADD"]
        assert address
        deleted(machine, container)


def test_an_add_that_was_refused_is_explained_at_once(machine: Machine) -> None:
    for _ in range(4):
        container = machine.node.container()
        assert machine.node.plugin("ADD", container, CNI_ARGS="IP=192.0.2.200").status == 1
        document = explained(machine, container)
        assert [it["code"] for it in document["findings"]] == ["add-failed"]


@contextmanager
def halted(machine: Machine) -> Iterator[None]:
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_an_agent_that_does_not_answer_is_told_of_and_the_rest_is_said(machine: Machine) -> None:
    container = machine.node.container()
    added(machine, container)
    assert not explained(machine, container)["behind"]
    with halted(machine):
        begun = time.monotonic()
        outcome = machine.run("explain", container, "--json")
        assert time.monotonic() - begun < 10
        assert outcome.status == 0
        assert "does not answer" in outcome.document["behind"]
        assert "does not answer" in machine.on_a_terminal("explain", container).stdout
        listed = machine.run("events", "--json")
        assert (listed.status, "does not answer" in listed.stderr) == (0, True)
        assert listed.stderr.startswith("warning: ")
        assert listed.stderr.count("\n") == 1
        assert [json.loads(line)["verb"] for line in listed.stdout.splitlines()] == ["START", "ADD"]


def test_without_an_agent_nothing_is_missed(machine: Machine) -> None:
    container = machine.node.container()
    added(machine, container)
    machine.run("down")
    outcome = machine.run("explain", container, "--json")
    assert (outcome.status, outcome.stderr, outcome.document["behind"]) == (0, "", "")
    assert machine.run("events", "--json").stderr == ""


def test_a_question_that_an_agent_does_not_know_is_told_from_one_that_it_could_not_do(
    machine: Machine,
) -> None:
    """As one of an earlier version does not know `settle`, and need not be complained of."""
    with Connection(str(machine.node.socket), 20) as connection, pytest.raises(UnknownRPC):
        connection.ask("anything")


def killed_and_started(machine: Machine, lost: tuple[str, str]) -> None:
    """In the moment in which it has not yet written down what it did: whose verb, and which."""
    machine.end_agent()
    with closing(sqlite3.connect(machine.journal)) as connection, connection:
        # On a slow machine, it was not fast enough for that.
        connection.execute("DELETE FROM operation WHERE container_id = ? AND verb = ?", lost)
    machine.brought_up()


def test_whose_add_was_lost_had_the_address_since_it_was_attached(machine: Machine) -> None:
    """And not before: that time was nobody's."""
    first = machine.node.container()
    added(machine, first)
    assert [it["verb"] for it in events(machine)] == ["START", "ADD"]
    before = time.time()
    time.sleep(4)
    container = machine.node.container()
    address = added(machine, container)
    killed_and_started(machine, (container, "ADD"))
    attached = machine.node.ledger().of_container(container)[0].created_at
    deleted(machine, container)
    (tenure,) = explained(machine, address)["address"]["tenures"]
    assert tenure["containerID"] == container
    assert tenure["began"] == pytest.approx(attached, abs=0.01)
    then = explained(machine, address, "--at", f"@{before}")["address"]["at"]
    assert (then["known"], then["holder"]) == (True, None)
    # So short before its end, somebody may have come and gone without a line.
    moment = explained(machine, address, "--at", f"@{attached - 0.001}")["address"]["at"]
    assert (moment["known"], moment["holder"]) == (False, None)
    held = explained(machine, address, "--at", f"@{attached + 0.02}")["address"]["at"]
    assert (held["known"], held["holder"]["containerID"]) == (True, container)


def outages(machine: Machine) -> list[Any]:
    found: list[Any] = explained(machine, "nobody")["absence"]["outages"]
    return found


def test_an_agent_that_was_killed_is_told_by_its_last_sign_of_life(machine: Machine) -> None:
    """It was idle for a while: its last line is older than its end."""
    began = events(machine)[-1]["started"]
    assert eventually(lambda: (last_sign(str(machine.node.socket)) or 0) > began + 1)
    killed = time.time()
    machine.end_agent()
    (lasting,) = outages(machine)
    assert (lasting["ended"], lasting["stopped"]) == (None, False)
    assert began + 1 < lasting["began"] <= killed
    machine.brought_up()
    (outage,) = outages(machine)
    assert (outage["stopped"], outage["began"]) == (False, pytest.approx(lasting["began"], abs=0.01))
    assert outage["ended"] >= killed
    said = explained(machine, "nobody")["findings"][0]["text"]
    assert "no agent ran" not in said
    assert "last heartbeat" in said


def test_an_agent_that_was_stopped_left_at_the_time_it_said(machine: Machine) -> None:
    machine.run("down")
    machine.brought_up()
    (outage,) = outages(machine)
    assert outage["stopped"]
    stop = next(it for it in events(machine) if it["verb"] == "STOP")
    assert outage["began"] == stop["started"]
    assert "no agent ran" in explained(machine, "nobody")["findings"][0]["text"]


@pytest.mark.parametrize("word", ["x4", "4711", "p1", "api4", "web-0"])
def test_no_code_is_offered_for_the_name_of_a_container(machine: Machine, word: str) -> None:
    assert explained(machine, word)["absence"]["similar"] == []


def test_a_code_that_was_misspelt_is_offered(machine: Machine) -> None:
    assert "105" in explained(machine, "15")["absence"]["similar"]
    assert "pool-exhausted" in explained(machine, "pool-exhausd")["absence"]["similar"]


def test_that_nothing_happened_is_said(machine: Machine) -> None:
    outcome = up_to_date(lambda: machine.on_a_terminal("events", "--failed"))
    assert (outcome.status, outcome.stdout.count("\n"), outcome.stderr) == (0, 1, "")
    assert outcome.stdout == "no operation matches\n"
    assert machine.run("events", "--failed", "--json").stdout == ""


def test_what_to_do_next_names_no_files_where_there_are_none(machine: Machine) -> None:
    with_files = explained(machine, "nobody")["findings"][0]
    assert "names the first network file" in with_files["next"]
    machine.conflist.unlink()
    without = explained(machine, "nobody")["findings"][0]
    assert without["code"] == "never-asked"
    assert "names the first network file" not in without["next"]
    assert "netloom up" in without["next"]


def test_what_gc_released_is_told_as_released(machine: Machine) -> None:
    container = machine.node.container()
    added(machine, container, "api-0")
    machine.node.remove_container(container)
    assert eventually(lambda: not machine.node.links())
    assert machine.run("gc").status == 0
    document = explained(machine, "shop/api-0")
    assert [it["verb"] for it in document["operations"]] == ["ADD", "RELEASE"]
    assert document["summary"].startswith("no longer attached: released")


def test_what_is_gone_without_a_line_was_attached_all_the_same(machine: Machine) -> None:
    """Its ADD is in the log; the agent was killed before its end could be."""
    container = machine.node.container()
    added(machine, container, "api-1")
    assert len(events(machine)) == 2
    deleted(machine, container)
    killed_and_started(machine, (container, "DEL"))
    document = explained(machine, "shop/api-1")
    assert [it["verb"] for it in document["operations"]] == ["ADD"]
    assert document["summary"].startswith("no longer attached")


def test_names_that_begin_alike_are_told_apart(machine: Machine) -> None:
    names = [f"netloom-kept-{os.getpid()}-{end}" for end in ("one", "two")]
    long = f"{os.getpid():08x}" * 8
    for name in (*names, long):
        machine.node.container(name)
        added(machine, name)
    for command in ("ls", "events"):
        shown = machine.on_a_terminal(command).stdout
        assert all(name in shown for name in names)
        assert (long in shown, long[:12] in shown) == (False, True)
