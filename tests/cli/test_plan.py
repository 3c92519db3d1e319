"""`netloom plan` and `netloom doctor`: what people and scripts get."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.cli import Cli, Outcome

pytestmark = pytest.mark.kernel

VETH = {"type": "veth", "name": "nl0", "peer": "eth0", "mac": "02:00:00:00:00:01", "mtu": 1400}
ATTACHMENT: list[dict[str, Any]] = [
    VETH,
    {"type": "up", "link": "nl0"},
    {"type": "up", "link": "eth0", "on": "attachment"},
    {"type": "address", "link": "eth0", "address": "10.0.0.2/32", "on": "attachment"},
    {"type": "address", "link": "eth0", "address": "fd00::2/128", "on": "attachment"},
    {"type": "route", "destination": "10.0.0.2/32", "link": "nl0"},
]


class Machine:
    """The command on a host of its own: a namespace that the test made."""

    def __init__(self, cli: Cli, host: str, pod: str) -> None:
        self.cli, self.host, self.pod = cli, host, pod

    def plan(self, verb: str, objects: list[dict[str, Any]], *words: str) -> Outcome:
        path = self.cli.directory / "plan.json"
        path.write_text(json.dumps({"objects": objects}))
        as_json = () if verb == "remove" else ("--json",)
        return self.run("plan", verb, *as_json, str(path), "--netns", self.pod, *words)

    def run(self, *words: str, **options: Any) -> Outcome:
        return self.cli.run(*words, prefix=("ip", "netns", "exec", os.path.basename(self.host)), **options)

    def ip(self, *words: str) -> str:
        name = os.path.basename(self.host)
        return subprocess.run(["ip", "-n", name, *words], check=True, capture_output=True, text=True).stdout

    @property
    def links(self) -> set[str]:
        return {link["ifname"] for link in json.loads(self.ip("-json", "link"))}


@pytest.fixture
def machine(cli: Cli, new_netns: Callable[[], str]) -> Machine:
    return Machine(cli, new_netns(), new_netns())


def test_a_plan_is_applied_checked_and_removed(machine: Machine) -> None:
    applied = machine.plan("apply", ATTACHMENT)
    assert applied.status == 0
    assert [entry["change"] for entry in applied.document] == ["made"] * len(ATTACHMENT)
    assert machine.plan("check", ATTACHMENT) == Outcome(0, "[]\n", "")
    assert machine.plan("remove", ATTACHMENT) == Outcome(0, "", "")
    assert machine.links == {"lo"}


def test_applying_twice_keeps_what_is_there(machine: Machine) -> None:
    machine.plan("apply", ATTACHMENT)
    again = machine.plan("apply", ATTACHMENT)
    assert again.status == 0
    assert {entry["change"] for entry in again.document} == {"kept"}


def test_check_says_what_differs_as_data_and_by_its_status(machine: Machine) -> None:
    machine.plan("apply", ATTACHMENT)
    machine.ip("link", "set", "nl0", "mtu", "1300")
    checked = machine.plan("check", ATTACHMENT)
    assert checked.status == 1
    assert checked.document == [
        {"object": "veth nl0", "what": "different", "field": "mtu", "wanted": "1400", "found": "1300"}
    ]


def test_removing_twice_is_fine_and_needs_no_namespace(machine: Machine) -> None:
    machine.plan("apply", ATTACHMENT)
    path = str(machine.cli.directory / "plan.json")
    assert machine.run("plan", "remove", path) == Outcome(0, "", "")
    assert machine.run("plan", "remove", path) == Outcome(0, "", "")
    assert machine.links == {"lo"}


def test_something_else_with_our_name_is_a_conflict_and_is_left_alone(machine: Machine) -> None:
    machine.ip("link", "add", "nl0", "type", "bridge")
    before = machine.ip("-d", "link", "show", "nl0")
    for verb in ("apply", "remove"):
        outcome = machine.plan(verb, ATTACHMENT, "--json")
        assert outcome.status == 1
        assert [entry["field"] for entry in outcome.error["differences"]] == ["kind"]
    assert machine.ip("-d", "link", "show", "nl0") == before


def test_a_plan_that_fails_leaves_everything_as_it_was(machine: Machine) -> None:
    broken = [*ATTACHMENT, {"type": "address", "link": "nowhere", "address": "10.0.0.1/24"}]
    outcome = machine.plan("apply", broken)
    assert outcome.status == 1
    assert "nowhere" in outcome.error["error"]
    assert machine.links == {"lo"}


def test_a_plan_comes_from_standard_input(machine: Machine) -> None:
    plan = json.dumps({"objects": [{"type": "bridge", "name": "br0"}]})
    assert machine.run("plan", "apply", "-", stdin=plan).status == 0
    assert machine.links == {"lo", "br0"}


def test_a_namespace_may_be_given_by_its_name(machine: Machine) -> None:
    path = machine.cli.directory / "plan.json"
    path.write_text(json.dumps({"objects": ATTACHMENT}))
    name = os.path.basename(machine.pod)
    assert machine.run("plan", "apply", str(path), "--netns", name).status == 0


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", "not a plan"),
        ("[]", "not a plan"),
        ("{}", "objects"),
        ('{"objects": [{"type": "teapot"}]}', "teapot"),
        ('{"objects": [{"type": "bridge", "name": "br0", "nmae": 1}]}', "nmae"),
        ('{"objects": [{"type": "bridge", "name": "far too long for a link"}]}', "far too long"),
        ('{"objects": [{"type": "address", "link": "lo", "address": "10.0.0.300/8"}]}', "10.0.0.300"),
        ('{"version": 99, "objects": []}', "99"),
        ('{"objects": [{"type": "bridge", "name": "\\ud800"}]}', "not a plan"),
    ],
)
def test_a_plan_that_cannot_be_read_says_why_and_changes_nothing(
    machine: Machine, document: str, said: str
) -> None:
    outcome = machine.run("plan", "apply", "-", stdin=document)
    assert outcome.status == 3
    assert said in outcome.said["error"]
    assert outcome.said["next"]
    assert machine.links == {"lo"}


def test_a_file_that_is_not_there_is_named(machine: Machine) -> None:
    outcome = machine.run("plan", "check", "nosuch.json")
    assert outcome.status == 2
    assert "nosuch.json" in outcome.said["error"]


@pytest.mark.parametrize("kind", ["missing", "file", "fifo", "own"])
def test_a_namespace_that_cannot_be_used_is_refused_before_any_change(
    machine: Machine, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "netns"
    if kind == "file":
        path.touch()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "own":
        path = Path(machine.host)
    plan = machine.cli.directory / "plan.json"
    plan.write_text(json.dumps({"objects": ATTACHMENT}))
    outcome = machine.run("plan", "apply", str(plan), "--netns", str(path))
    assert outcome.status != 0
    assert outcome.said["error"]
    assert machine.links == {"lo"}


def test_a_feature_that_the_kernel_lacks_is_named_if_it_does(machine: Machine) -> None:
    found = {entry["feature"]: entry for entry in machine.run("doctor", "--json").document["features"]}
    outcome = machine.plan("apply", [{"type": "dummy", "name": "d0"}], "--json")
    if found["dummy"]["present"]:
        assert outcome.status == 0
    else:
        assert outcome.error["feature"] == "dummy"
        assert found["dummy"]["reason"]
        assert found["dummy"]["remedy"]


def test_doctor_agrees_with_what_the_kernel_does(machine: Machine) -> None:
    outcome = machine.run("doctor", "--json", "--only", "features")
    found = {entry["feature"]: entry["present"] for entry in outcome.document["features"]}
    for kind in ("bridge", "vrf", "dummy", "wireguard", "ifb"):
        words = ["ip", "-n", os.path.basename(machine.pod), "link", "add", "probe", "type", kind]
        made = subprocess.run([*words, *(["table", "7"] if kind == "vrf" else [])], capture_output=True)
        assert found[kind] == (made.returncode == 0), kind
        if made.returncode == 0:
            subprocess.run(["ip", "-n", os.path.basename(machine.pod), "link", "del", "probe"], check=True)
    assert machine.links == {"lo"}


def test_on_a_terminal_changes_and_differences_are_words(cli: Cli, new_netns: Callable[[], str]) -> None:
    path = cli.directory / "plan.json"
    path.write_text(json.dumps({"objects": [{"type": "bridge", "name": "nlshown0", "on": "attachment"}]}))
    netns = new_netns()
    applied = cli.on_a_terminal("plan", "apply", str(path), "--netns", netns)
    subprocess.run(["ip", "-n", os.path.basename(netns), "link", "del", "nlshown0"], check=True)
    checked = cli.on_a_terminal("plan", "check", str(path), "--netns", netns)
    assert applied == Outcome(0, "made  bridge nlshown0 (attachment)\n", "")
    assert checked == Outcome(1, "bridge nlshown0 (attachment): missing\n", "")
