"""A machine that systemd has booted: it runs the agent, watches it, starts it anew, and no call is lost."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netloom import __version__
from netloom.journal.schema import VERSION

from ..fixtures.installation import Installation
from ..fixtures.node import NETLOOM, eventually
from .booted import Booted, why_not_booted

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(why_not_booted() is not None, reason=str(why_not_booted())),
]

PLUGIN = "/opt/cni/bin/netloom"
CONFIG = json.dumps(
    {"cniVersion": "1.1.0", "name": "load", "type": "netloom", "pools": [{"cidr": "10.9.0.0/16"}]}
)


@pytest.fixture
def machine() -> Iterator[Booted]:
    with Booted() as made:
        yield made


@pytest.fixture
def node(machine: Booted) -> Booted:
    """Made a node by `netloom up --systemd`."""
    machine.brought_up("--systemd")
    return machine


@pytest.fixture(scope="module")
def later() -> Iterator[Installation]:
    """A version with an interpreter of its own; where a machine that is booted later can see it."""
    directory = Path(tempfile.mkdtemp(prefix="netloom-later-", dir="/var/tmp"))
    installation = Installation(
        directory / "later",
        "98.0.0",
        migration="CREATE TABLE of_later (a INTEGER) STRICT;",
        readable_by=VERSION + 1,
    )
    installation.interpreter()
    yield installation
    shutil.rmtree(directory)


def main_process(machine: Booted) -> str:
    return machine.shown("netloom.service", "MainPID")["MainPID"]


def call(machine: Booted, verb: str, container: str) -> Any:
    env = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": container,
        "CNI_NETNS": f"/run/netns/{container}",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": "/opt/cni/bin",
    }
    return machine.run(PLUGIN, env=env, stdin=CONFIG)


class Load:
    def __init__(self, machine: Booted, name: str) -> None:
        self._machine = machine
        self._name = machine.container(name)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.calls = 0
        self.failed: list[Any] = []
        self._thread.start()

    def _run(self) -> None:
        while not self._enough.is_set():
            for verb in ("ADD", "DEL"):
                done = call(self._machine, verb, self._name)
                self.calls += 1
                if done.status != 0:
                    self.failed.append(done)

    def stop(self) -> None:
        self._enough.set()
        self._thread.join()


@contextmanager
def load(machine: Booted, count: int = 3, name: str = "load") -> Iterator[list[Load]]:
    loads = [Load(machine, f"{name}{number}") for number in range(count)]
    try:
        yield loads
    finally:
        for it in loads:
            it.stop()


def failures(loads: list[Load]) -> list[Any]:
    return [failed for it in loads for failed in it.failed]


# A node.


def test_up_makes_it_a_node_whose_agent_systemd_runs(machine: Booted) -> None:
    done = machine.brought_up("--systemd")
    assert [it["change"] for it in done["units"]] == ["installed", "installed"]
    assert (done["agent"]["change"], done["agent"]["unit"], done["agent"]["log"]) == (
        "started",
        "netloom.service",
        None,
    )
    for unit in ("netloom.service", "netloom.socket"):
        assert machine.shown(unit, "ActiveState", "UnitFileState") == {
            "ActiveState": "active",
            "UnitFileState": "enabled",
        }
    assert machine.cni("add", machine.container("web")).status == 0
    assert machine.run("ping", "-c1", "-W2", "10.78.0.1").status == 0


def test_it_looks_for_networks_where_up_was_told_to_whatever_the_places_are_called(machine: Booted) -> None:
    """Also the agent's own view: whether it is ready depends on the networks that it finds."""
    directory = "/srv/a b%n$HOME 'c'"
    places = {"--conf-dir": "net.d", "--state-dir": "state", "--socket": "run/agent.sock"}
    words = [it for option, name in places.items() for it in (option, f"{directory}/{name}")]
    machine.run("mkdir", "-p", f"{directory}/run")
    machine.brought_up("--systemd", *words)
    command = machine.run("cat", f"/proc/{main_process(machine)}/cmdline").stdout.split("\0")
    assert command[command.index("agent") + 1 : -1] == [
        it
        for option in ("--state-dir", "--socket", "--conf-dir")
        for it in (option, f"{directory}/{places[option]}")
    ]
    ready = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9478/readyz', timeout=10)"
    answered = machine.run(sys.executable, "-c", ready)
    assert answered.status == 0, answered.stderr


def test_a_second_up_keeps_it_so_without_being_told(node: Booted) -> None:
    process = main_process(node)
    done = node.brought_up()
    changes = [done[part]["change"] for part in ("plugin", "agent", "network")]
    assert changes + [it["change"] for it in done["units"]] == ["kept"] * 5
    assert main_process(node) == process


