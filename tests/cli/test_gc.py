"""`netloom gc`: what is left over goes, what may be in use stays, and a dry run touches nothing."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from netloom.journal import boottime
from netloom.kernel.objects.link import GROUP
from netloom.networks.config import LONGEST_COOLDOWN

from ..fixtures.cli import PATIENCE, Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

QUEUE, PAIR = "lque0123456789a", "loom0123456789b"


@pytest.fixture
def calm(machine: Machine) -> Machine:
    """Its agent collects nothing by itself while a test looks."""
    machine.run("down")
    machine.node.start("--tick", "60", "--grace", "600")
    return machine


def garbage(machine: Machine, *words: str) -> Any:
    outcome = machine.run("gc", *words, "--json")
    assert outcome.stderr == ""
    return outcome.document


def named(found: list[Any]) -> list[tuple[str, str]]:
    return [(it["kind"], it["subject"]) for it in found]


def died(machine: Machine) -> str:
    """A container that vanished without a DEL; its attachment's key."""
    # A name that no later one has, whose ID it would be, too.
    container = machine.node.container(f"dead{os.getpid()}-{id(machine):x}")
    machine.attach(container)
    listed = machine.listed()[-1]
    machine.node.remove_container(container)
    assert eventually(lambda: listed["hostLink"] not in machine.node.links())
    return f"netloom/{listed['containerID']}/eth0"


def litter(machine: Machine) -> None:
    """Links and an element that no attachment has."""
    machine.node.inside("ip", "link", "add", QUEUE, "group", str(GROUP), "type", "ifb")
    machine.node.inside(
        "ip", "link", "add", PAIR, "group", str(GROUP), "type", "veth", "peer", "name", "far0"
    )
    machine.node.inside("nft", "add element inet netloom leaving4 { 10.78.9.9 : drop }")


