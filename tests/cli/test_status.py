"""`netloom status`: how the node is, also when its agent is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom import __version__

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

# What runtimes of this machine are told is no matter here.
pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


def test_a_node_that_is_well_says_so_by_its_status(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.attach(container, "-i", "net1")
    machine.cni("del", container, "-i", "net1")
    outcome = machine.run("status", "--json")
    report = outcome.document
    assert outcome.status == 0
    assert report["agent"]["version"] == __version__
    assert report["agent"]["process"] == machine.agent
    assert report["attachments"] == {"pending": 0, "committed": 1, "deleting": 0}
    assert report["troubles"] == []
    assert report["counters"]["ADD done"] == 2
    (network,) = report["networks"]
    assert network["name"] == "netloom"
    assert network["pools"][0] == {
        "cidr": "10.78.0.0/16",
        "capacity": 65534,
        "held": 1,
        "resting": 1,
        "orphaned": 0,
        "host": 0,
        "free": 65532,
    }


def test_without_an_agent_the_status_is_1_and_the_journal_is_shown(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.end_agent()
    outcome = machine.run("status", "--json")
    report = outcome.document
    assert (outcome.status, report["agent"]) == (1, None)
    assert str(machine.node.socket) in report["why"]
    assert report["attachments"]["committed"] == 1
    assert [pool["held"] for pool in report["networks"][0]["pools"]] == [1, 1]


def test_on_a_terminal_it_is_a_few_lines_and_a_table_of_pools(machine: Machine) -> None:
    machine.attach(machine.node.container())
    outcome = machine.on_a_terminal("status")
    assert outcome.status == 0
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith(f"agent        version {__version__}, process {machine.agent}, since ")
    assert "attachments  1 committed" in lines
    assert lines[-5].split() == ["NETWORK", "POOL", "CAPACITY", "HELD", "RESTING", "FREE"]
    assert lines[-3].split() == ["netloom", "fd78::/64", "2^64", "1", "0", "2^64"]
    assert lines[-1].startswith("no problems found")


def test_a_machine_that_is_no_node_is_told_how_to_become_one(bare: Machine) -> None:
    outcome = bare.on_a_terminal("status")
    assert outcome.status == 1
    assert "not running" in outcome.stdout
    assert "`netloom up`" in outcome.stdout


def test_a_network_that_cannot_work_is_named_with_the_reason(machine: Machine) -> None:
    (machine.cli.networks / "20-bad.conflist").write_text(
        '{"cniVersion":"1.0.0","name":"bad","plugins":[{"type":"netloom","pools":[]}]}'
    )
    outcome = machine.run("status", "--json")
    bad = outcome.document["networks"][1]
    assert (outcome.status, bad["name"], bad["pools"]) == (1, "bad", [])
    assert "no pools" in bad["error"]
    assert "no pools" in machine.on_a_terminal("status").stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "error parsing"),
        ('{"cniVersion":"1.0.0","na', "error parsing"),
        (
            '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"netloom","pools":[{"cidr":"10.1/8"}]}]}',
            "10.1/8",
        ),
    ],
    ids=["empty", "no JSON", "no pool"],
)
def test_our_own_file_that_is_broken_is_named_once_and_nothing_else_is_said_of_it(
    machine: Machine, content: str, said: str
) -> None:
    machine.conflist.write_text(content)
    assert machine.run("status").status == 1
    shown = machine.on_a_terminal("status")
    assert shown.status == 1
    (line,) = [line for line in shown.stdout.splitlines() if str(machine.conflist) in line]
    assert said in line
    assert "`netloom up --force`" in shown.stdout
    assert "no network of netloom is configured" not in shown.stdout


def test_a_broken_file_that_speaks_of_us_is_told_from_others(machine: Machine) -> None:
    (machine.cli.networks / "20-ours.conflist").write_text('{"name":"shop","plugins":[{"type":"netloom"')
    (machine.cli.networks / "30-theirs.conflist").write_text('{"name":"b","plugins":[{"type":"bridge"')
    outcome = machine.run("status", "--json")
    assert outcome.status == 1
    assert [Path(it["path"]).name for it in outcome.document["unreadable"]] == ["20-ours.conflist"]


def test_somebody_elses_broken_file_is_none_of_our_business(machine: Machine) -> None:
    (machine.cli.networks / "30-theirs.conflist").write_text('{"name":"b","plugins":[{"type":"bridge"')
    assert machine.run("status").status == 0


def test_a_directory_of_networks_that_is_none_hides_nothing_else(machine: Machine) -> None:
    file = machine.node.directory / "file"
    file.touch()
    outcome = machine.run("status", "--json", "--conf-dir", str(file))
    assert (outcome.status, outcome.document["agent"]["process"]) == (1, machine.agent)
    assert [it["path"] for it in outcome.document["unreadable"]] == [str(file)]


def test_a_journal_that_cannot_be_read_is_a_trouble(machine: Machine) -> None:
    machine.run("down")
    machine.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = machine.run("status", "--json")
    assert outcome.status == 1
    report = outcome.document
    assert any("journal.db" in trouble for trouble in report["troubles"])
    assert report["attachments"] is None
    assert [pool["free"] for pool in report["networks"][0]["pools"]] == [None, None]
    assert "unknown" in machine.on_a_terminal("status").stdout


@pytest.fixture
def stopped(machine: Machine) -> Iterator[int]:
    """The process of an agent that was stopped, and does not answer."""
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    yield process
    os.kill(process, signal.SIGCONT)


def test_an_agent_that_runs_and_does_not_answer_is_not_said_to_be_down(
    machine: Machine, stopped: int
) -> None:
    outcome = machine.on_a_terminal("status")
    shown = outcome.stdout
    assert outcome.status == 1
    assert f"process {stopped}" in shown.splitlines()[0]
    assert "not running" not in shown
    assert f"`kill -CONT {stopped}`" in shown
    assert "`netloom up`" not in shown


def test_up_says_of_an_agent_that_does_not_answer_what_to_do(machine: Machine, stopped: int) -> None:
    outcome = machine.up("--json")
    assert outcome.status == 1
    assert f"process {stopped}" in outcome.error["error"]
    assert f"`kill -CONT {stopped}`" in outcome.error["next"]


def is_halted(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_an_agent_that_does_not_listen_yet_is_not_started_once_more(bare: Machine) -> None:
    started = bare.node.start(environment={"NETLOOM_FAILPOINT": "recovery.node:stop"}, ready=False)
    assert eventually(lambda: bare.agent == started.pid and is_halted(started.pid))
    outcome = bare.run("status", "--json")
    report = outcome.document
    assert (outcome.status, report["agent"], report["silent"]) == (1, None, started.pid)
    (finding,) = [it for it in report["findings"] if it["severity"] == "error"]
    assert (finding["code"], finding["subject"]) == ("agent-halted", f"process {started.pid}")
    assert "`netloom up`" not in finding["next"]


def test_an_agent_that_listens_elsewhere_is_not_started_once_more(machine: Machine) -> None:
    report = machine.run("status", "--json", "--socket", str(machine.node.directory / "another")).document
    (finding,) = report["findings"]
    assert (finding["code"], finding["subject"]) == ("agent-elsewhere", f"process {machine.agent}")
    assert "`netloom up`" not in finding["next"]


def test_addresses_of_a_pool_that_is_no_longer_configured_are_shown(machine: Machine) -> None:
    machine.attach(machine.node.container())
    assert machine.run("status", "--json").document["outside"] == []
    machine.brought_up("--pool", "10.20.0.0/16", "--pool", "fd20::/64")
    outcome = machine.run("status", "--json")
    assert (outcome.status, outcome.document["outside"]) == (0, ["10.78.0.1", "fd78::1"])
    assert "10.78.0.1, fd78::1 are held" in machine.on_a_terminal("status").stdout


def test_addresses_that_were_excluded_after_they_were_given_are_shown(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.conflist.write_text(
        machine.conflist.read_text().replace('"10.78.0.0/16"', '"10.78.0.0/16", "exclude": ["10.78.0.1"]')
    )
    assert machine.run("status", "--json").document["outside"] == ["10.78.0.1"]


def test_a_pool_that_overlaps_a_network_of_the_host_is_warned_of(machine: Machine) -> None:
    assert machine.run("status", "--json").document["warnings"] == []
    machine.node.inside("ip", "link", "add", "lan0", "type", "bridge")
    machine.node.inside("ip", "address", "add", "10.78.5.1/24", "dev", "lan0")
    outcome = machine.run("status", "--json")
    (warning,) = outcome.document["warnings"]
    assert (outcome.status, "10.78.5.0/24 on lan0" in warning) == (0, True)
    assert "10.78.5.0/24 on lan0" in machine.on_a_terminal("status").stdout


def require_that_nothing_can_be_attached(machine: Machine, said: str) -> None:
    outcome = machine.run("status", "--json")
    (network,) = outcome.document["networks"]
    assert (outcome.status, said in network["trouble"]) == (1, True)
    assert said in machine.on_a_terminal("status").stdout
    warned = machine.up("--json")
    assert (warned.status, [said in it for it in warned.document["warnings"]]) == (0, [True])
    shown = machine.on_a_terminal("up", "--plugin-dir", str(machine.cli.plugins))
    assert (shown.status, said in shown.stderr, "nothing to do" in shown.stdout) == (0, True, False)


def test_a_host_with_ipv6_switched_off_is_not_well_for_a_network_with_an_ipv6_pool(machine: Machine) -> None:
    machine.node.inside("sysctl", "-w", "net.ipv6.conf.default.disable_ipv6=1")
    require_that_nothing_can_be_attached(machine, "sysctl -w net.ipv6.conf.default.disable_ipv6=0")


def test_a_way_out_that_is_too_narrow_for_ipv6_is_told_by_status_and_up(machine: Machine) -> None:
    machine.node.inside("ip", "link", "add", "lan0", "mtu", "1200", "type", "bridge")
    machine.node.inside("ip", "link", "set", "lan0", "up")
    machine.node.inside("ip", "route", "add", "default", "dev", "lan0")
    require_that_nothing_can_be_attached(machine, "raise its MTU")


def test_a_pool_that_is_full_is_told_by_status_and_up(machine: Machine) -> None:
    machine.brought_up("--pool", "10.20.0.1/32", "--pool", "fd20::/64")
    machine.attach(machine.node.container())
    require_that_nothing_can_be_attached(machine, "no IPv4 address is left")


def test_a_machine_that_was_never_a_node_has_no_containers_that_keep_their_networks(bare: Machine) -> None:
    assert "containers keep" not in bare.on_a_terminal("status").stdout


def test_a_journal_that_is_gone_from_under_the_agent_leaves_nothing_known(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.journal.rename(machine.node.directory / "away")
    outcome = machine.run("status", "--json")
    report = outcome.document
    assert (outcome.status, report["attachments"], report["outside"]) == (1, None, None)
    assert [pool["free"] for pool in report["networks"][0]["pools"]] == [None, None]
    assert report["troubles"]
    assert "put it back" in report["next"]
    assert report["next"] in machine.on_a_terminal("status").stdout
    assert any("journal.db" in it for it in machine.up("--json").document["warnings"])
    (machine.node.directory / "away").rename(machine.journal)
    assert eventually(lambda: machine.run("status").status == 0)
    assert machine.run("status", "--json").document["attachments"]["committed"] == 1


def test_a_file_in_the_journals_place_is_not_taken_for_it(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.journal.rename(machine.node.directory / "away")
    machine.journal.touch()
    outcome = machine.run("status", "--json")
    assert (outcome.status, outcome.document["attachments"]) == (1, None)


def test_a_journal_that_is_gone_while_no_agent_runs_is_a_trouble(machine: Machine) -> None:
    machine.run("down")
    machine.journal.unlink()
    report = machine.run("status", "--json").document
    assert (report["attachments"], len(report["troubles"])) == (None, 1)
    assert "`netloom up` begins with an empty journal" in report["next"]
    # What brings it back comes first: an agent that is started now would begin with an empty one.
    assert [it["code"] for it in report["findings"]] == ["journal-gone", "agent-not-running"]


def test_with_a_damaged_journal_nobody_is_told_that_up_will_do(machine: Machine) -> None:
    machine.run("down")
    machine.journal.write_bytes(b"no database at all, by any means" * 100)
    assert machine.run("status", "--json").document["next"].startswith("restore a copy")


def test_another_state_directory_than_the_agents_is_named(machine: Machine, tmp_path: Path) -> None:
    outcome = machine.run("status", "--json", "--state-dir", str(tmp_path))
    assert (outcome.status, outcome.document["attachments"]) == (1, None)
    assert f"--state-dir {machine.node.state_dir}" in outcome.document["next"]


# Modules of netloom that it may load, packages among them: there are 121.
_MOST = 122


def test_no_more_is_loaded_for_it_than_it_needs(machine: Machine) -> None:
    """What is loaded is most of the time that it takes."""
    script = "import sys; from netloom.cli.main import main; main(); print(*sys.modules, file=sys.stderr)"
    words = machine.node.command(sys.executable, "-c", script, "status", "--json")
    done = subprocess.run(words, env=machine.cli.env, capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    assert "netloom.ops.status.report" in modules
    assert modules & {"asyncio", "ctypes", "hashlib", "shutil", "subprocess", "tomllib"} == set()
    assert modules.isdisjoint({"netloom.agent.node", "netloom.api.catalogue", "netloom.cni.exec"})
    assert modules.isdisjoint({"netloom.kernel.objects", "netloom.kernel.plan", "netloom.networks.table"})
    assert len([it for it in modules if it.startswith("netloom")]) <= _MOST
