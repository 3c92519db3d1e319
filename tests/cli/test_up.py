"""`netloom up`: from nothing to a node, again and again, and what may be in its way."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netloom import __version__
from netloom.cli.exit_status import CONFIGURATION

from ..fixtures.machine import Machine
from ..fixtures.node import PLUGIN, eventually
from ..lanes import ROOT

# What runtimes of this machine are told is no matter here.
pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

# An agent as another version of netloom would start it.
_SAME_NUMBER = (
    "from netloom.networks import table; from msgspec.structs import replace; "
    "table.TABLE = replace(table.TABLE, body=table.TABLE.body + 'set of_old { type ifname; }'); "
    "from netloom.cli.main import main; main(['agent'])"
)
_OLDER = "import netloom; netloom.__version__ = '0.0.9'; from netloom.cli.main import main; main(['agent'])"


def network(machine: Machine) -> dict[str, object]:
    document: dict[str, object] = json.loads(machine.conflist.read_text())
    return document


def test_a_bare_machine_becomes_a_node_that_attaches_containers(bare: Machine) -> None:
    done = bare.brought_up()
    assert [done[part]["change"] for part in ("plugin", "agent", "network")] == [
        "installed",
        "started",
        "installed",
    ]
    assert bare.plugin.read_bytes() == PLUGIN.read_bytes()
    assert os.access(bare.plugin, os.X_OK)
    result = bare.attach(bare.node.container())
    assert [ip["address"] for ip in result["ips"]] == ["10.78.0.1/32", "fd78::1/128"]
    assert bare.node.audit() == []


def test_the_network_declares_what_runtimes_ask_for(machine: Machine) -> None:
    assert network(machine) == {
        "cniVersion": "1.0.0",
        "name": "netloom",
        "plugins": [
            {
                "type": "netloom",
                "pools": [{"cidr": "10.78.0.0/16"}, {"cidr": "fd78::/64"}],
                "ipMasq": True,
                "capabilities": {
                    "ips": True,
                    "mac": True,
                    "dns": True,
                    "portMappings": True,
                    "bandwidth": True,
                },
            }
        ],
    }


def is_masqueraded(machine: Machine) -> object:
    plugins = network(machine)["plugins"]
    assert isinstance(plugins, list)
    return plugins[0]["ipMasq"]


def test_without_masquerade_is_kept_until_it_is_wanted(bare: Machine) -> None:
    bare.brought_up("--no-masquerade")
    assert is_masqueraded(bare) is False
    assert bare.brought_up()["network"]["change"] == "kept"
    assert bare.brought_up("--mtu", "1400")["network"]["change"] == "replaced"
    assert is_masqueraded(bare) is False
    bare.brought_up("--masquerade")
    assert is_masqueraded(bare) is True


def test_a_network_of_somebody_else_says_by_itself_whether_it_masquerades(bare: Machine) -> None:
    plugin = '{"type":"netloom","pools":[{"cidr":"10.4.0.0/24"}],"ipMasq":{"except":["10.0.0.0/8"]}}'
    bare.conflist.write_text(f'{{"cniVersion":"1.0.0","name":"blue","plugins":[{plugin}]}}')
    before = bare.conflist.read_bytes()
    assert bare.brought_up("--masquerade")["network"]["change"] == "kept"
    assert bare.conflist.read_bytes() == before
    error = bare.up("--no-masquerade", "--json").error["error"]
    assert "its ipMasq is on, not off" in error


def test_a_network_that_an_older_version_wrote_gets_what_runtimes_ask_for_and_keeps_what_it_does(
    bare: Machine,
) -> None:
    """It knew no host ports, no limits and no masquerade."""
    bare.brought_up()
    document = network(bare)
    plugins = document["plugins"]
    assert isinstance(plugins, list)
    del plugins[0]["ipMasq"]
    plugins[0]["capabilities"] = {"ips": True, "mac": True, "dns": True}
    content = json.dumps(document, indent=2) + "\n"
    bare.conflist.write_text(content)
    receipt = bare.node.state_dir / "installed.json"
    installed = json.loads(receipt.read_text())
    installed["files"][str(bare.conflist)] = hashlib.sha256(content.encode()).hexdigest()
    receipt.write_text(json.dumps(installed))
    bare.brought_up()
    plugins = network(bare)["plugins"]
    assert isinstance(plugins, list)
    assert set(plugins[0]["capabilities"]) == {"ips", "mac", "dns", "portMappings", "bandwidth"}
    assert is_masqueraded(bare) is False


def test_a_second_up_changes_nothing_and_says_so(machine: Machine) -> None:
    files = (machine.plugin, machine.conflist)
    before = [os.stat(path) for path in files]
    process = machine.agent
    done = machine.brought_up()
    assert {done[part]["change"] for part in ("plugin", "agent", "network")} == {"kept"}
    assert machine.agent == process == done["agent"]["process"]
    assert [(it.st_ino, it.st_mtime_ns) for it in map(os.stat, files)] == [
        (it.st_ino, it.st_mtime_ns) for it in before
    ]


def test_on_a_terminal_it_says_what_it_did(machine: Machine) -> None:
    outcome = machine.on_a_terminal("up", "--plugin-dir", str(machine.cli.plugins))
    assert outcome.status == 0
    lines = outcome.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["plugin", "kept"],
        ["agent", "kept"],
        ["network", "kept"],
    ]
    assert lines[3] == "nothing to do: everything is up to date"


def test_the_agent_is_alone_in_its_session_and_keeps_a_log(machine: Machine) -> None:
    process = machine.agent
    assert process is not None
    assert os.getsid(process) == process
    assert os.readlink(f"/proc/{process}/cwd") == "/"
    assert (machine.node.state_dir / "agent.log").stat().st_size > 0


def test_options_stay_until_others_are_given(bare: Machine) -> None:
    bare.brought_up("--network", "blue", "--pool", "10.20.0.0/24", "--mtu", "1400", "--cni-version", "1.1.0")
    assert bare.brought_up()["network"]["change"] == "kept"
    done = bare.brought_up("--mtu", "1300")["network"]
    assert (done["change"], done["name"], done["pools"], done["mtu"], done["cniVersion"]) == (
        "replaced",
        "blue",
        ["10.20.0.0/24"],
        1300,
        "1.1.0",
    )


def test_a_network_is_not_renamed_under_its_containers(bare: Machine) -> None:
    """They are deleted by its name."""
    bare.brought_up()
    done = bare.run("up", "--no-agent", "--network", "shop")
    assert done.status == 3
    assert "netloom" in done.stderr
    assert bare.brought_up()["network"]["name"] == "netloom"
    assert bare.brought_up("--network", "shop", "--force")["network"]["name"] == "shop"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pool", "10.20.0.0/33"], "10.20.0.0/33"),
        (["--pool", "10.20.0.0/16", "--pool", "10.20.1.0/24"], "overlap"),
        (["--mtu", "100"], "100"),
        (["--network", "a/b"], "network name"),
        (["--cni-version", "7.0.0"], "7.0.0"),
        (["--socket", "/" + "x" * 120], "--socket"),
        (["--state-dir", ""], "--state-dir"),
    ],
)
def test_an_option_that_cannot_work_is_refused_before_anything_is_done(
    bare: Machine, options: list[str], said: str
) -> None:
    outcome = bare.up(*options)
    assert outcome.status == 2
    assert said in outcome.stderr
    assert not bare.plugin.exists()
    assert not bare.node.state_dir.exists()


@pytest.mark.parametrize(
    ("options", "takes"),
    [(["--pool", "x"], "10.20.0.0/16"), (["--mtu", "5"], "65535"), (["--network", "a/b"], "letters")],
)
def test_an_option_that_cannot_work_is_told_with_what_it_takes(
    bare: Machine, options: list[str], takes: str
) -> None:
    advice = bare.up(*options).said["next"]
    assert advice.startswith(options[0])
    assert takes in advice


def test_what_goes_with_a_file_that_is_replaced_is_named(bare: Machine) -> None:
    ours = '{"type":"netloom","cooldown":5,"pools":[{"cidr":"10.4.0.0/24","exclude":["10.4.0.9"]}]}'
    bare.conflist.write_text(f'{{"cniVersion":"1.0.0","name":"n","plugins":[{ours},{{"type":"portmap"}}]}}')
    (warning,) = bare.brought_up("--force", "--mtu", "1400")["warnings"]
    assert warning.endswith(": cooldown, exclude of a pool, plugin portmap")


def test_a_file_without_an_mtu_is_not_said_to_have_none(bare: Machine) -> None:
    bare.conflist.write_text(
        '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"netloom","pools":[{"cidr":"10.4.0.0/24"}]}]}'
    )
    error = bare.up("--mtu", "1400", "--json").error["error"]
    assert "its MTU is that of the host's default route, not 1400" in error


def test_a_plugin_that_runs_is_replaced_without_waiting_for_it(machine: Machine) -> None:
    installed = machine.plugin.read_bytes()
    machine.plugin.write_bytes(installed + b"\0")
    running = subprocess.Popen(
        [machine.plugin],
        env={"CNI_COMMAND": "ADD"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        assert machine.brought_up()["plugin"]["change"] == "replaced"
        assert running.poll() is None
        assert machine.plugin.read_bytes() == installed
    finally:
        running.communicate()
    assert sorted(os.listdir(machine.cli.plugins)) == ["netloom"]


def test_a_network_of_somebody_else_is_not_replaced_unless_that_is_asked_for(bare: Machine) -> None:
    plugin = '{"type":"netloom","pools":[{"cidr":"10.4.0.0/24"}]}'
    by_hand = f'{{"cniVersion":"1.0.0","name":"blue","plugins":[{plugin}]}}'.encode()
    bare.conflist.write_bytes(by_hand)
    outcome = bare.up("--pool", "10.5.0.0/24", "--json")
    assert outcome.status == 3
    assert "10.4.0.0/24" in outcome.error["error"]
    assert "--force" in outcome.error["next"]
    assert bare.conflist.read_bytes() == by_hand
    assert bare.agent is None
    done = bare.brought_up("--pool", "10.4.0.0/24")["network"]
    assert (done["change"], done["name"], bare.conflist.read_bytes()) == ("kept", "blue", by_hand)
    assert bare.brought_up("--pool", "10.5.0.0/24", "--force")["network"]["change"] == "replaced"
    assert network(bare)["name"] == "netloom"


@pytest.mark.parametrize(
    "content", ["", "{", '{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}']
)
def test_a_file_in_the_networks_place_that_is_none_is_named(bare: Machine, content: str) -> None:
    bare.conflist.write_text(content)
    outcome = bare.up("--json")
    assert outcome.status == 3
    assert str(bare.conflist) in outcome.error["error"]
    assert bare.conflist.read_text() == content
    assert bare.brought_up("--force")["network"]["change"] == "replaced"


def test_a_network_that_sorts_first_is_reported_and_another_of_ours_is_no_matter(bare: Machine) -> None:
    (bare.cli.networks / "05-bridge.conflist").write_text(
        '{"cniVersion":"1.0.0","name":"b","plugins":[{"type":"bridge"}]}'
    )
    (bare.cli.networks / "20-old.conflist").write_text(
        '{"cniVersion":"1.0.0","name":"old","plugins":[{"type":"netloom","pools":[{"cidr":"10.6.0.0/24"}]}]}'
    )
    (warning,) = bare.brought_up()["warnings"]
    assert "05-bridge.conflist (network b) sorts before 10-netloom.conflist: " in warning


def test_of_several_networks_that_sort_first_the_one_that_runtimes_take_is_named(bare: Machine) -> None:
    for name in ("01-x", "05-bridge"):
        (bare.cli.networks / f"{name}.conflist").write_text(
            f'{{"cniVersion":"1.0.0","name":"{name}","plugins":[{{"type":"bridge"}}]}}'
        )
    (warning,) = bare.brought_up()["warnings"]
    assert "01-x.conflist (network 01-x) sorts before 10-netloom.conflist, as 1 more does: " in warning


def test_without_a_working_agent_no_network_is_written_and_its_last_words_are_shown(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.journal.write_bytes(b"no database at all, by any means" * 100)
    outcome = bare.up("--json")
    assert outcome.status == 1
    assert any("journal.db" in line for line in outcome.error["said"])
    assert "agent.log" in outcome.error["next"]
    assert not bare.conflist.exists()


def test_an_agent_that_does_not_get_ready_in_time_is_ended(bare: Machine) -> None:
    outcome = bare.up("--timeout", "0.5", "--json", env={"NETLOOM_FAILPOINT": "recovery.node:stop"})
    assert outcome.status == 124
    assert not bare.conflist.exists()
    assert bare.agent is None


def test_an_agent_that_somebody_else_starts_is_waited_for_and_kept(bare: Machine) -> None:
    started = bare.node.start(ready=False)
    while bare.agent is None:
        assert started.poll() is None
    done = bare.brought_up()
    assert (done["agent"]["change"], done["agent"]["process"]) == ("kept", started.pid)


def test_a_log_is_named_only_where_the_agent_writes_to_it(bare: Machine) -> None:
    bare.node.start()
    assert bare.brought_up()["agent"]["log"] is None
    bare.node.stop()
    assert bare.brought_up()["agent"]["log"] == str(bare.node.state_dir / "agent.log")


def test_two_at_once_start_one_agent(bare: Machine) -> None:
    words = ("up", "--json", "--plugin-dir", str(bare.cli.plugins))
    both = [bare.cli.start(*words, prefix=bare.node.command()) for _ in range(2)]
    done = [json.loads(process.communicate(timeout=30)[0]) for process in both]
    assert sorted(it["agent"]["change"] for it in done) == ["kept", "started"]
    assert {it["agent"]["process"] for it in done} == {bare.agent}


def test_an_agent_of_another_version_is_replaced_and_traffic_goes_on(bare: Machine) -> None:
    bare.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    older = subprocess.Popen(
        bare.node.command(sys.executable, "-c", _OLDER), env=bare.cli.env, stderr=subprocess.DEVNULL
    )
    try:
        done = bare.up("--json", "--no-agent").document
        while done["agent"]["change"] == "none":
            assert older.poll() is None
            done = bare.up("--json", "--no-agent").document
        assert "0.0.9" in done["warnings"][0]
        bare.attach(bare.node.container())
        assert bare.reaches("10.78.0.1")
        done = bare.brought_up()
        assert (done["agent"]["change"], done["agent"]["version"]) == ("replaced", __version__)
        assert older.wait(10) == 0
        assert bare.reaches("10.78.0.1")
        assert [it["addresses"] for it in bare.listed()] == [["10.78.0.1", "fd78::1"]]
    finally:
        older.kill()
        older.wait()


def test_an_agent_of_the_same_version_with_another_table_is_replaced(bare: Machine) -> None:
    """As between two versions that were never released."""
    other = subprocess.Popen(
        bare.node.command(sys.executable, "-c", _SAME_NUMBER), env=bare.cli.env, stderr=subprocess.DEVNULL
    )
    try:
        while bare.up("--json", "--no-agent").document["agent"]["change"] == "none":
            assert other.poll() is None
        assert bare.brought_up()["agent"]["change"] == "replaced"
        assert other.wait(10) == 0
        assert bare.brought_up()["agent"]["change"] == "kept"
    finally:
        other.kill()
        other.wait()


def test_without_an_agent_of_its_own_it_installs_files_and_says_that_none_answers(bare: Machine) -> None:
    done = bare.brought_up("--no-agent")
    assert done["agent"]["change"] == "none"
    assert str(bare.node.socket) in done["warnings"][0]
    assert "`netloom agent`" in done["warnings"][0]
    assert bare.conflist.exists()
    assert bare.agent is None


def test_an_agent_with_another_journal_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    outcome = machine.up("--state-dir", str(tmp_path / "other"))
    assert outcome.status == 1
    assert str(machine.node.state_dir) in outcome.said["error"]
    assert machine.agent is not None


def test_a_socket_that_the_plugin_does_not_know_of_is_reported(bare: Machine) -> None:
    elsewhere = str(bare.node.directory / "elsewhere.sock")
    (warning,) = bare.brought_up("--socket", elsewhere)["warnings"]
    assert f"NETLOOM_SOCKET={elsewhere}" in warning


@pytest.mark.parametrize("place", ["plugin", "log"])
def test_what_is_in_the_way_of_a_file_is_named(bare: Machine, place: str) -> None:
    path = bare.plugin if place == "plugin" else bare.node.state_dir / "agent.log"
    path.mkdir(parents=True)
    outcome = bare.up("--json")
    assert outcome.status == 1
    assert str(path) in outcome.error["error"]
    assert not bare.conflist.exists()


def test_an_ordinary_user_is_told_to_be_root(bare: Machine) -> None:
    bare.node.directory.chmod(0o755)
    outcome = bare.run(
        "up", prefix=("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"), env={"HOME": "/"}
    )
    assert outcome.status == 1
    assert "`sudo " in outcome.said["next"]


def test_an_installation_without_a_plugin_says_how_to_get_one(bare: Machine, tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "netloom", tmp_path / "netloom", ignore=shutil.ignore_patterns("_plugin", "__pycache__")
    )
    done = subprocess.run(
        bare.node.command(sys.executable, "-P", "-m", "netloom.cli.main", "up", "--json"),
        env={**bare.cli.env, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
    )
    assert done.returncode == 1
    assert "make setup" in json.loads(done.stderr)["next"]


def test_a_family_that_is_given_up_is_reported_with_how_to_keep_it(machine: Machine) -> None:
    (warning,) = machine.brought_up("--pool", "10.20.0.0/16")["warnings"]
    assert "no longer gives IPv6 addresses" in warning
    assert "`netloom up --pool 10.20.0.0/16 --pool fd78::/64`" in warning
    assert machine.brought_up()["warnings"] == []
    done = machine.brought_up("--pool", "10.20.0.0/16", "--pool", "fd78::/64")
    assert (done["network"]["pools"], done["warnings"]) == (["10.20.0.0/16", "fd78::/64"], [])


def test_a_family_of_somebody_elses_file_that_is_given_up_is_reported(bare: Machine) -> None:
    pools = '[{"cidr":"10.4.0.0/24"},{"cidr":"fd04::/64"}]'
    bare.conflist.write_text(
        f'{{"cniVersion":"1.0.0","name":"n","plugins":[{{"type":"netloom","pools":{pools}}}]}}'
    )
    (warning,) = bare.brought_up("--pool", "10.5.0.0/24", "--force")["warnings"]
    assert "fd04::/64" in warning


def connected(machine: Machine, address: str) -> None:
    """A host on a network of other machines."""
    machine.node.inside("ip", "link", "add", "lan0", "type", "bridge")
    machine.node.inside("ip", "address", "add", address, "dev", "lan0")


@pytest.mark.parametrize(
    ("words", "address", "other"),
    [
        (("--pool", "fd78::/64"), "fd78::7/64", "--pool fd79::/64"),
        (("--pool", "192.0.2.0/24"), "192.0.2.1/24", "--pool 10.78.0.0/24"),
        (
            ("--pool", "10.1.0.0/16", "--pool", "10.2.0.0/16"),
            "10.0.0.5/8",
            "--pool 172.16.0.0/16 --pool 172.17.0.0/16",
        ),
        (("--pool", "10.0.0.0/9"), "10.0.0.5/8", "--pool CIDR"),
    ],
    ids=["IPv6", "documentation", "two in a large network", "larger than any that is free"],
)
def test_a_pool_that_overlaps_a_network_that_the_host_is_on_is_refused_before_anything_is_done(
    bare: Machine, words: tuple[str, ...], address: str, other: str
) -> None:
    connected(bare, address)
    refused = bare.up("--json", *words)
    error = refused.error
    assert (refused.status, error["code"]) == (CONFIGURATION, "pool-overlap")
    assert f"netloom up {other}`" in error["next"]
    assert not bare.plugin.exists()
    assert not bare.conflist.exists()
    assert bare.agent is None


@pytest.mark.parametrize(
    ("address", "pools"),
    [
        ("10.78.5.1/24", ["10.79.0.0/16", "fd78::/64"]),
        ("10.0.0.5/8", ["172.16.0.0/16", "fd78::/64"]),
        ("fd78::7/64", ["10.78.0.0/16", "fd79::/64"]),
    ],
)
def test_a_default_pool_that_overlaps_a_network_that_the_host_is_on_gives_way(
    bare: Machine, address: str, pools: list[str]
) -> None:
    connected(bare, address)
    done = bare.brought_up()
    (warning,) = done["warnings"]
    assert (done["network"]["pools"], ", ".join(pools) in warning) == (pools, True)
    again = bare.brought_up()
    assert (again["network"]["change"], again["network"]["pools"], again["warnings"]) == ("kept", pools, [])


def test_with_force_a_pool_that_overlaps_a_network_of_the_host_is_used_and_reported(bare: Machine) -> None:
    connected(bare, "10.78.5.1/24")
    done = bare.brought_up("--force")
    (warning,) = done["warnings"]
    assert "pool 10.78.0.0/16 overlaps 10.78.5.0/24 on lan0" in warning
    assert done["network"]["change"] == "installed"


def test_a_pool_that_is_there_already_is_kept_though_the_host_is_on_its_network_by_now(
    machine: Machine,
) -> None:
    connected(machine, "10.78.5.1/24")
    for words in ((), ("--pool", "10.78.0.0/16", "--pool", "fd78::/64")):
        done = machine.brought_up(*words)
        assert [done["network"]["change"], *("overlaps" in it for it in done["warnings"])] == ["kept", True]


def switched(machine: Machine, value: int) -> None:
    for where in ("all", "default"):
        machine.node.inside("sysctl", "-w", f"net.ipv6.conf.{where}.disable_ipv6={value}")


def test_on_a_host_without_ipv6_the_network_has_ipv4_and_works_until_it_is_given_more(bare: Machine) -> None:
    bare.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    switched(bare, 1)
    done = bare.brought_up()
    assert done["network"]["pools"] == ["10.78.0.0/16"]
    add = "`netloom up --pool 10.78.0.0/16 --pool fd78::/64`"
    assert [add in it for it in done["warnings"]] == [True]
    assert bare.run("status", "--json").document["findings"] == []
    container = bare.node.container()
    assert len(bare.attach(container)["ips"]) == 1
    # As it was, with IPv6 on the host; and with both, when it is asked for.
    switched(bare, 0)
    again = bare.brought_up()
    assert (again["network"]["change"], [add in it for it in again["warnings"]]) == ("kept", [True])
    assert bare.brought_up("--pool", "10.78.0.0/16")["warnings"] == []
    assert bare.brought_up("--pool", "10.78.0.0/16", "--pool", "fd78::/64")["warnings"] == []
    other = bare.node.container()
    assert eventually(lambda: bare.cni("add", other).status == 0)
    assert bare.run("status", "--json").document["findings"] == []


def test_on_a_host_without_ipv6_a_pool_of_it_that_is_given_is_refused_before_anything_is_done(
    bare: Machine,
) -> None:
    switched(bare, 1)
    words = ("--pool", "10.20.0.0/16", "--pool", "fd20::/64")
    refused = bare.up("--json", *words)
    assert (refused.status, refused.error["code"]) == (CONFIGURATION, "host-lacks")
    assert "`netloom up --pool 10.20.0.0/16`" in refused.error["next"]
    assert not bare.plugin.exists()
    assert not bare.conflist.exists()
    forced = bare.brought_up("--force", *words)
    assert ["disable_ipv6" in it for it in forced["warnings"]] == [True]
    # What is there is kept, whoever names it.
    assert bare.brought_up(*words)["network"]["change"] == "kept"


def without_nftables() -> tuple[str, ...]:
    """To put before a command from which the library is hidden; nobody else misses it."""
    libraries = " ".join(map(str, Path("/usr/lib").rglob("libnftables.so.1*")))
    hidden = f'for it in {libraries}; do mount --bind /dev/null "$it"; done; exec "$@"'
    return ("unshare", "--mount", "sh", "-c", hidden, "sh")


def test_a_missing_library_is_named_with_its_package_before_anything_is_done(bare: Machine) -> None:
    words = ("up", "--plugin-dir", str(bare.cli.plugins))
    told = bare.run(*words, prefix=without_nftables())
    assert told.status == 1
    assert "libnftables" in told.said["error"]
    assert "`apt install libnftables1`" in told.said["next"]
    assert told.said["more"] == "netloom explain library-missing"
    assert not bare.plugin.exists()
    assert not bare.node.state_dir.exists()
    assert bare.agent is None


def test_who_brings_an_agent_of_their_own_may_install_the_library_later(bare: Machine) -> None:
    words = ("up", "--no-agent", "--plugin-dir", str(bare.cli.plugins))
    assert bare.run(*words, prefix=without_nftables()).status == 0


def containerd(etc: Path, **places: Path | str) -> None:
    lines = "\n".join(f'{key} = "{value}"' for key, value in places.items())
    (etc / "containerd").mkdir()
    (etc / "containerd" / "config.toml").write_text(
        f'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n{lines}\n'
    )


def test_a_runtime_that_looks_for_plugins_elsewhere_is_reported_with_where(
    bare: Machine, own_etc: Path
) -> None:
    containerd(own_etc, bin_dir="/usr/lib/cni", conf_dir=bare.cli.networks)
    (warning,) = bare.brought_up()["warnings"]
    assert "containerd looks for plugins in /usr/lib/cni" in warning
    assert "`netloom up --plugin-dir /usr/lib/cni`" in warning
    assert bare.attach(bare.node.container())["ips"]


def test_a_runtime_that_looks_for_networks_elsewhere_is_reported_with_where(
    bare: Machine, own_etc: Path
) -> None:
    containerd(own_etc, bin_dir=bare.cli.plugins, conf_dir="/srv/networks")
    (warning,) = bare.brought_up()["warnings"]
    assert "containerd looks for networks in /srv/networks" in warning


def test_a_runtime_that_looks_where_everything_is_is_not_mentioned(bare: Machine, own_etc: Path) -> None:
    containerd(own_etc, bin_dir=bare.cli.plugins, conf_dir=bare.cli.networks)
    assert bare.brought_up()["warnings"] == []