def state(machine: Machine) -> dict[str, Any]:
    """All that a dry run could have changed."""
    files: dict[str, str] = {}
    for root in (machine.node.state_dir, machine.node.socket.parent, machine.cli.cache):
        for path in sorted(Path(root).rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            # Any reader of the journal makes these two anew, the one without content.
            if content and path.suffix != ".db-shm":
                files[str(path)] = hashlib.sha256(content).hexdigest()
    return {
        "files": files,
        "links": machine.node.inside("ip", "-o", "link"),
        "addresses": machine.node.inside("ip", "-o", "address"),
        "routes": machine.node.inside("ip", "route", "show", "table", "all"),
        "nft": machine.node.inside("nft", "list", "ruleset"),
    }


def test_nothing_is_left_over_of_what_is_in_use(calm: Machine) -> None:
    calm.attach(calm.node.container())
    for words in (("--dry-run",), ()):
        found = garbage(calm, *words)
        assert (found["removed"], found["kept"], found["left"]) == ([], [], [])
    assert calm.reaches("10.78.0.1")


def test_a_dry_run_lists_with_reasons_and_touches_nothing(calm: Machine) -> None:
    key = died(calm)
    waiting = calm.node.container()
    calm.attach(waiting)
    litter(calm)
    calm.node.stop()
    assert calm.cni("del", waiting).status == 0
    before = state(calm)
    found = garbage(calm, "--dry-run")
    assert state(calm) == before
    assert found["dryRun"]
    assert named(found["removed"]) == [
        ("queued DEL", f"{calm.listed()[1]['containerID']}/eth0"),
        ("attachment", key),
        ("element", "leaving4 10.78.9.9"),
        ("link", QUEUE),
    ]
    assert all(it["reason"] for it in found["removed"])
    assert named(found["kept"]) == [("link", PAIR)]
    assert f"ip link del {PAIR}" in found["kept"][0]["kept"]


def test_what_would_go_goes(calm: Machine) -> None:
    key = died(calm)
    litter(calm)
    kept = calm.node.container()
    calm.attach(kept)
    would = garbage(calm, "--dry-run")
    done = garbage(calm)
    assert named(done["removed"]) == named(would["removed"])
    assert ("attachment", key) in named(done["removed"])
    assert (named(done["kept"]), done["left"]) == ([("link", PAIR)], [])
    assert [it["netns"] for it in calm.listed()] == [f"/run/netns/{kept}"]
    assert calm.reaches("10.78.0.2")
    links = calm.node.inside("ip", "-o", "link")
    assert (QUEUE in links, PAIR in links) == (False, True)
    assert garbage(calm)["removed"] == []
    calm.node.inside("ip", "link", "del", PAIR)
    assert [str(it) for it in calm.node.audit()] == []


def test_addresses_of_what_went_rest(calm: Machine) -> None:
    died(calm)
    garbage(calm)
    assert [it["resting"] for it in calm.run("pools", "--json").document["pools"]] == [1, 1]


def test_it_is_written_down_that_an_operator_asked(calm: Machine) -> None:
    died(calm)
    garbage(calm)
    assert eventually(lambda: any(it.verb == "RELEASE" for it in calm.node.ledger().operations()))


def test_a_namespace_that_somebody_holds_is_kept_with_where_to_look(calm: Machine) -> None:
    container = calm.node.container()
    calm.attach(container)
    held = os.open(f"/run/netns/{container}", os.O_RDONLY)
    try:
        calm.node.remove_container(container)
        found = garbage(calm)
        assert (found["removed"], [it["kind"] for it in found["kept"]]) == ([], ["attachment"])
        assert "netloom inspect" in found["kept"][0]["kept"]
        assert len(calm.listed()) == 1
    finally:
        os.close(held)
    assert eventually(lambda: not calm.node.links())
    assert len(garbage(calm)["removed"]) == 1


def test_a_namespace_whose_number_is_anothers_by_now_is_gone(calm: Machine) -> None:
    """The kernel gives the number again at once; its path may even be the same."""
    container = calm.node.container()
    calm.attach(container)
    calm.node.remove_container(container)
    assert eventually(lambda: not calm.node.links())
    calm.node.container(container)
    assert [it["kind"] for it in garbage(calm)["removed"]] == ["attachment"]


def test_a_link_that_was_deleted_by_hand_does_not_make_a_container_garbage(calm: Machine) -> None:
    container = calm.node.container()
    calm.attach(container)
    calm.node.stop()
    calm.node.inside("ip", "link", "del", calm.listed()[0]["hostLink"])
    assert garbage(calm, "--dry-run")["removed"] == []


def test_what_was_not_finished_is_taken_away(calm: Machine) -> None:
    container = calm.node.container()
    calm.attach(container)
    calm.node.stop()
    with closing(sqlite3.connect(calm.journal)) as connection, connection:
        connection.execute("UPDATE attachment SET state = 'deleting'")
    (found,) = garbage(calm, "--dry-run")["removed"]
    assert (found["kind"], "deleting" in found["reason"]) == ("unfinished", True)


def test_attachments_of_another_boot_are_left_over(calm: Machine) -> None:
    calm.attach(calm.node.container())
    calm.node.stop()
    with closing(sqlite3.connect(calm.journal)) as connection, connection:
        connection.execute("UPDATE fact SET value = 'another' WHERE name = 'boot_id'")
    (found,) = garbage(calm, "--dry-run")["removed"]
    assert (found["kind"], "another boot" in found["reason"]) == ("attachment", True)


def test_addresses_that_have_rested_are_forgotten(calm: Machine) -> None:
    calm.attach(calm.node.container())
    calm.node.stop()
    with closing(sqlite3.connect(calm.journal)) as connection, connection:
        connection.execute(
            "INSERT INTO address (scope, ip, attachment, allocated, released) VALUES ('main', ?, NULL, 0, ?)",
            (bytes([10, 78, 7, 7]), boottime() - LONGEST_COOLDOWN - 60),
        )
    assert named(garbage(calm, "--dry-run")["removed"]) == [("rested", "1 addresses")]
    calm.node.start("--tick", "60")
    assert garbage(calm)["left"] == []
    assert calm.node.ledger().resting() == []


def test_a_del_that_waits_is_done(calm: Machine) -> None:
    container = calm.node.container()
    calm.attach(container)
    calm.node.stop()
    assert calm.cni("del", container).status == 0
    calm.node.start("--tick", "60")
    # An agent does it when it starts; one that came since is done by the question.
    assert calm.listed() == []
    assert garbage(calm) == {"dryRun": False, "removed": [], "kept": [], "left": [], "results": []}


def test_a_del_that_cannot_be_read_is_kept_and_named(calm: Machine) -> None:
    calm.node.stop()
    intents = calm.node.socket.parent / "intents"
    intents.mkdir(mode=0o700, exist_ok=True)
    (intents / "0000.del.unreadable").write_bytes(b"nonsense")
    found = garbage(calm, "--dry-run")
    assert named(found["kept"]) == [("queued DEL", str(intents / "0000.del.unreadable"))]


def cached(machine: Machine) -> list[str]:
    return sorted(map(str, (machine.cli.cache / "results").iterdir()))


def test_the_result_of_what_went_goes_with_it(calm: Machine) -> None:
    cache = ("--cache-dir", str(calm.cli.cache))
    calm.attach(calm.node.container())
    (of_the_living,) = cached(calm)
    died(calm)
    both = cached(calm)
    (result,) = set(both) - {of_the_living}
    assert (garbage(calm, "--dry-run", *cache)["results"], cached(calm)) == ([result], both)
    assert garbage(calm, *cache)["results"] == [result]
    assert cached(calm) == [of_the_living]


def test_a_result_of_a_container_that_came_back_stays(calm: Machine) -> None:
    """Under its name, and with its path, before anybody had collected what was left of the first."""
    container = calm.node.container()
    calm.attach(container)
    calm.node.remove_container(container)
    assert eventually(lambda: not calm.node.links())
    calm.node.container(container)
    before = cached(calm)
    found = garbage(calm, "--cache-dir", str(calm.cli.cache))
    assert ([it["kind"] for it in found["removed"]], found["results"]) == (["attachment"], [])
    assert cached(calm) == before


def test_a_result_in_which_another_plugin_has_a_part_stays(calm: Machine) -> None:
    calm.cli.recording_plugin("last")
    ours = json.loads(calm.conflist.read_text())["plugins"][0]
    calm.cli.network("chained", ours, "last", version="1.0.0")
    container = calm.node.container(f"chained{os.getpid()}-{id(calm):x}")
    cache = ("--cache-dir", str(calm.cli.cache))
    assert calm.run("cni", "add", "chained", f"/run/netns/{container}", *cache).status == 0
    before = cached(calm)
    calm.node.remove_container(container)
    assert eventually(lambda: not calm.node.links())
    assert len(garbage(calm, *cache)["removed"]) == 1
    assert cached(calm) == before


def test_results_in_the_cache_of_others_are_never_touched(calm: Machine) -> None:
    stale = calm.cli.cache / "results" / "other-gone-eth0"
    stale.parent.mkdir(parents=True, exist_ok=True)
    stale.write_text("{}")
    died(calm)
    garbage(calm, "--cache-dir", str(calm.cli.cache))
    assert stale.read_text() == "{}"


def test_without_an_agent_only_a_dry_run_works(calm: Machine) -> None:
    died(calm)
    calm.node.stop()
    assert len(garbage(calm, "--dry-run")["removed"]) == 1
    outcome = calm.run("gc", "--json")
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (1, "", "agent-not-running")
    assert len(calm.listed()) == 1


def test_an_agent_that_is_halted_is_not_waited_for(calm: Machine) -> None:
    died(calm)
    assert calm.node.agent is not None
    calm.node.agent.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    outcome = calm.run("gc", "--json")
    assert time.monotonic() - began < 30
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (124, "", "agent-halted")
    calm.node.agent.send_signal(signal.SIGCONT)
    assert len(garbage(calm)["removed"]) == 1


def test_whoever_listens_and_says_nothing_is_soon_given_up(calm: Machine) -> None:
    calm.node.stop()
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(calm.node.socket))
        mute.listen()
        began = time.monotonic()
        outcome = calm.run("gc", "--json")
        assert time.monotonic() - began < 60
    assert (outcome.status, outcome.stdout, outcome.error["code"]) == (124, "", "agent-silent")


