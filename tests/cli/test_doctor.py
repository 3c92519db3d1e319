"""`netloom doctor`: what it checks, what it says, and what it mends. Faults are in test_faults.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from netloom.api.findings import Finding
from netloom.kernel.objects.link import GROUP
from netloom.ops.doctor.checks import CHECKS
from netloom.ops.doctor.fixes import Fix, judged

from ..fixtures.machine import Machine
from ..fixtures.node import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


def found(machine: Machine, *words: str) -> dict[str, dict[str, Any]]:
    return {it["code"]: it for it in machine.run("doctor", "--json", *words).document["findings"]}


# What it says.


def test_on_a_sound_node_every_check_runs_and_finds_nothing(machine: Machine) -> None:
    machine.attach(machine.node.container())
    document = machine.run("doctor", "--json").document
    assert [(it["look"], it["findings"]) for it in document["looks"]] == [(it.name, 0) for it in CHECKS]
    assert {it["feature"] for it in document["features"]} >= {"veth", "nftables", "nat"}
    assert machine.on_a_terminal("doctor").stdout.startswith("no problems found")


def test_on_a_terminal_a_finding_is_followed_by_what_to_do_and_where_to_read_more(machine: Machine) -> None:
    machine.plugin.unlink()
    outcome = machine.on_a_terminal("doctor")
    assert outcome.status == 1
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith("error: ")
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["next", "fix", "more"]
    assert "`netloom explain plugin-missing`" in f"`{lines[3].partition(': ')[2]}`"


def test_findings_with_one_remedy_stand_together(machine: Machine) -> None:
    for _ in range(2):
        machine.attach(machine.node.container())
    machine.end_agent()
    for link in machine.node.links():
        machine.node.inside("ip", "link", "set", link, "down")
    listed = machine.run("doctor", "--json", "--only", "object-missing").document["findings"]
    assert len({it["subject"] for it in listed}) == 2
    shown = machine.on_a_terminal("doctor", "--only", "object-missing").stdout
    assert shown.count("  next: ") == 1


def test_warnings_alone_leave_the_status_at_0(machine: Machine) -> None:
    (machine.cli.networks / "05-other.conflist").write_text(
        '{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"bridge"}]}'
    )
    outcome = machine.run("doctor", "--json")
    assert (outcome.status, [it["severity"] for it in outcome.document["findings"]]) == (0, ["warning"])


def test_a_machine_that_is_no_node_yet_is_told_what_status_says(bare: Machine) -> None:
    outcome = bare.run("doctor", "--json")
    assert [it["code"] for it in outcome.document["findings"]] == ["agent-not-running", "network-none"]
    assert outcome.status == bare.run("status").status == 1
    assert outcome.document["findings"] == bare.run("status", "--json").document["findings"]
    assert outcome.document["features"]


# What it checks.


def test_only_one_check_runs_if_only_one_is_asked_for(machine: Machine) -> None:
    machine.plugin.unlink()
    assert [it["look"] for it in machine.run("doctor", "--json", "--only", "disk").document["looks"]] == [
        "disk"
    ]
    assert list(found(machine, "--only", "plugin-missing")) == ["plugin-missing"]
    assert found(machine, "--only", "plugin-differs", "--only", "clock") == {}


def test_a_check_that_does_not_exist_is_an_error_of_usage(machine: Machine) -> None:
    outcome = machine.run("doctor", "--only", "nothing", "--json")
    assert (outcome.status, outcome.error["code"]) == (2, "usage")


def test_a_check_that_fails_does_not_hide_the_others(machine: Machine) -> None:
    machine.plugin.unlink()
    prefix = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    document = machine.run("doctor", "--json", prefix=prefix).document
    codes = {it["code"] for it in document["findings"]}
    assert {"feature-missing", "plugin-missing"} <= codes


def test_what_an_agent_repairs_is_sound_again(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    machine.node.inside("ip", "route", "del", "10.78.0.1")
    assert found(machine)["object-missing"]["subject"]
    machine.brought_up()
    assert eventually(lambda: machine.run("doctor").status == 0)


def test_a_link_of_no_attachment_is_to_be_deleted_by_hand(machine: Machine) -> None:
    machine.node.inside("ip", "link", "add", "loomstray", "group", str(GROUP), "type", "bridge")
    finding = found(machine)["link-orphaned"]
    assert (finding["subject"], "`ip link del loomstray`" in finding["next"]) == ("loomstray", True)


HOLDERS = {
    "a descriptor": (
        "import os, sys, time\nos.open(sys.argv[1], os.O_RDONLY)\nprint(flush=True)\ntime.sleep(600)\n"
    ),
    "a thread": (
        "import ctypes, os, sys, threading, time\n"
        "def stay():\n"
        "    ctypes.CDLL(None).setns(os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC), 0x40000000)\n"
        "    print(flush=True)\n"
        "    time.sleep(600)\n"
        "threading.Thread(target=stay).start()\n"
    ),
}


Hold: TypeAlias = Callable[[str, str], int]


@pytest.fixture
def holding() -> Iterator[Hold]:
    """Starts somebody who holds a namespace, by a script and the namespace's path."""
    started: list[subprocess.Popen[bytes]] = []

    def hold(script: str, path: str) -> int:
        process = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        return process.pid

    yield hold
    for process in started:
        process.kill()
        process.communicate()


