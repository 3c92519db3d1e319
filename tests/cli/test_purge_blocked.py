"""A purge goes on where something is in the way of one of its parts."""

from __future__ import annotations

import pytest

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


def test_a_file_in_place_of_the_directory_of_networks_keeps_nothing_else(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.cli.networks.rename(machine.cli.networks.with_name("saved"))
    machine.cli.networks.touch()
    outcome = machine.run("down", "--purge", "--yes", "--json")
    assert outcome.status == 0, outcome.stderr
    assert any(str(machine.cli.networks) in it for it in outcome.document["warnings"])
    assert machine.node.links() == []
    assert not machine.plugin.exists()
    assert not machine.journal.exists()


def test_a_version_that_common_runtimes_do_not_read_is_warned_of(machine: Machine) -> None:
    (warning,) = machine.brought_up("--cni-version", "1.1.0")["warnings"]
    assert "`netloom up --cni-version 1.0.0`" in warning
    assert machine.brought_up()["warnings"] == []