def test_an_agent_that_makes_containers_come_and_go_has_nothing_left_over(machine: Machine) -> None:
    """What is under way is not called garbage."""
    containers = [machine.node.container() for _ in range(8)]

    def kinds() -> set[str]:
        return {it["kind"] for it in garbage(machine, "--dry-run")["removed"]}

    looks = []
    for verb in ("ADD", "DEL") * 3:
        begun = [machine.node.begin(verb, it) for it in containers]
        looks.append(kinds())
        assert [it.wait(PATIENCE) for it in begun] == [0] * 8
        for it in begun:
            it.communicate()
        # A DEL that took too long is done a moment later.
        assert eventually(lambda: kinds() == set())
    # On a machine that has much else to do, one may be unfinished at every look of a run, but not of all.
    assert set().union(*looks) <= {"unfinished", "queued DEL"}, looks
    assert set() in looks, looks


def test_on_a_terminal_it_is_something_to_read(calm: Machine) -> None:
    assert calm.on_a_terminal("gc", "--dry-run") == Outcome(0, "no leaks found\n", "")
    key = died(calm)
    shown = calm.on_a_terminal("gc", "--dry-run")
    assert (shown.stdout.splitlines()[0], key in shown.stdout) == ("would be deleted:", True)
    assert calm.on_a_terminal("gc").stdout.splitlines()[0] == "deleted:"


def test_a_machine_without_anything_has_nothing_left_over(bare: Machine) -> None:
    found = bare.run("gc", "--dry-run", "--json")
    assert (found.status, found.document["removed"]) == (0, [])