def is_named(machine: Machine, holder: str) -> bool:
    """Asked again: on a busy machine, the search ends before it has seen every process."""
    return eventually(lambda: holder in found(machine, "--only", "netns-busy")["netns-busy"]["next"])


@pytest.mark.parametrize("how", HOLDERS)
def test_who_holds_a_namespace_is_found_by(machine: Machine, holding: Hold, how: str) -> None:
    container = machine.node.container()
    machine.attach(container)
    process = holding(HOLDERS[how], f"/run/netns/{container}")
    machine.node.remove_container(container)
    assert is_named(machine, f"process {process} ")


def test_who_has_a_namespace_mounted_elsewhere_is_found(machine: Machine, tmp_path: Path) -> None:
    container = machine.node.container()
    machine.attach(container)
    place = tmp_path / "elsewhere"
    place.touch()
    subprocess.run(["mount", "--bind", f"/run/netns/{container}", place], check=True)
    try:
        machine.node.remove_container(container)
        assert is_named(machine, str(place))
    finally:
        subprocess.run(["umount", place], check=True)


# Where runtimes look.


def test_a_runtime_that_looks_elsewhere_is_named(machine: Machine, own_etc: Path) -> None:
    (own_etc / "containerd").mkdir()
    config = own_etc / "containerd" / "config.toml"
    config.write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n'
        'bin_dir = "/usr/lib/cni"\nconf_dir = "/etc/cni/net.d"\n'
    )
    listed = machine.run("doctor", "--json", "--only", "runtimes").document["findings"]
    assert [(it["code"], it["subject"]) for it in listed] == [("runtime-elsewhere", "containerd")] * 2
    config.write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n'
        f'bin_dir = "{machine.cli.plugins}"\nconf_dir = "{machine.cli.networks}"\n'
    )
    assert machine.run("doctor", "--json", "--only", "runtimes").document["findings"] == []


# What it mends.


def test_what_would_be_mended_is_said_and_not_done(machine: Machine) -> None:
    machine.plugin.unlink()
    document = machine.run("doctor", "--json", "--fix", "--dry-run").document
    (fix,) = document["fixed"]
    assert (fix["code"], fix["subject"], fix["done"]) == ("plugin-missing", str(machine.plugin), False)
    assert [it["code"] for it in document["findings"]] == ["plugin-missing"]
    assert not machine.plugin.exists()


def test_what_is_mended_is_said_and_gone(machine: Machine) -> None:
    machine.plugin.unlink()
    outcome = machine.run("doctor", "--json", "--fix")
    (fix,) = outcome.document["fixed"]
    assert (outcome.status, fix["done"], outcome.document["findings"]) == (0, True, [])
    assert os.access(machine.plugin, os.X_OK)
    machine.attach(machine.node.container())


def test_what_cannot_be_mended_is_said_with_the_reason(machine: Machine) -> None:
    machine.plugin.unlink()
    machine.plugin.mkdir()
    (machine.plugin / "inside").touch()
    outcome = machine.run("doctor", "--json", "--fix")
    assert (outcome.status, outcome.document["fixed"]) == (1, [])
    machine.cli.plugins.joinpath("netloom", "inside").unlink()
    machine.plugin.rmdir()


def test_what_an_agent_can_mend_is_mended_by_it_at_once(machine: Machine) -> None:
    """Long before it would by itself."""
    stale, lacking = machine.node.container(), machine.node.container()
    machine.end_agent()
    machine.node.start("--tick", "600")
    machine.attach(stale)
    machine.attach(lacking)
    machine.node.remove_container(stale)
    assert eventually(lambda: len(machine.node.links()) == 1)
    machine.node.in_container(lacking, "ip", "route", "del", "default")
    assert {"netns-stale", "object-missing"} <= found(machine).keys()
    document = machine.run("doctor", "--json", "--fix").document
    assert {it["code"] for it in document["fixed"] if it["done"]} == {"netns-stale", "object-missing"}
    assert document["findings"] == []


def test_an_element_whose_link_is_gone_is_removed_and_named(machine: Machine) -> None:
    machine.end_agent()
    machine.node.start("--tick", "600")
    element = '{ "loomstray" . 10.78.0.9 }'
    machine.node.inside("nft", "add", "element", "inet", "netloom", "sources4", element)
    listed = found(machine)["element-orphaned"]
    assert (listed["severity"], listed["subject"]) == ("error", "sources4 loomstray . 10.78.0.9")
    shown = machine.on_a_terminal("doctor", "--fix").stdout
    assert shown.startswith("fixed: sources4 loomstray . 10.78.0.9: ")
    assert found(machine) == {}


def test_what_is_found_afterwards_was_not_done() -> None:
    said = {"code": "sysctl-forwarding", "text": "it is set"}
    fixed = [Fix(**said, subject=it, done=True) for it in ("mended", "as before")]
    left = [Finding(code="sysctl-forwarding", text="it is 0", subject="as before", next="set it")]
    mended, other = judged(fixed, left)
    assert (mended.done, mended.error) == (True, "")
    assert (other.done, bool(other.error)) == (False, True)


def test_a_dry_run_of_nothing_is_an_error_of_usage(machine: Machine) -> None:
    assert machine.run("doctor", "--dry-run").status == 2


def test_it_needs_root(machine: Machine) -> None:
    prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    outcome = machine.run("doctor", "--json", prefix=prefix)
    assert (outcome.status, outcome.error["code"]) == (1, "needs-root")
