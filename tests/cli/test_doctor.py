"""`netloom doctor`: whether journal and kernel agree."""

from __future__ import annotations

import pytest

from netloom.kernel.objects.link import GROUP

from .machine import Machine

pytestmark = pytest.mark.kernel


def test_without_a_journal_only_the_kernel_is_looked_at(bare: Machine) -> None:
    outcome = bare.run("doctor")
    assert outcome.status == 0
    assert outcome.document["audit"] is None
    assert outcome.document["features"]


def test_a_sound_node_has_no_findings(machine: Machine) -> None:
    machine.attach(machine.node.container())
    outcome = machine.run("doctor")
    assert outcome.status == 0
    assert outcome.document["audit"] == []
    assert "journal and kernel agree" in machine.on_a_terminal("doctor").stdout


def test_what_is_lost_while_no_agent_runs_is_found(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    machine.node.inside("ip", "route", "del", "10.78.0.1")
    outcome = machine.run("doctor")
    assert outcome.status == 1
    (finding,) = outcome.document["audit"]
    assert finding["what"] == "drift"
    assert "route 10.78.0.1/32: missing" in finding["text"]
    shown = machine.on_a_terminal("doctor")
    assert shown.status == 1
    assert "route 10.78.0.1/32: missing" in shown.stdout


def test_what_an_agent_repairs_is_sound_again(machine: Machine) -> None:
    machine.attach(machine.node.container())
    machine.run("down")
    machine.node.inside("ip", "route", "del", "10.78.0.1")
    machine.brought_up()
    machine.node.inside("ip", "route", "del", "fd78::1")  # which tells it to look
    while machine.node.audit():
        assert machine.agent is not None
    assert machine.run("doctor").status == 0


def found(machine: Machine) -> dict[str, str]:
    return {it["what"]: it["next"] for it in machine.run("doctor").document["audit"]}


def test_a_link_of_no_attachment_is_to_be_deleted_by_hand(machine: Machine) -> None:
    machine.node.inside("ip", "link", "add", "loomstray", "group", str(GROUP), "type", "bridge")
    advice = found(machine)["link"]
    assert "`ip link del loomstray`" in advice
    assert advice in machine.on_a_terminal("doctor").stdout


def test_what_somebody_has_changed_is_not_said_to_be_repaired(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    machine.run("down")
    machine.node.in_container(container, "ip", "link", "set", "eth0", "mtu", "1300")
    advice = found(machine)["drift"]
    assert "leaves it so" in advice
    assert "`netloom cni del`" in advice


def test_the_audit_comes_first_and_what_nothing_needs_takes_one_line(machine: Machine) -> None:
    features = machine.run("doctor").document["features"]
    lacking = [it["feature"] for it in features if not it["present"]]
    lines = machine.on_a_terminal("doctor").stdout.splitlines()
    assert lines[0] == "journal and kernel agree"
    assert "  next:" not in "\n".join(lines)
    assert not lacking or ", ".join(lacking) in lines[-1]
