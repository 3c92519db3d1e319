"""One agent follows another: calls wait, none fails; and if it cannot follow, nothing has changed."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from netloom.agent.handover.handover import PATIENCE, Offer, claim_of
from netloom.agent.server.server import HANDOVER
from netloom.agent.settings import Settings
from netloom.api.protocol import LENGTH, Head, encode
from netloom.journal.schema import VERSION

from ..fixtures.faults import small_disk
from ..fixtures.installation import Installation
from ..fixtures.node import NETLOOM, Node, eventually, is_stopped
from ..fixtures.successor import (
    calling,
    failures,
    follow,
    inode,
    process_at,
    start_installed,
    start_without_handover,
    successor,
)

pytestmark = pytest.mark.kernel


def settings_of(node: Node) -> Settings:
    return Settings(state_dir=str(node.state_dir), socket=str(node.socket))


# It follows.


def test_a_successor_serves_at_the_same_socket_with_the_same_journal(running: Node) -> None:
    container = running.container()
    added = running.add(container)
    found = inode(running.socket)
    before = follow(running)
    assert before.returncode == 0
    assert inode(running.socket) == found
    assert running.agent is not None
    assert process_at(running) == running.info()["process"] == running.agent.pid
    assert running.add(container).document == added.document
    running.delete(container)
    assert running.audit() == []


def test_no_call_fails_while_agents_follow_one_another(running: Node) -> None:
    with calling(running, 4) as callers:
        for _ in range(5):
            follow(running)
            time.sleep(0.2)
    assert failures(callers) == [], running.log()[-3000:]
    assert sum(caller.calls for caller in callers) > 20
    assert running.intents() == []
    assert running.audit() == []


def test_a_call_that_comes_in_between_waits_and_is_answered(running: Node) -> None:
    container = running.container()
    before = running.agent
    assert before is not None
    after = successor(running, "handover.received:stop")
    assert eventually(lambda: is_stopped(after))
    with ThreadPoolExecutor() as executor:
        added = executor.submit(running.plugin, "ADD", container)
        time.sleep(0.3)
        assert not added.done()
        after.send_signal(signal.SIGCONT)
        assert added.result().code == 0
    assert before.wait(10) == 0
    running.agent = after
    assert running.audit() == []


def test_what_is_under_way_is_finished_by_the_one_that_began_it(node: Node) -> None:
    node.start()
    containers = [node.container() for _ in range(20)]
    with ThreadPoolExecutor(20) as executor:
        asked = [executor.submit(node.ask, "ADD", container) for container in containers]
        assert eventually(lambda: len(node.links()) > 0)
        follow(node)
        assert [it.result().status for it in asked] == [0] * 20
    assert node.audit() == []


def test_a_client_that_never_asks_does_not_keep_it(running: Node) -> None:
    with running.connect():
        began = time.monotonic()
        follow(running)
        assert time.monotonic() - began < 10
    assert running.plugin("STATUS").status == 0


def test_a_socket_that_somebody_removed_is_made_anew_by_the_successor(running: Node) -> None:
    running.socket.unlink()
    assert eventually(running.answers)
    follow(running)
    running.socket.unlink()
    assert eventually(running.answers)
    assert running.plugin("STATUS").status == 0


def test_where_nobody_serves_it_starts_by_itself(node: Node) -> None:
    node.start("--take-over")
    assert node.plugin("STATUS").status == 0
    node.kill()
    node.start("--take-over")
    assert node.plugin("STATUS").status == 0


def test_two_that_want_to_follow_do_so_one_after_the_other(running: Node) -> None:
    before = running.agent
    assert before is not None
    with calling(running, 2) as callers:
        both = [successor(running) for _ in range(2)]
        assert eventually(lambda: [it.poll() for it in (before, *both)].count(0) == 2), running.log()[-3000:]
    (running.agent,) = [it for it in both if it.poll() is None]
    assert failures(callers) == []
    assert running.audit() == []


def test_a_stop_after_a_handover_removes_the_socket(running: Node) -> None:
    follow(running)
    assert running.stop() == 0
    assert not running.socket.exists()


def test_operations_tell_of_the_handover(running: Node) -> None:
    follow(running)
    assert eventually(lambda: [it.verb for it in running.ledger().operations()] == ["START", "STOP", "START"])
    assert "handing over to version" in running.ledger().operations()[1].details


# An older agent, which does not know how.


def test_no_call_fails_when_one_is_followed_that_knows_no_handover(node: Node) -> None:
    start_without_handover(node)
    with calling(node, 4) as callers:
        time.sleep(0.3)
        before = follow(node)
        time.sleep(0.3)
    assert before.returncode == 0
    assert failures(callers) == []
    assert sum(caller.calls for caller in callers) > 4
    assert node.audit() == []
    # Beside the place of DELs that had to wait, if any had.
    assert set(os.listdir(node.socket.parent)) - {"intents"} == {"agent.sock"}


@pytest.mark.parametrize("step", ["takeover.placed", "takeover.ended"])
def test_an_older_one_is_settled_by_the_next_if_its_successor_dies(node: Node, step: str) -> None:
    start_without_handover(node)
    container = node.container()
    node.add(container)
    assert successor(node, step).wait(20) == -signal.SIGKILL
    before = node.agent
    assert before is not None
    if step == "takeover.placed":  # it finds its socket replaced by one where nobody is, within a second
        assert eventually(lambda: node.answers() and node.plugin("STATUS").status == 0)
        assert before.poll() is None
    else:
        assert before.wait(10) == 0
        node.start()
    node.delete(container)
    assert node.audit() == []


# It cannot follow, and nothing has changed.


def test_a_journal_that_it_cannot_read_is_no_reason_to_ask(node: Node, tmp_path: Path) -> None:
    """A later version runs, and its journal says of itself that ours cannot read it."""
    later = Installation(
        tmp_path, "99.0.0", migration="CREATE TABLE of_later (a INTEGER) STRICT;", readable_by=VERSION + 1
    )
    start_installed(node, later)
    before = node.info()
    assert successor(node).wait(20) == 1
    assert f"has schema {VERSION + 1}" in node.log()
    assert "handing over" not in node.log()
    assert (node.info()["process"], node.info()["started"]) == (before["process"], before["started"])
    node.add(node.container())


def test_a_disk_without_space_for_a_copy_is_no_reason_to_ask(node: Node, tmp_path: Path) -> None:
    """The journal of a later version has another schema, and the one before is kept."""
    later = Installation(
        tmp_path, "99.0.0", migration="CREATE TABLE of_later (a INTEGER) STRICT;", readable_by=1
    )
    with small_disk(node, "12m"):
        node.start()
        follower = successor(node, command=later.command, environment=later.environment())
        assert follower.wait(20) == 1
        assert "MiB on its disk" in node.log()
        assert "handing over" not in node.log()
        node.add(node.container())
        assert node.stop() == 0


def test_one_in_another_network_is_refused(running: Node) -> None:
    """It would make a firewall where no container is."""
    done = successor(running, command=("unshare", "--net", str(NETLOOM))).wait(20)
    assert done == 1
    assert "another network namespace" in running.log()
    assert running.plugin("STATUS").status == 0


def test_one_with_another_journal_is_refused(running: Node) -> None:
    with tempfile.TemporaryDirectory(dir="/run") as other:
        assert successor(running, "", "--state-dir", other).wait(20) == 1
    assert "another journal" in running.log()
    assert running.plugin("STATUS").status == 0


def test_one_that_does_not_ask_as_agreed_is_refused(running: Node) -> None:
    answer = running.call(encode(Head(protocol=1, question=HANDOVER), b"please"))
    assert answer.status == 1
    assert answer.document["refused"]
    assert running.plugin("STATUS").status == 0


_CONNECT = """
import socket, sys
with socket.socket(fileno=0) as asker, socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    socket.send_fds(asker, [b"."], [connection.fileno()])
"""


@contextmanager
def claimant(node: Node) -> Iterator[socket.socket]:
    """A connection of another process: the agent kills one that asks to follow it, and then is silent."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", _CONNECT, str(node.socket)]
    with ours, theirs, subprocess.Popen(command, stdin=theirs.fileno()) as asker:
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        assert len(descriptors) == 1, asker.wait(10)
        with socket.socket(fileno=descriptors[0]) as connection:
            connection.settimeout(60)
            yield connection


