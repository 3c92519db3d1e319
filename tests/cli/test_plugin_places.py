"""`netloom up` looks after every plugin that it ever installed, wherever a runtime looks for one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ..fixtures.machine import Machine
from ..fixtures.node import PLUGIN

# What runtimes of this machine are told is no matter here.
pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


@pytest.fixture
def second(machine: Machine) -> Path:
    """The plugin at a second place, as for a containerd that looks elsewhere."""
    directory = machine.cli.directory / "usr" / "cni"
    assert machine.run("up", "--plugin-dir", str(directory)).status == 0
    return directory / "netloom"


def outdate(*plugins: Path) -> None:
    for path in plugins:
        path.write_bytes(b"#!/bin/sh\nexit 1\n")


def test_a_plain_up_upgrades_every_plugin_that_was_ever_installed(machine: Machine, second: Path) -> None:
    outdate(machine.plugin, second)
    before = os.stat(second).st_ino
    done = machine.run("up", "--json").document
    assert (done["plugin"], done["elsewhere"]) == (
        {"change": "replaced", "path": str(machine.plugin)},
        [{"change": "replaced", "path": str(second)}],
    )
    assert machine.plugin.read_bytes() == second.read_bytes() == PLUGIN.read_bytes()
    assert os.access(second, os.X_OK)
    # By a rename: a plugin that runs is not in the way.
    assert os.stat(second).st_ino != before
    assert machine.attach(machine.node.container())["ips"]


def test_a_plain_up_has_something_to_do_if_only_the_second_plugin_is_old(
    machine: Machine, second: Path
) -> None:
    outdate(second)
    lines = machine.on_a_terminal("up").stdout.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["plugin", "kept", str(machine.plugin)],
        ["plugin", "replaced", str(second)],
    ]
    assert "nothing to do: everything is up to date" not in lines
    assert "nothing to do: everything is up to date" in machine.on_a_terminal("up").stdout


def test_a_plugin_that_somebody_removed_is_installed_again(machine: Machine, second: Path) -> None:
    second.unlink()
    assert machine.run("up", "--json").document["elsewhere"] == [{"change": "installed", "path": str(second)}]


def test_a_place_that_is_asked_for_comes_first_and_the_others_are_looked_after(
    machine: Machine, second: Path
) -> None:
    outdate(machine.plugin)
    done = machine.run("up", "--json", "--plugin-dir", str(second.parent)).document
    assert done["plugin"] == {"change": "kept", "path": str(second)}
    assert done["elsewhere"] == [{"change": "replaced", "path": str(machine.plugin)}]


def test_a_plain_up_adds_no_place_to_those_that_were_asked_for(machine: Machine) -> None:
    done = machine.run("up", "--json").document
    assert (done["plugin"]["path"], done["elsewhere"]) == (str(machine.plugin), [])


def test_a_directory_that_is_gone_is_forgotten_with_a_word(machine: Machine, second: Path) -> None:
    shutil.rmtree(second.parent.parent)
    shown = machine.on_a_terminal("up")
    assert f"{second.parent} is missing" in shown.stderr
    assert "nothing to do" not in shown.stdout
    assert not second.parent.exists()
    again = machine.run("up", "--json").document
    assert (again["elsewhere"], again["warnings"]) == ([], [])
    # Whoever makes it anew has made it for themselves.
    second.parent.mkdir(parents=True)
    assert machine.run("down", "--purge", "--yes").status == 0
    assert second.parent.is_dir()


def test_a_purge_removes_the_plugin_wherever_it_is(machine: Machine, second: Path) -> None:
    removed = machine.run("down", "--purge", "--yes", "--json").document["removed"]
    assert {str(machine.plugin), str(second), str(second.parent)} <= set(removed)
    assert not second.parent.parent.exists()


def test_a_runtime_that_was_given_its_plugin_is_not_warned_of_any_more(
    machine: Machine, own_etc: Path
) -> None:
    directory = machine.cli.directory / "usr" / "cni"
    (own_etc / "containerd").mkdir()
    (own_etc / "containerd" / "config.toml").write_text(
        f'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "{directory}"\n'
        f'conf_dir = "{machine.cli.networks}"\n'
    )
    (warning,) = machine.run("up", "--json").document["warnings"]
    assert f"`netloom up --plugin-dir {directory}`" in warning
    assert machine.run("up", "--json", "--plugin-dir", str(directory)).document["warnings"] == []
    assert machine.run("up", "--json").document["warnings"] == []
    # Also if the last word was of another place.
    assert machine.brought_up()["warnings"] == []
