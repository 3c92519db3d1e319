"""A network's file that somebody has renamed, to have it sort elsewhere: still the one that `up` keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


@pytest.fixture
def renamed(machine: Machine) -> Path:
    return machine.conflist.rename(machine.conflist.with_name("05-mine.conflist"))


def files(machine: Machine) -> list[str]:
    return sorted(it.name for it in machine.stage.networks.iterdir())


def test_up_keeps_it_where_it_is(machine: Machine, renamed: Path) -> None:
    network = machine.brought_up()["network"]
    assert (network["path"], network["change"]) == (str(renamed), "kept")
    assert files(machine) == [renamed.name]


def test_up_changes_it_there(machine: Machine, renamed: Path) -> None:
    network = machine.brought_up("--pool", "10.20.0.0/24")["network"]
    assert (network["path"], network["pools"]) == (str(renamed), ["10.20.0.0/24"])
    assert files(machine) == [renamed.name]


def test_what_was_changed_in_it_by_hand_stays(machine: Machine, renamed: Path) -> None:
    text = renamed.read_text().replace('"ipMasq": true', '"ipMasq": true, "mtu": 1400')
    renamed.write_text(text)
    assert machine.brought_up()["network"]["change"] == "kept"
    refused = machine.up("--pool", "10.20.0.0/24", "--json")
    assert (refused.status, json.loads(refused.stderr)["code"]) == (3, "network-file-foreign")
    assert (renamed.read_text(), files(machine)) == (text, [renamed.name])


def test_another_network_is_written_beside_it(machine: Machine, renamed: Path) -> None:
    network = machine.brought_up("--network", "other", "--pool", "10.20.0.0/24")["network"]
    assert network["path"] == str(machine.conflist)
    assert files(machine) == [renamed.name, machine.conflist.name]


def test_a_purge_takes_it_along(machine: Machine, renamed: Path) -> None:
    machine.brought_up()
    assert machine.run("down", "--purge", "--yes").status == 0
    assert not renamed.exists()