def test_one_that_asks_and_goes_is_forgotten(running: Node) -> None:
    """The agent that serves had given its journal back already."""
    container = running.container()
    claim = json.dumps(_claim(running)).encode()
    with claimant(running) as connection:
        connection.sendall(encode(Head(protocol=1, question=HANDOVER), claim))
        reply = connection.recv(4096)
        assert json.loads(reply[LENGTH.size + 1 :])["refused"] == ""
        with ThreadPoolExecutor() as executor:
            added = executor.submit(running.plugin, "ADD", container)
            time.sleep(0.3)
            assert not added.done()
            connection.close()
            assert added.result().code == 0
    assert running.agent is not None
    assert running.agent.poll() is None
    assert process_at(running) == running.agent.pid
    assert running.audit() == []


def _claim(node: Node) -> dict[str, object]:
    """As one in the node's namespace would ask."""
    own = claim_of(settings_of(node))
    netns = os.fstat(node.namespace.fileno())
    return {
        "version": own.version,
        "process": own.process,
        "netns": [netns.st_dev, netns.st_ino],
        "journal": list(own.journal),
    }


def test_an_offer_has_the_descriptor_of_the_socket(running: Node) -> None:
    with claimant(running) as connection:
        connection.sendall(encode(Head(protocol=1, question=HANDOVER), json.dumps(_claim(running)).encode()))
        reply, descriptors, _, _ = socket.recv_fds(connection, 4096, 4)
        offer = json.loads(reply[LENGTH.size + 1 :])
        (listening,) = descriptors
        try:
            assert offer["inodes"] == [inode(running.socket)]
            assert Offer(**{**offer, "inodes": tuple(offer["inodes"])}).handover == 1
        finally:
            os.close(listening)
    assert eventually(lambda: running.plugin("STATUS").status == 0)


