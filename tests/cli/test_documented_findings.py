"""What a command finds is what its pages say that it finds: on nodes on which much is wrong."""

from __future__ import annotations

import pytest

from tools.reference.finders import finders

from ..fixtures.machine import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]


def test_no_command_finds_what_its_pages_do_not_say(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    (listed,) = machine.listed()
    machine.run("down")
    machine.node.inside("nft", "delete", "table", "inet", "netloom")
    machine.node.inside("ip", "link", "del", listed["hostLink"])
    machine.plugin.unlink()
    (machine.cli.networks / "01-x.conflist").write_text("{bad")
    given = {}
    for words in (
        ("status",),
        ("doctor",),
        ("check",),
        ("inspect", container),
        ("explain", container),
        ("pools",),
    ):
        document = machine.run(*words, "--json").document
        parts = document if isinstance(document, list) else [document]
        given[words[0]] = {it["code"] for part in parts for it in part["findings"]}
    assert {(by, code) for by, codes in given.items() for code in codes if by not in finders(code)} == set()
    assert {"network-unloadable", "plugin-missing", "table-broken", "agent-not-running"} <= given["status"]
    assert "object-missing" in given["check"] & given["inspect"] & given["explain"] & given["doctor"]
