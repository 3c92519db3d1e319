"""A plugin that is gone: `netloom status` sees it, and who is cut off by it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


def findings(machine: Machine, *words: str) -> list[Any]:
    found: list[Any] = machine.run(*words, "--json").document["findings"]
    return [it for it in found if it["code"] == "plugin-missing"]


@pytest.fixture
def second(machine: Machine) -> Path:
    """Another place, at which it is installed, too."""
    path = machine.cli.directory / "second" / "netloom"
    assert machine.run("up", "--plugin-dir", str(path.parent)).status == 0
    return path


def told_to_look(etc: Path, directory: Path) -> None:
    """containerd, as a file of its own says it."""
    (etc / "containerd").mkdir()
    (etc / "containerd" / "config.toml").write_text(
        f'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "{directory}"\n'
    )


def test_status_sees_that_it_is_gone(machine: Machine) -> None:
    machine.plugin.unlink()
    outcome = machine.run("status")
    assert outcome.status == 1
    assert "no problems found" not in outcome.stdout
    (finding,) = findings(machine, "status")
    assert (finding["subject"], finding["severity"]) == (str(machine.plugin), "error")
    assert "every ADD and DEL of a netloom network fails" in finding["text"]
    assert machine.up().status == 0
    assert machine.run("status").status == 0


def test_status_sees_that_something_else_is_in_its_place(machine: Machine) -> None:
    machine.plugin.unlink()
    machine.plugin.mkdir()
    (finding,) = findings(machine, "status")
    assert (finding["text"], finding["fix"]) == (
        f"{machine.plugin} is not a plugin: something else is in its place",
        "",
    )


def test_where_no_network_of_netloom_is_nobody_needs_it(machine: Machine) -> None:
    machine.plugin.unlink()
    machine.conflist.unlink()
    assert findings(machine, "status") == []


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_of_two_the_other_one_works_and_that_is_said(machine: Machine, second: Path, command: str) -> None:
    second.unlink()
    (finding,) = findings(machine, command)
    assert finding["subject"] == str(second)
    assert "every ADD and DEL" not in finding["text"]
    assert finding["text"].endswith(f"(the plugin in {machine.plugin.parent} exists)")
    machine.attach(machine.node.container())


def test_who_looks_there_is_named(machine: Machine, second: Path, own_etc: Path) -> None:
    told_to_look(own_etc, second.parent)
    second.unlink()
    (finding,) = findings(machine, "doctor", "--only", "plugin")
    assert ": containerd uses this directory, so every ADD and DEL" in finding["text"]


def test_who_looks_at_the_other_place_is_not(machine: Machine, second: Path, own_etc: Path) -> None:
    told_to_look(own_etc, machine.plugin.parent)
    second.unlink()
    (finding,) = findings(machine, "doctor", "--only", "plugin")
    assert "containerd" not in finding["text"]


def test_doctor_still_mends_what_status_has_found_first(machine: Machine) -> None:
    machine.plugin.unlink()
    done = machine.run("doctor", "--fix", "--json", "--only", "node").document
    assert [(it["code"], it["done"]) for it in done["fixed"]] == [("plugin-missing", True)]
    assert findings(machine, "status") == []


@pytest.mark.parametrize("verb", ["add", "del"])
def test_a_verb_sends_to_up_when_none_is_there(machine: Machine, verb: str) -> None:
    container = machine.node.container()
    machine.plugin.unlink()
    outcome = machine.cni(verb, container, "--json")
    assert (outcome.status, outcome.error["next"]) == (
        3,
        f"`netloom up` installs netloom's plugin in {machine.plugin.parent}",
    )
    assert machine.run("up").status == 0
    assert machine.cni(verb, container).status == 0


def test_a_verb_that_searches_elsewhere_is_told_where_it_is(machine: Machine) -> None:
    outcome = machine.cni("add", machine.node.container(), "--json", CNI_PATH="/nowhere")
    assert outcome.error["next"] == f"set CNI_PATH to {machine.plugin.parent}, where netloom's plugin is"


def test_a_verb_that_searches_elsewhere_where_none_is_gets_both(machine: Machine) -> None:
    machine.plugin.unlink()
    outcome = machine.cni("add", machine.node.container(), "--json", CNI_PATH="/nowhere")
    assert outcome.error["next"].endswith(f"; then set CNI_PATH to {machine.plugin.parent}")


def test_a_receipt_that_is_a_link_to_nowhere_is_unreadable(machine: Machine) -> None:
    receipt = machine.node.state_dir / "installed.json"
    kept = receipt.rename(machine.cli.directory / "kept")
    receipt.symlink_to("/nowhere")
    done = machine.run("doctor", "--fix", "--json").document
    assert [it["code"] for it in done["findings"]] == ["receipt-unreadable"]
    assert (done["fixed"], receipt.is_symlink()) == ([], True)
    refused = machine.run("up", "--json")
    assert (refused.status, refused.error["code"]) == (1, "receipt-unreadable")
    kept.rename(receipt)
    assert findings(machine, "doctor") == []


@pytest.mark.parametrize(
    ("change", "code"), [("#!/bin/sh\n", "plugin-differs"), ("", "plugin-not-executable")]
)
def test_a_plugin_that_runtimes_cannot_run_is_named_by_status(
    machine: Machine, change: str, code: str
) -> None:
    """Every ADD fails then, whatever the agent could do."""
    plugin = machine.cli.plugins / "netloom"
    if change:
        plugin.write_text(change)
    else:
        plugin.chmod(0o644)
    outcome = machine.run("status", "--json")
    assert outcome.status == 1
    assert code in {it["code"] for it in outcome.document["findings"]}
    found = [it for it in machine.run("doctor", "--json").document["findings"] if it["code"] == code]
    assert len(found) == 1
    assert machine.up().status == 0
    assert machine.run("status").status == 0