def test_a_successor_that_is_stuck_is_ended_and_the_one_before_goes_on(running: Node) -> None:
    container = running.container()
    before = running.agent
    assert before is not None
    after = successor(running, "handover.opened:stop")
    assert eventually(lambda: is_stopped(after))
    added = running.plugin("ADD", container)
    assert added.code == 0
    assert after.wait(10) == -signal.SIGKILL
    assert before.poll() is None
    assert running.audit() == []


def test_a_successor_that_is_slow_and_at_work_is_waited_for(node: Node) -> None:
    """Each of the DELs that were queued takes its time."""
    node.start()
    containers = [node.container() for _ in range(3)]
    for container in containers:
        node.add(container)
    before = node.agent
    assert before is not None
    before.send_signal(signal.SIGSTOP)
    for container in containers:
        node.delete(container)
    before.send_signal(signal.SIGCONT)
    follow(node)
    assert eventually(lambda: node.intents() == [] and node.links() == [])
    assert node.audit() == []


def test_one_that_was_told_to_stop_meanwhile_stops_and_its_successor_does_not_begin(running: Node) -> None:
    before = running.agent
    assert before is not None
    after = successor(running, "handover.received:stop")
    assert eventually(lambda: is_stopped(after))
    before.terminate()
    assert before.wait(10) == 0
    after.send_signal(signal.SIGCONT)
    assert after.wait(10) == 1
    running.start()
    assert running.audit() == []


def test_counters_go_on_when_a_successor_failed(running: Node) -> None:
    running.add(running.container())
    before = running.info()
    assert successor(running, "handover.opened").wait(20) == -signal.SIGKILL
    assert eventually(running.answers)
    after = running.info()
    assert after["counters"]["ADD done"] == before["counters"]["ADD done"] == 1
    assert (after["started"], after["process"]) == (before["started"], before["process"])


def test_an_agent_that_a_service_manager_runs_is_not_followed_behind_its_back(node: Node) -> None:
    with tempfile.TemporaryDirectory(dir="/run") as directory:
        environment = {"NOTIFY_SOCKET": f"{directory}/notify", "FDSTORE": "1"}
        node.start(environment=environment)
        assert successor(node).wait(20) == 1
        assert "service manager" in node.log()
        assert node.plugin("STATUS").status == 0


def test_a_call_that_takes_long_is_not_cut_off(running: Node) -> None:
    """The agent hands over when it is done."""
    before = running.agent
    assert before is not None
    # Nobody can have the journal for longer than an ADD waits for it: until then, all else is prepared.
    after = successor(running, "handover.prepared:stop")
    assert eventually(lambda: is_stopped(after))
    with closing(sqlite3.connect(running.state_dir / "journal.db", isolation_level=None)) as somebody:
        somebody.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor() as executor:
            added = executor.submit(running.plugin, "ADD", running.container())
            time.sleep(0.2)
            after.send_signal(signal.SIGCONT)
            time.sleep(PATIENCE + 0.2)  # it was refused once by now
            somebody.execute("ROLLBACK")
            assert added.result().code == 0
    assert before.wait(20) == 0
    running.agent = after
    assert running.audit() == []
