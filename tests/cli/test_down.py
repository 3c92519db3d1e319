"""`netloom down`: the agent ends, and nothing else; with `--purge`, all of ours goes, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.kernel.objects.link import GROUP

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = pytest.mark.kernel

PURGE = ("down", "--purge", "--yes", "--json")


def purged(machine: Machine) -> dict[str, list[object]]:
    outcome = machine.run(*PURGE)
    assert (outcome.status, outcome.stderr) == (0, "")
    document: dict[str, list[object]] = outcome.document
    assert document["failed"] == []
    return document


def test_the_agent_ends_and_containers_keep_their_networks(machine: Machine) -> None:
    process = machine.agent
    machine.attach(machine.node.container())
    outcome = machine.run("down", "--json")
    assert outcome.document == {"agent": {"change": "stopped", "process": process}}
    assert machine.agent is None
    assert machine.reaches("10.78.0.1")
    assert machine.conflist.exists()
    assert machine.plugin.exists()


def test_what_is_deleted_while_no_agent_runs_is_gone_after_the_next_up(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    assert machine.cni("del", container).status == 0
    assert machine.run("status", "--json").document["intents"] == 1
    machine.brought_up()
    assert machine.listed() == []
    assert machine.node.links() == []


def test_no_agent_is_fine(bare: Machine) -> None:
    outcome = bare.run("down", "--json")
    assert outcome.status == 0
    assert outcome.document == {"agent": {"change": "not running", "process": None}}
    assert not bare.node.state_dir.exists()


def test_where_nothing_is_installed_it_says_that_nothing_was_found(bare: Machine) -> None:
    outcome = bare.run("down")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("nothing of netloom was found")
    assert "keep their networks" not in outcome.stdout


def test_what_is_left_of_a_node_without_an_agent_is_not_nothing(machine: Machine) -> None:
    machine.run("down")
    for _ in range(2):
        assert "keep their networks" in machine.run("down").stdout
        machine.plugin.unlink(missing_ok=True)


def test_on_a_terminal_it_says_what_goes_on_without_the_agent(machine: Machine) -> None:
    process = machine.agent
    outcome = machine.on_a_terminal("down")
    assert outcome.status == 0
    assert outcome.stdout.splitlines()[0] == f"agent stopped: process {process}"
    assert "keep their networks" in outcome.stdout


@pytest.fixture
def stranger(bare: Machine) -> Iterator[Path]:
    """Somebody who listens at the agent's place, and hangs up on everybody."""
    bare.node.socket.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(bare.node.socket))
        listener.listen()

        def hang_up() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up)
        thread.start()
        yield bare.node.socket
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_whoever_listens_and_is_no_agent_is_left_alone(bare: Machine, stranger: Path) -> None:
    outcome = bare.run("down")
    assert outcome.status == 1
    assert str(stranger) in outcome.said["error"]
    assert "nothing was done" in outcome.said["error"]


def test_an_agent_that_does_not_end_is_named_with_what_to_do(machine: Machine) -> None:
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    outcome = machine.run("down", "--timeout", "2", "--json")
    assert time.monotonic() - began < 8
    assert outcome.status == 124
    assert "SIGSTOP" in outcome.error["error"]
    assert f"`kill -CONT {process}`" in outcome.error["next"]
    assert f"`kill -9 {process}`" in outcome.error["next"]


def process_status(process: int, field: str) -> str:
    status = Path(f"/proc/{process}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:"))


def test_an_agent_that_is_not_ready_yet_is_ended_too(bare: Machine) -> None:
    started = bare.node.start(environment={"NETLOOM_FAILPOINT": "recovery.node:stop"}, ready=False)
    assert eventually(lambda: process_status(started.pid, "State") == "T")
    down = bare.cli.start("down", "--json", prefix=bare.node.command())
    assert eventually(lambda: int(process_status(started.pid, "ShdPnd"), 16) & 1 << signal.SIGTERM - 1 != 0)
    os.kill(started.pid, signal.SIGCONT)
    said, _ = down.communicate(timeout=20)
    assert json.loads(said)["agent"] == {"change": "stopped", "process": started.pid}


@pytest.mark.parametrize("agent", ["running", "stopped", "killed"])
def test_a_purge_leaves_nothing_of_ours(machine: Machine, agent: str) -> None:
    containers = [machine.node.container() for _ in range(3)]
    for container in containers:
        machine.attach(container)
        machine.attach(container, "-i", "net1")
    if agent == "stopped":
        machine.run("down")
        machine.cni("del", containers.pop())
    elif agent == "killed":
        machine.end_agent()
    document = purged(machine)
    assert document["kept"] == []
    assert len([it for it in document["removed"] if str(it).startswith("attachment ")]) == 6
    assert machine.agent is None
    assert machine.node.links() == []
    assert machine.tables == []
    assert all(machine.links_of(container) == {"lo"} for container in containers)
    rules = machine.node.in_container(containers[0], "ip", "-json", "rule").stdout
    assert len(json.loads(rules)) == 3
    for path in (machine.plugin, machine.conflist, machine.node.state_dir, machine.node.socket.parent):
        assert not path.exists()


SERVICES = {
    "CAP_ARGS": json.dumps(
        {
            "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
            "bandwidth": {"ingressRate": 8_000_000, "egressRate": 8_000_000},
        }
    )
}
# The host's own addresses, which are in its table of local ones.
OWN = ("169.254.1.1", "fd6e:6574:6c6f:6f6d::1")


def own_addresses(machine: Machine) -> list[str]:
    listed = machine.node.inside("ip", "route", "show", "table", "255")
    listed += machine.node.inside("ip", "-6", "route", "show", "table", "255")
    return [address for address in OWN if f"local {address} " in listed]


