"""Every verb, recovery, GC and repair work for a mode that they have never heard of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from netloom.failpoints import VARIABLE
from netloom.networks.modes import mode_names

from ..fixtures.node import NETLOOM, Node, Outcome, eventually
from .second_mode import FAR_END, NAME, PRIORITY, WITH_MODE, registered

pytestmark = pytest.mark.kernel

POOL = {"cidr": "10.9.0.0/24"}
UNREADABLE = b"what a later version wrote"


@pytest.fixture
def far(node: Node) -> Iterator[Node]:
    """A node whose agent knows the second mode, as this process does meanwhile."""
    with registered():
        start(node)
        yield node


def start(node: Node, failpoint: str = "") -> None:
    node.start("--tick", "0.05", environment={VARIABLE: failpoint}, through=WITH_MODE)


def config(node: Node, name: str = "far", **keys: object) -> bytes:
    return node.config_with({"mode": NAME, "pools": [POOL], **keys}, name)


def attach(node: Node) -> tuple[str, Outcome]:
    container = node.container()
    return container, node.add(container, config(node))


def rules(node: Node) -> list[str]:
    listed = json.loads(node.inside("ip", "-j", "rule"))
    return [it["src"] for it in listed if it["priority"] == PRIORITY]


def is_clean(node: Node) -> bool:
    return node.links() == [] and rules(node) == [] and not node.ledger().places()


def audited(node: Node) -> list[str]:
    return [it.code for it in node.audit([POOL])]


def lose_plan(node: Node) -> None:
    """No agent runs."""
    with closing(sqlite3.connect(node.state_dir / "journal.db")) as journal, journal:
        journal.execute("UPDATE attachment SET plan = ?", (UNREADABLE,))


def test_an_attachment_is_made_checked_and_deleted_by_its_mode(far: Node) -> None:
    container, added = attach(far)
    (address,) = added.addresses

    assert added.document["ips"][0]["gateway"] == FAR_END
    assert far.ping(container, FAR_END)
    (row,) = far.ledger().attachments()
    assert (row.mode, row.address_scope) == (NAME, "far-end of far")
    assert far.ledger().addresses_of(row.id)[0][0] == row.address_scope
    assert rules(far) == [address]
    assert far.plugin("CHECK", container, config(far, prevResult=added.document)).status == 0
    assert audited(far) == []
    assert far.add(container, config(far)).output == added.output
    assert far.plugin("STATUS", "", config(far)).status == 0

    far.delete(container, config(far))

    assert is_clean(far)
    assert audited(far) == []


def test_check_finds_what_the_mode_planned_and_the_kernel_lacks(far: Node) -> None:
    container, added = attach(far)
    far.stop()
    far.inside("ip", "rule", "del", "priority", str(PRIORITY))

    far.start("--tick", "600", through=WITH_MODE)
    checked = far.plugin("CHECK", container, config(far, prevResult=added.document))

    assert checked.code == 103


@pytest.mark.parametrize("step", ["add.reserved", "add.applied"])
def test_an_add_that_kill_9_ended_is_undone_at_the_next_start(far: Node, step: str) -> None:
    far.stop()
    start(far, step)
    container = far.container()

    assert far.plugin("ADD", container, config(far)).status != 0
    far.wait()
    start(far)

    assert is_clean(far)
    assert far.add(container, config(far)).status == 0


def test_a_del_that_kill_9_ended_is_done_at_the_next_start(far: Node) -> None:
    container, _ = attach(far)
    far.stop()
    start(far, "del.marked")

    far.deleted(container, config(far))
    far.wait()
    start(far)

    assert is_clean(far)


def test_a_lost_plan_is_undone_by_the_mode_of_its_row(far: Node) -> None:
    container, _ = attach(far)
    far.kill()
    lose_plan(far)
    start(far)

    far.delete(container, config(far))

    assert is_clean(far)


def test_gc_removes_what_the_runtime_does_not_call_valid(far: Node) -> None:
    kept, _ = attach(far)
    attach(far)
    valid = [{"containerID": kept, "ifname": "eth0"}]

    collected = json.loads(config(far)) | {"cni.dev/valid-attachments": valid}
    assert far.plugin("GC", "", json.dumps(collected).encode()).status == 0

    assert [place.key.container_id for place in far.ledger().places()] == [kept]
    assert len(far.links()) == len(rules(far)) == 1


def test_what_an_attachment_loses_is_put_back(far: Node) -> None:
    container, added = attach(far)
    (address,) = added.addresses

    far.inside("ip", "route", "del", address)

    assert eventually(lambda: f"{address} dev" in far.inside("ip", "route"))
    assert far.ping(container, FAR_END)


def test_an_operator_repairs_what_was_changed(far: Node) -> None:
    container, _ = attach(far)
    far.inside("ip", "link", "set", far.link_of(container), "mtu", "1400")

    asked = (*WITH_MODE, str(NETLOOM), "check", container, "--repair")
    far.inside("env", *(f"{k}={v}" for k, v in far.environment().items() if k.startswith("NETLOOM_")), *asked)

    assert json.loads(far.inside("ip", "-j", "link", "show", far.link_of(container)))[0]["mtu"] == 1500


def test_another_mac_of_the_container_is_adopted_by_the_mode(far: Node) -> None:
    container, added = attach(far)
    (address,) = added.addresses

    far.in_container(container, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:77")

    assert eventually(lambda: "02:00:00:00:00:77" in far.inside("ip", "neigh", "show", address))
    assert eventually(lambda: audited(far) == [])


def test_the_node_has_what_the_mode_needs(far: Node) -> None:
    def has_far_end() -> bool:
        return FAR_END in far.inside("ip", "route", "show", "table", "local")

    assert has_far_end()
    far.inside("ip", "route", "del", "local", FAR_END, "table", "local")
    assert eventually(has_far_end)


def test_the_mode_judges_its_part_of_the_config(far: Node) -> None:
    refused = far.plugin("ADD", far.container(), far.config("far", mode=NAME))

    assert refused.code == 7
    assert "IPv4 addresses only" in refused.message


def test_del_removes_what_the_plan_says_though_the_mode_is_unknown(node: Node) -> None:
    start(node)
    container, _ = attach(node)
    node.stop()

    node.start()
    assert "mode-unknown" in audited(node)
    node.delete(container, config(node))

    assert is_clean(node)


def test_nothing_is_lost_if_neither_mode_nor_plan_is_known(node: Node) -> None:
    start(node)
    container, _ = attach(node)
    node.kill()
    lose_plan(node)

    node.start()
    refused = node.deleted(container, config(node))
    assert refused.code == 11
    assert NAME in refused.message
    assert {"mode-unknown", "plan-unreadable"} <= set(audited(node))
    assert len(node.links()) == len(rules(node)) == len(node.ledger().places()) == 1

    node.stop()
    with registered():
        start(node)
        node.delete(container, config(node))
        assert is_clean(node)


def test_an_agent_without_the_mode_refuses_its_networks(running: Node) -> None:
    assert NAME not in mode_names()
    refused = running.plugin("ADD", running.container(), config(running))

    assert refused.code == 7
    assert f'mode is "{NAME}"' in refused.message