def test_it_moves_to_another_socket_where_it_is_told_to(node: Booted) -> None:
    process = main_process(node)
    done = node.brought_up("--systemd", "--socket", "/run/netloom/other.sock")
    assert done["agent"]["socket"] == "/run/netloom/other.sock"
    assert main_process(node) not in ("0", process)


def test_a_hardened_agent_does_all_that_one_without_bounds_does(node: Booted) -> None:
    """Ports, limits, sysctls of containers, repair by the container's path, and the end of a namespace."""
    process = main_process(node)
    status = node.run("cat", f"/proc/{process}/status").stdout
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    node.container("web")
    wish = {
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "udp"}],
        "bandwidth": {"egressRate": 20_000_000, "egressBurst": 2_000_000, "ingressRate": 20_000_000,
                      "ingressBurst": 2_000_000},
    }  # fmt: skip
    env = {"CAP_ARGS": json.dumps(wish)}
    for verb in ("add", "check"):
        done = node.netloom("cni", verb, "netloom", "/run/netns/web", env=env)
        assert done.status == 0, done.stderr
    assert node.run("ip", "route", "del", "10.78.0.1").status == 0
    assert eventually(lambda: "loom" in node.run("ip", "route", "show", "10.78.0.1").stdout)
    assert node.netloom("cni", "del", "netloom", "/run/netns/web", env=env).status == 0
    assert node.run("ip", "netns", "del", "web").status == 0
    # A DEL that took too long is done a moment later.
    assert eventually(lambda: node.netloom("check").status == 0)


# Calls wait.


def test_a_call_starts_an_agent_that_does_not_run(node: Booted) -> None:
    node.run("systemctl", "stop", "netloom.service")
    assert main_process(node) == "0"
    assert node.cni("add", node.container("web")).status == 0
    assert main_process(node) != "0"


def test_no_call_fails_while_it_is_started_anew(node: Booted) -> None:
    with load(node) as loads:
        for _ in range(3):
            assert node.run("systemctl", "restart", "netloom.service").status == 0
            time.sleep(0.3)
    assert failures(loads) == []
    assert node.netloom("check").status == 0


def test_one_that_was_killed_is_back_and_who_called_meanwhile_has_waited(node: Booted) -> None:
    node.container("web")
    node.run("kill", "-9", main_process(node))
    assert node.cni("add", "web").status == 0


def test_a_socket_that_somebody_removed_is_made_anew_and_outlives_the_agent(node: Booted) -> None:
    node.container("web")
    node.run("rm", "/run/netloom/agent.sock")
    assert eventually(
        lambda: node.shown("netloom.service", "NFileDescriptorStore") == {"NFileDescriptorStore": "1"}
    )
    node.run("kill", "-9", main_process(node))
    assert node.cni("add", "web").status == 0
    assert eventually(lambda: node.exists("/run/netloom/agent.sock"))


def test_a_directory_that_somebody_removed_is_there_again_for_the_next_call(node: Booted) -> None:
    """The agent may not write to /run itself: systemd makes the directory for it."""
    node.container("web")
    node.run("rm", "-rf", "/run/netloom")
    assert eventually(lambda: node.netloom("status").status == 0)
    assert node.cni("add", "web").status == 0
    assert node.run("stat", "-c", "%a %U", "/run/netloom").stdout.split() == ["700", "root"]


def test_one_that_hangs_is_ended_and_started_anew(machine: Booted) -> None:
    machine.run("mkdir", "-p", "/etc/systemd/system/netloom.service.d")
    machine.run("tee", "/etc/systemd/system/netloom.service.d/soon.conf", stdin="[Service]\nWatchdogSec=6s\n")
    machine.brought_up("--systemd")
    process = main_process(machine)
    time.sleep(7)
    assert main_process(machine) == process
    machine.run("kill", "-STOP", process)
    assert eventually(lambda: main_process(machine) not in (process, "0"), 60)
    assert machine.cni("add", machine.container("web")).status == 0


# Versions.


def test_an_upgrade_restarts_the_service_and_costs_no_call(node: Booted, later: Installation) -> None:
    with load(node) as loads:
        done = node.run(str(later.interpreter()), "-P", "-m", "netloom.cli.main", "up", "--json")
        assert done.status == 0, done.stderr
        time.sleep(0.3)
    document = json.loads(done.stdout)
    assert (document["agent"]["change"], document["agent"]["version"]) == ("replaced", "98.0.0")
    assert document["agent"]["waited_ms"] > 0
    assert [it["change"] for it in document["units"]] == ["kept", "replaced"]
    assert failures(loads) == []
    assert node.exists(f"/var/lib/netloom/journal.db.backup-{VERSION}")
    # And back: this version cannot read that journal, says so, and nothing is changed.
    process = main_process(node)
    with load(node, 1, "back") as loads:
        refused = node.netloom("up", "--json")
    assert (refused.status, refused.error["code"]) == (1, "journal-newer")
    assert main_process(node) == process
    assert "98.0.0" in node.netloom("status", "--json").stdout
    assert failures(loads) == []