@pytest.mark.parametrize("journal", ["there", "lost"])
def test_a_purge_leaves_neither_queues_nor_chains_nor_addresses_of_ours(
    machine: Machine, journal: str
) -> None:
    document = json.loads(machine.conflist.read_text())
    document["plugins"][0]["isolation"] = "networks"
    machine.conflist.write_text(json.dumps(document))
    machine.attach(machine.node.container(), **SERVICES)
    assert own_addresses(machine) == list(OWN)
    assert "lque" in machine.node.inside("ip", "link")
    if journal == "lost":
        machine.run("down")
        machine.journal.unlink()
    removed = [str(it) for it in purged(machine)["removed"]]
    assert [address for address in OWN if any(address in it for it in removed)] == list(OWN)
    assert own_addresses(machine) == []
    assert "lque" not in machine.node.inside("ip", "link")
    assert machine.node.links() == []
    assert machine.tables == []


def test_a_second_purge_finds_nothing_and_is_fine(machine: Machine) -> None:
    purged(machine)
    assert purged(machine)["removed"] == []


def test_after_a_purge_the_machine_can_become_a_node_again(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    purged(machine)
    machine.brought_up()
    assert machine.attach(container)["ips"][0]["address"] == "10.78.0.1/32"
    assert machine.node.audit() == []


def test_a_purge_leaves_what_is_not_ours_and_names_it(machine: Machine) -> None:
    machine.conflist.write_text(machine.conflist.read_text().replace("10.78", "10.79"))
    other = machine.cli.networks / "20-blue.conflist"
    other.write_text(machine.conflist.read_text().replace('"netloom",\n  "plugins"', '"blue",\n  "plugins"'))
    note = machine.node.state_dir / "note"
    note.touch()
    machine.node.inside("nft", "add", "table", "inet", "theirs")
    machine.node.inside("ip", "link", "add", "loomtheirs", "type", "bridge")
    machine.node.inside("ip", "link", "add", "ours0", "group", str(GROUP), "type", "bridge")
    kept = {it["what"]: it["why"] for it in purged(machine)["kept"]}  # type: ignore[index]
    assert set(kept) == {str(machine.conflist), str(other), str(machine.node.state_dir)}
    assert note.exists()
    assert machine.tables == ["table inet theirs"]
    links = {link["ifname"] for link in json.loads(machine.node.inside("ip", "-json", "link"))}
    assert links == {"lo", "loomtheirs", "ours0"}


def test_a_purge_needs_no_journal_that_can_be_read(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.end_agent()
    for path in machine.node.state_dir.glob("journal.db*"):
        path.write_bytes(b"no database at all, by any means" * 100)
    document = purged(machine)
    assert machine.node.links() == []
    assert machine.links_of(container) == {"lo"}
    assert machine.tables == []
    assert not machine.journal.exists()
    assert len(document["kept"]) == 1


def test_a_purge_of_a_journal_that_a_later_version_wrote_is_refused(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    connection = sqlite3.connect(machine.journal, isolation_level=None)
    connection.execute("PRAGMA user_version = 99")
    connection.execute("UPDATE fact SET value = '99' WHERE name = 'readable_by'")
    connection.close()
    outcome = machine.run(*PURGE)
    assert outcome.status == 1
    assert "99" in outcome.error["error"]
    assert machine.journal.exists()
    assert len(machine.node.links()) == 1


def test_a_purge_with_nobody_to_ask_has_to_be_meant(machine: Machine) -> None:
    outcome = machine.run("down", "--purge")
    assert outcome.status == 2
    assert "--yes" in outcome.said["error"]
    assert "`netloom down --purge --yes`" in outcome.said["next"]
    assert machine.agent is not None


def test_a_person_is_asked_before_a_purge(machine: Machine) -> None:
    machine.attach(machine.node.container())
    refused = machine.asked("n\n", "down", "--purge")
    assert refused.status == 1
    assert "1 attachment" in refused.stderr
    assert machine.agent is not None
    assert machine.asked("y\n", "down", "--purge").status == 0
    assert machine.agent is None
    assert not machine.journal.exists()


def test_a_person_is_asked_also_if_no_journal_tells_what_is_attached(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    machine.journal.unlink()
    assert machine.asked("y\n", "down", "--purge").status == 0
    assert machine.node.links() == []


def test_a_purge_says_on_a_terminal_what_went(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    shown = machine.on_a_terminal("down", "--purge", "--yes").stdout.splitlines()
    assert f"removed  {machine.conflist}" in shown
    assert "removed  nft table inet netloom" in shown
    assert any(line.startswith("removed  attachment netloom/") for line in shown)


def cached(machine: Machine) -> list[str]:
    results = machine.cli.cache / "results"
    return sorted(os.listdir(results)) if results.exists() else []


def test_a_purge_removes_what_netloom_cni_has_kept_of_our_network(machine: Machine) -> None:
    kept, gone = machine.node.container(), machine.node.container()
    machine.attach(kept)
    machine.attach(gone)
    machine.node.remove_container(gone)
    assert len(cached(machine)) == 2
    outcome = machine.run(*PURGE, "--cache-dir", str(machine.cli.cache))
    assert (outcome.status, outcome.document["kept"], cached(machine)) == (0, [], [])
    results = f"{machine.cli.cache}/results/"
    assert len([it for it in outcome.document["removed"] if it.startswith(results)]) == 2


def test_a_purge_knows_results_by_their_plugin_when_the_journal_is_lost(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    for path in machine.node.state_dir.glob("journal.db*"):
        path.unlink()
    assert machine.run(*PURGE, "--cache-dir", str(machine.cli.cache)).status == 0
    assert cached(machine) == []
