"""A file that cannot be loaded, and comes first: containerd has no network at all, and everybody says so."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

CODE = "network-unloadable"
LOOPBACK = json.dumps({"cniVersion": "1.0.0", "name": "lo", "type": "loopback"})
OTHER = json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "bridge"}]})


def nowhere(path: Path) -> None:
    path.symlink_to("/nowhere")


def directory(path: Path) -> None:
    path.symlink_to(path.parent.parent)


BAD: dict[str, Callable[[Path], object]] = {
    "cut off": lambda it: it.write_text("{bad"),
    "empty": lambda it: it.write_text(""),
    "no object": lambda it: it.write_text("[]"),
    "no name": lambda it: it.write_text("{}"),
    "no plugins": lambda it: it.write_text('{"cniVersion": "1.0.0", "name": "x"}'),
    "a plugin without a type": lambda it: it.write_text('{"name": "x", "plugins": [{}]}'),
    "a link that leads nowhere": nowhere,
    "a link to a directory": directory,
    "a FIFO": lambda it: os.mkfifo(it),
}


def findings(machine: Machine, *words: str) -> list[Any]:
    found: list[Any] = machine.run(*words, "--json").document["findings"]
    return [it for it in found if it["code"] == CODE]


@pytest.mark.parametrize("kind", BAD)
def test_a_first_file_that_cannot_be_loaded_is_an_error(machine: Machine, kind: str) -> None:
    path = machine.cli.networks / "01-x.conflist"
    BAD[kind](path)
    for words in (("status",), ("doctor", "--only", "networks"), ("doctor", "--only", CODE)):
        (finding,) = findings(machine, *words)
        assert (finding["subject"], finding["severity"]) == (str(path), "error")
        assert finding["text"].startswith(
            f"{path} is the first file of {path.parent}, and cannot be loaded: "
        )
        assert machine.run(*words).status == 1
    assert "no problems found" not in machine.run("status").stdout


def test_what_is_advised_helps(machine: Machine) -> None:
    path = machine.cli.networks / "01-it's bad.conflist"
    path.write_text("{bad")
    (finding,) = findings(machine, "status")
    command = finding["next"].partition("`")[2].partition("`")[0]
    machine.node.inside(*shlex.split(command))
    assert not path.exists()
    assert (machine.run("status").status, findings(machine, "doctor", "--only", "networks")) == (0, [])


def test_what_is_advised_overwrites_nothing(machine: Machine) -> None:
    path = machine.cli.networks / "01-x.conflist"
    path.write_text("{bad")
    kept = path.with_name("01-x.conflist.off")
    kept.write_text("precious")
    (finding,) = findings(machine, "status")
    assert f"`mv {path} {path}.off1`" in finding["next"]


def test_two_files_of_one_network_are_told_of(machine: Machine) -> None:
    other = machine.cli.networks / "20-copy.conflist"
    other.write_bytes(machine.conflist.read_bytes())
    for words in (("status",), ("doctor", "--only", "networks")):
        outcome = machine.run(*words, "--json")
        (finding,) = [it for it in outcome.document["findings"] if it["code"] == "network-twice"]
        assert (finding["subject"], outcome.status) == ("netloom", 0)


def test_a_single_plugins_file_is_judged_as_one(machine: Machine) -> None:
    path = machine.cli.networks / "01-x.conf"
    path.write_text('{"cniVersion": "1.0.0", "name": "x", "type": "bridge"}')
    assert findings(machine, "status") == []
    path.write_text(OTHER)
    (finding,) = findings(machine, "status")
    assert "missing 'type'" in finding["text"]


def test_a_directory_is_passed_over_as_runtimes_do(machine: Machine) -> None:
    (machine.cli.networks / "01-x.conflist").mkdir()
    assert (machine.run("status").status, findings(machine, "doctor", "--only", "networks")) == (0, [])


def test_a_file_behind_the_first_is_a_warning_of_doctor(machine: Machine) -> None:
    path = machine.cli.networks / "20-x.conflist"
    path.write_text("{bad")
    assert (machine.run("status").status, findings(machine, "status")) == (0, [])
    (finding,) = findings(machine, "doctor", "--only", "networks")
    assert (finding["subject"], finding["severity"]) == (str(path), "warning")
    assert machine.run("doctor", "--only", "networks").status == 0


def test_behind_another_network_it_keeps_nobody_from_anything(machine: Machine) -> None:
    (machine.cli.networks / "01-other.conflist").write_text(OTHER)
    (machine.cli.networks / "02-x.conflist").write_text("{bad")
    assert findings(machine, "status") == []
    found = machine.run("doctor", "--json", "--only", "networks").document["findings"]
    assert [it["code"] for it in found] == [CODE, "network-shadowed"]


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_another_network_that_comes_first_is_told_of_once_and_fails_nothing(
    machine: Machine, command: str
) -> None:
    path = machine.cli.networks / "01-other.conflist"
    path.write_text(OTHER)
    outcome = machine.run(command, "--json")
    told = [it for it in outcome.document["findings"] if it["code"] == "network-shadowed"]
    assert [(it["subject"], it["severity"]) for it in told] == [(str(path), "warning")]
    assert f"`mv {path} {path}.off`" in told[0]["next"]
    assert outcome.status == 0
    assert "no problems found" not in machine.run(command).stdout


def test_loopback_alone_is_nobodys_network_but_where_it_comes_first(machine: Machine) -> None:
    """containerd would take it for the pods' network."""
    last, first = (machine.cli.networks / name for name in ("99-loopback.conf", "01-loopback.conf"))
    last.write_text(LOOPBACK)
    assert machine.run("doctor", "--json", "--only", "networks").document["findings"] == []
    last.rename(first)
    found = machine.run("doctor", "--json", "--only", "networks").document["findings"]
    assert [(it["code"], it["subject"]) for it in found] == [("network-shadowed", str(first))]


def test_a_file_that_was_to_be_ours_is_told_of_once(machine: Machine) -> None:
    machine.conflist.write_text("{bad")
    found = machine.run("status", "--json").document["findings"]
    assert [it["code"] for it in found] == ["network-broken"]


def test_doctor_tells_it_once(machine: Machine) -> None:
    (machine.cli.networks / "01-x.conflist").write_text("{bad")
    assert len(findings(machine, "doctor")) == 1


def test_up_says_what_will_happen(machine: Machine) -> None:
    path = machine.cli.networks / "01-x.conflist"
    path.write_text("{bad")
    (warning,) = [it for it in machine.brought_up()["warnings"] if str(path) in it]
    assert "has no network and starts no pods" in warning
    assert f"`mv {path} {path}.off`" in warning
    path.write_text(OTHER)
    (warning,) = [it for it in machine.brought_up()["warnings"] if str(path) in it]
    assert "uses that one" in warning


def test_explain_says_it_too(machine: Machine) -> None:
    path = machine.cli.networks / "01-x.conflist"
    path.write_text("{bad")
    codes = [it["code"] for it in machine.run("explain", "web", "--json").document["findings"]]
    assert CODE in codes
    assert "network-shadowed" not in codes