def test_an_agent_of_nobody_is_followed_by_systemds(machine: Booted) -> None:
    before = machine.brought_up()["agent"]
    assert before["unit"] is None
    machine.cni("add", machine.container("web"))
    done = machine.brought_up("--systemd")["agent"]
    assert (done["change"], done["unit"]) == ("replaced", "netloom.service")
    assert done["process"] != before["process"]
    assert not machine.exists(f"/proc/{before['process']}")
    assert machine.cni("check", "web").status == 0


# The end.


def test_down_stops_it_until_up_starts_it(node: Booted) -> None:
    process = main_process(node)
    done = node.netloom("down", "--json")
    assert json.loads(done.stdout)["agent"] == {"change": "stopped", "process": int(process)}
    for unit in ("netloom.service", "netloom.socket"):
        assert node.shown(unit, "ActiveState") == {"ActiveState": "inactive"}
    assert json.loads(node.netloom("down", "--json").stdout)["agent"]["change"] == "not running"
    assert node.brought_up()["agent"]["change"] == "started"
    assert node.cni("add", node.container("web")).status == 0


def test_a_purge_takes_the_units_along(node: Booted) -> None:
    node.cni("add", node.container("web"))
    done = node.netloom("down", "--purge", "--yes", "--json")
    assert done.status == 0, done.stderr
    assert node.run("find", "/etc/systemd/system", "-name", "netloom*").stdout == ""
    assert node.shown("netloom.service", "LoadState") == {"LoadState": "not-found"}
    for path in ("/run/netloom", "/var/lib/netloom", PLUGIN):
        assert not node.exists(path)


# Somebody else's unit.


def test_an_agent_of_another_unit_is_left_to_it(machine: Booted, later: Installation) -> None:
    unit = f"[Service]\nExecStart={NETLOOM} agent\nRestart=always\n"
    machine.run("tee", "/etc/systemd/system/mine.service", stdin=unit)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "mine.service")
    assert eventually(lambda: machine.exists("/run/netloom/agent.sock"))
    up = [str(later.interpreter()), "-P", "-m", "netloom.cli.main", "up", "--json"]
    done = json.loads(machine.run(*up).stdout)
    assert (done["agent"]["change"], done["agent"]["version"]) == ("kept", __version__)
    assert any("systemctl restart mine.service" in it for it in done["warnings"])
    refused = machine.netloom("up", "--systemd", "--json")
    assert (refused.status, refused.error["code"]) == (1, "agent-of-other-unit")
    assert not machine.exists("/etc/systemd/system/netloom.service")
    assert machine.netloom("down").status == 0
    time.sleep(0.5)
    assert machine.shown("mine.service", "ActiveState") == {"ActiveState": "inactive"}


def test_a_unit_that_somebody_wrote_is_replaced_by_force_only(machine: Booted) -> None:
    """As one that was written by hand before there was a way to have it written."""
    unit = f"[Service]\nExecStart={NETLOOM} agent\nRestart=always\n"
    machine.run("tee", "/etc/systemd/system/netloom.service", stdin=unit)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "netloom.service")
    assert eventually(lambda: machine.exists("/run/netloom/agent.sock"))
    refused = machine.netloom("up", "--systemd", "--json")
    assert (refused.status, refused.error["code"]) == (3, "unit-foreign")
    assert machine.run("cat", "/etc/systemd/system/netloom.service").stdout == unit
    assert not machine.exists(PLUGIN)
    done = machine.brought_up("--systemd", "--force")
    assert done["agent"]["unit"] == "netloom.service"
    assert machine.shown("netloom.socket", "ActiveState") == {"ActiveState": "active"}
    assert machine.cni("add", machine.container("web")).status == 0


def test_a_socket_that_was_kept_and_then_forgotten_is_not_taken_for_the_units(node: Booted) -> None:
    """With the service, systemd stops to keep what it kept for it; the file leads nowhere then."""
    node.run("rm", "/run/netloom/agent.sock")
    assert eventually(lambda: node.exists("/run/netloom/agent.sock"))
    node.run("systemctl", "stop", "netloom.service")
    node.run("systemctl", "start", "netloom.service")
    assert node.cni("add", node.container("web")).status == 0
