"""What is in the way of a plugin: `up` does the rest and says so, and a purge forgets nothing that stays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import PLUGIN

# What runtimes of this machine are told is no matter here.
pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

PURGE = ("down", "--purge", "--yes")


@pytest.fixture
def second(machine: Machine) -> Path:
    """The plugin at a second place."""
    directory = machine.cli.directory / "usr" / "cni"
    assert machine.run("up", "--plugin-dir", str(directory)).status == 0
    return directory / "netloom"


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", directory], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def make_directory_of(path: Path) -> None:
    path.unlink()
    path.mkdir()


def receipt(machine: Machine) -> Path:
    return machine.node.state_dir / "installed.json"


# Places that cannot be written.


@pytest.mark.parametrize("bad", ["first", "second"])
def test_a_place_that_cannot_be_written_keeps_neither_the_others_nor_the_agent_from_going_on(
    machine: Machine, second: Path, bad: str
) -> None:
    broken, other = (machine.plugin, second) if bad == "first" else (second, machine.plugin)
    machine.run("down")
    make_directory_of(broken)
    other.write_text("stale")
    outcome = machine.run("up", "--json")
    assert outcome.status == 1
    assert machine.agent is not None
    assert other.read_bytes() == PLUGIN.read_bytes()
    done = outcome.document
    changes = {it["path"]: it["change"] for it in (done["plugin"], *done["elsewhere"])}
    assert changes == {str(broken): "failed", str(other): "replaced"}
    (failed,) = done["failed"]
    assert (failed["path"], "Is a directory" in failed["error"]) == (str(broken), True)
    assert str(receipt(machine)) in failed["next"]
    # What the advice says helps.
    shutil.rmtree(broken.parent)
    assert machine.run("up").status == 0


def test_a_read_only_place_is_a_failure_of_that_place_alone(machine: Machine, second: Path) -> None:
    second.write_text("stale")
    machine.run("down")
    with read_only(second.parent):
        outcome = machine.run("up")
    assert (outcome.status, machine.agent is not None) == (1, True)
    assert f"error: cannot write {second.parent}" in outcome.stderr
    assert "Read-only file system" in outcome.stderr
    assert ["plugin", "failed", str(second)] in [line.split() for line in outcome.stdout.splitlines()]
    assert "nothing to do" not in outcome.stdout


def test_the_agent_starts_also_if_the_only_place_cannot_be_written(machine: Machine) -> None:
    machine.run("down")
    make_directory_of(machine.plugin)
    outcome = machine.run("up", "--json")
    assert (outcome.status, machine.agent is not None) == (1, True)
    assert outcome.document["plugin"] == {"change": "failed", "path": str(machine.plugin)}


def test_the_place_that_is_asked_for_fails_first(machine: Machine, second: Path) -> None:
    machine.run("down")
    make_directory_of(second)
    outcome = machine.run("up", "--plugin-dir", str(second.parent))
    assert (outcome.status, machine.agent) == (1, None)
    assert "Is a directory" in outcome.said["error"]


def test_a_file_in_the_place_of_a_directory_is_called_one(machine: Machine, second: Path) -> None:
    shutil.rmtree(second.parent)
    second.parent.touch()
    (warning,) = machine.run("up", "--json").document["warnings"]
    assert f"{second.parent} is a file, not a directory" in warning
    assert "is missing" not in warning


# Somebody else's file in the plugin's place.


def test_somebody_elses_file_is_replaced_with_force_only(bare: Machine) -> None:
    theirs = b"#!/bin/sh\nexit 0\n"
    bare.cli.plugins.mkdir(exist_ok=True)
    bare.plugin.write_bytes(theirs)
    outcome = bare.up("--json")
    assert (outcome.status, outcome.error["code"]) == (3, "plugin-foreign")
    assert (bare.plugin.read_bytes(), bare.node.state_dir.exists()) == (theirs, False)
    assert bare.up("--force").status == 0
    assert bare.plugin.read_bytes() == PLUGIN.read_bytes()


def test_a_plugin_of_another_version_and_a_link_are_replaced_without_a_question(bare: Machine) -> None:
    bare.cli.plugins.mkdir(exist_ok=True)
    bare.plugin.write_bytes(PLUGIN.read_bytes() + b"\0")
    assert bare.brought_up()["plugin"]["change"] == "replaced"
    target, directory = bare.cli.directory / "theirs", bare.cli.directory / "linked"
    target.write_text("theirs")
    directory.mkdir()
    (directory / "netloom").symlink_to(target)
    assert bare.run("up", "--plugin-dir", str(directory)).status == 0
    assert (target.read_text(), (directory / "netloom").is_symlink()) == ("theirs", False)


# Paths that are hard to write down.


@pytest.mark.parametrize("option", ["--plugin-dir", "--conf-dir"])
def test_a_path_that_is_no_text_is_refused_before_anything_is_done(bare: Machine, option: str) -> None:
    directory = os.fsdecode(os.fsencode(bare.cli.directory) + b"/\xff")
    outcome = bare.run("up", option, directory)
    assert outcome.status == 2
    assert "not UTF-8" in outcome.stderr
    assert not os.path.exists(directory)
    assert not bare.node.state_dir.exists()


def test_a_path_with_line_breaks_takes_one_line(machine: Machine) -> None:
    directory = machine.cli.directory / "a\nplugin   forged\x1b[2J"
    done = machine.run("up", "--plugin-dir", str(directory))
    assert (done.status, len(done.stdout.splitlines())) == (0, 4)
    removed = machine.run(*PURGE)
    assert removed.status == 0
    assert "a\\nplugin   forged\\x1b[2J/netloom" in removed.stdout
    assert "\x1b" not in done.stdout + removed.stdout


# What a purge could not remove, or does not.


def test_a_purge_that_cannot_remove_a_plugin_fails_and_can_be_repeated(
    machine: Machine, second: Path
) -> None:
    with read_only(second.parent):
        for _ in range(2):
            outcome = machine.run(*PURGE, "--json")
            assert (outcome.status, outcome.document["kept"]) == (1, [])
            assert outcome.document["failed"] == [{"what": str(second), "why": "Read-only file system"}]
            assert receipt(machine).exists()
    assert machine.run(*PURGE).status == 0
    assert not second.exists()
    assert not machine.node.state_dir.exists()


@pytest.mark.parametrize("change", ["changed", "directory"])
def test_every_purge_names_a_plugin_that_is_not_ours_any_more(machine: Machine, change: str) -> None:
    if change == "changed":
        machine.plugin.write_text("theirs")
    else:
        make_directory_of(machine.plugin)
    for _ in range(3):
        outcome = machine.run(*PURGE, "--json")
        assert (outcome.status, outcome.document["failed"]) == (0, [])
        assert [it["what"] for it in outcome.document["kept"]] == [str(machine.plugin)]
    if change == "changed":
        # It is nobody's to look after, either.
        assert machine.up().status == 3
        machine.plugin.unlink()
    else:
        machine.plugin.rmdir()
    assert machine.run(*PURGE).status == 0
    assert not machine.node.state_dir.exists()


# A receipt that is damaged.


def test_up_warns_of_a_receipt_that_cannot_be_read_and_writes_a_new_one(machine: Machine) -> None:
    receipt(machine).write_text("{")
    (warning,) = machine.brought_up()["warnings"]
    assert f"{receipt(machine)} is damaged" in warning
    assert set(json.loads(receipt(machine).read_text())["files"]) == {
        str(machine.plugin),
        str(machine.conflist),
    }
    assert machine.brought_up()["warnings"] == []


@pytest.mark.parametrize("content", ["{", "{}", '{"files": {}}'])
def test_a_purge_without_a_receipt_removes_what_is_to_the_letter_ours(
    machine: Machine, second: Path, own_etc: Path, content: str
) -> None:
    (own_etc / "containerd").mkdir()
    (own_etc / "containerd" / "config.toml").write_text(
        f'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "{second.parent}"\n'
    )
    receipt(machine).write_text(content)
    outcome = machine.run(*PURGE, "--json")
    assert outcome.status == 0
    assert {str(machine.plugin), str(second), str(machine.conflist)} <= set(outcome.document["removed"])
    assert len(outcome.document["warnings"]) == (content == "{")
    assert not machine.plugin.exists()
    assert not second.exists()


def test_a_purge_without_a_receipt_names_a_plugin_of_another_version(machine: Machine) -> None:
    machine.plugin.write_bytes(PLUGIN.read_bytes() + b"\0")
    receipt(machine).write_text("{}")
    (kept,) = machine.run(*PURGE, "--json").document["kept"]
    assert kept["what"] == str(machine.plugin)


@pytest.mark.parametrize("command", [PURGE, ("up",)], ids=["purge", "up"])
def test_a_directory_in_the_place_of_the_receipt_is_told_before_anything_is_done(
    machine: Machine, command: tuple[str, ...]
) -> None:
    process = machine.agent
    make_directory_of(receipt(machine))
    outcome = machine.run(*command, "--json")
    assert (outcome.status, outcome.error["code"]) == (1, "receipt-unreadable")
    assert machine.agent == process
    assert machine.journal.exists()
    assert machine.conflist.exists()
