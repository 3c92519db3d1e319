"""A network's file that somebody has renamed, to have it sort elsewhere: still the one that `up` keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


@pytest.fixture
def renamed(machine: Machine) -> Path:
    return machine.conflist.rename(machine.conflist.with_name("05-mine.conflist"))


def files(machine: Machine) -> list[str]:
    return sorted(it.name for it in machine.cli.networks.iterdir())


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


def test_its_network_is_not_renamed_by_the_way(machine: Machine, renamed: Path) -> None:
    refused = machine.up("--network", "other", "--json")
    assert (refused.status, json.loads(refused.stderr)["code"]) == (3, "network-renamed")
    assert files(machine) == [renamed.name]
    network = machine.brought_up("--network", "other", "--force")["network"]
    assert (network["path"], network["name"]) == (str(renamed), "other")
    assert files(machine) == [renamed.name]


def test_a_network_of_any_name_is_found(bare: Machine) -> None:
    bare.brought_up("--network", "mine")
    renamed = bare.conflist.rename(bare.conflist.with_name("05-mine.conflist"))
    assert bare.brought_up()["network"]["name"] == "mine"
    assert files(bare) == [renamed.name]


def test_a_network_by_hand_is_none_that_up_keeps(bare: Machine) -> None:
    theirs = bare.cli.networks / "05-mine.conflist"
    theirs.write_text(
        '{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"netloom","pools":[{"cidr":"10.6.0.0/24"}]}]}'
    )
    assert bare.brought_up()["network"]["path"] == str(bare.conflist)
    assert files(bare) == [theirs.name, bare.conflist.name]


@pytest.mark.parametrize("again", [True, False], ids=["after another up", "at once"])
def test_a_purge_takes_it_along(machine: Machine, renamed: Path, again: bool) -> None:
    if again:
        machine.brought_up()
    outcome = machine.run("down", "--purge", "--yes", "--json")
    assert (outcome.status, outcome.document["kept"], outcome.document["warnings"]) == (0, [], [])
    assert not renamed.exists()
