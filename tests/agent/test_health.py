"""`/livez` and `/readyz`: true when they say so, and what they find has a code that a program can read."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.api.catalogue import ENTRIES

from ..fixtures.faults import BreakableDisk, SmallDisk, small_disk
from ..fixtures.hanging import HangingSystem
from ..fixtures.node import Node, eventually
from ..fixtures.pages import PORT, ask, conf_dir, is_there

pytestmark = pytest.mark.kernel

TINY = ({"cidr": "10.77.0.0/30"},)


@pytest.fixture
def watched(node: Node) -> Node:
    node.start("--tick", "0.1", "--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node))
    return node


@pytest.fixture
def full(node: Node) -> Iterator[SmallDisk]:
    with small_disk(node) as mounted:
        node.start("--tick", "0.1", "--conf-dir", str(conf_dir(node, node.config())))
        assert eventually(lambda: is_there(node))
        yield mounted


def stuck_parts(node: Node) -> list[str]:
    return [it["subject"] for it in ask(node, "/livez").document["findings"]]


def test_a_node_that_is_well_is_alive_and_ready(watched: Node) -> None:
    alive, ready = ask(watched, "/livez"), ask(watched, "/readyz")
    assert (alive.status, alive.document) == (200, {"alive": True, "findings": []})
    assert (ready.status, ready.document) == (200, {"ready": True, "findings": []})
    assert ready.content_type == "application/json"


def test_every_finding_is_in_the_catalogue_and_says_what_to_do(watched: Node) -> None:
    (watched.directory / "net.d" / "00-net.conf").write_bytes(watched.config(mtu="x"))
    (finding,) = ask(watched, "/readyz").document["findings"]
    assert finding["code"] in ENTRIES
    assert finding["next"]
    assert finding["subject"].endswith("00-net.conf")


def test_without_a_network_it_is_alive_and_not_ready(watched: Node) -> None:
    (watched.directory / "net.d" / "00-net.conf").unlink()
    answer = ask(watched, "/readyz")
    assert (answer.status, answer.codes) == (503, ["network-none"])
    assert ask(watched, "/livez").status == 200


def test_files_of_others_are_no_network_of_ours(watched: Node) -> None:
    directory = watched.directory / "net.d"
    other = {"cniVersion": "1.0.0", "name": "other", "type": "bridge"}
    (directory / "00-net.conf").write_text(json.dumps(other))
    assert ask(watched, "/readyz").codes == ["network-none"]


@pytest.mark.parametrize(
    "content",
    [b'{"name": "net", "type": "netloom", "pools": 7}', b'{"type": "netloom"', b'"netloom"'],
    ids=str,
)
def test_a_file_that_cannot_work_is_named(watched: Node, content: bytes) -> None:
    (watched.directory / "net.d" / "00-net.conf").write_bytes(content)
    answer = ask(watched, "/readyz")
    assert (answer.status, answer.codes) == (503, ["network-broken"])
    assert "00-net.conf" in answer.document["findings"][0]["text"]


def test_one_network_can_be_asked_for(watched: Node) -> None:
    conf_dir(watched, watched.config(), watched.config("tiny", pools=TINY))
    containers = [watched.container() for _ in range(3)]
    tiny = watched.config("tiny", pools=TINY)
    outcomes = [watched.plugin("ADD", it, tiny).code for it in containers]
    assert outcomes == [0, 0, 11]
    assert ask(watched, "/readyz").codes == ["pool-exhausted"]
    assert ask(watched, "/readyz?network=tiny").codes == ["pool-exhausted"]
    assert ask(watched, "/readyz?network=net").status == 200
    unknown = ask(watched, "/readyz?network=nobody")
    assert (unknown.status, unknown.codes) == (404, ["network-unknown"])


def test_a_host_without_ipv6_is_not_ready_for_a_network_that_needs_it(watched: Node) -> None:
    watched.inside("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=1")
    assert eventually(lambda: ask(watched, "/readyz").status == 503)
    assert ask(watched, "/readyz").codes == ["host-lacks"]
    assert watched.plugin("ADD", watched.container()).status != 0
    watched.inside("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0")
    assert eventually(lambda: ask(watched, "/readyz").status == 200)


def test_a_full_disk_is_not_ready_until_there_is_space(node: Node, full: SmallDisk) -> None:
    full.fill()
    answer = ask(node, "/readyz")
    assert (answer.status, answer.codes) == (503, ["disk-full"])
    full.empty()
    assert eventually(lambda: ask(node, "/readyz").status == 200)
    node.add(node.container())


def test_a_disk_that_breaks_while_nobody_writes_is_found_and_so_is_its_recovery(
    node: Node, tmp_path: Path
) -> None:
    disk = BreakableDisk(tmp_path)
    directory = conf_dir(node, node.config())
    node.start("--tick", "0.1", "--conf-dir", str(directory), environment=disk.environment)
    assert eventually(lambda: is_there(node))
    assert ask(node, "/readyz").status == 200
    disk.break_down()
    assert eventually(lambda: ask(node, "/readyz").status == 503)
    assert ask(node, "/readyz").codes == ["journal-unwritable"]
    assert node.plugin("ADD", node.container()).code == 5
    disk.mend()
    assert eventually(lambda: ask(node, "/readyz").status == 200)


def test_a_journal_that_was_removed_is_not_ready(watched: Node) -> None:
    (watched.state_dir / "journal.db").rename(watched.state_dir / "aside")
    answer = ask(watched, "/readyz")
    assert (answer.status, answer.codes) == (503, ["journal-gone"])
    (watched.state_dir / "aside").rename(watched.state_dir / "journal.db")
    assert ask(watched, "/readyz").status == 200


def test_a_table_that_is_not_whole_is_not_ready(node: Node) -> None:
    """Where another program's table has its name, the agent cannot lay it down."""
    node.start("--tick", "0.1", "--conf-dir", str(conf_dir(node, node.config())))
    assert eventually(lambda: is_there(node))
    node.inside("nft", "delete table inet netloom; add table inet netloom")

    def is_broken() -> bool:
        answer = ask(node, "/readyz")
        return (answer.status, answer.codes) == (503, ["table-broken"])

    assert eventually(is_broken)
    node.inside("nft", "delete", "table", "inet", "netloom")
    assert eventually(lambda: ask(node, "/readyz").status == 200)


def test_a_disk_that_hangs_is_named_and_everything_else_is_still_answered(node: Node, tmp_path: Path) -> None:
    system = HangingSystem(tmp_path)
    directory = conf_dir(node, node.config())
    node.start("--tick", "0.1", "--conf-dir", str(directory), environment=system.environment)
    assert eventually(lambda: is_there(node))
    with system.hangs("disk"):
        adding = node.begin("ADD", node.container())
        assert eventually(lambda: stuck_parts(node) == ["journal"], 40)
        assert ask(node, "/").status == 200
    adding.communicate(timeout=30)
    assert adding.returncode == 0
    assert ask(node, "/livez").status == 200


def test_a_kernel_that_hangs_is_named_and_everything_else_is_still_answered(
    node: Node, tmp_path: Path
) -> None:
    system = HangingSystem(tmp_path)
    directory = conf_dir(node, node.config())
    node.start("--conf-dir", str(directory), environment=system.environment)
    assert eventually(lambda: is_there(node))
    container = node.container()
    with system.hangs("kernel"):
        adding = node.begin("ADD", container)
        assert eventually(lambda: stuck_parts(node) == ["dataplane"], 40)
        ready = ask(node, "/readyz")
        assert (ready.status, ready.codes) == (503, ["kernel-silent"])
        assert ask(node, "/metrics").status == 200
    adding.communicate(timeout=30)
    assert eventually(lambda: ask(node, "/livez").status == 200)
    assert eventually(lambda: ask(node, "/readyz").status == 200)


def test_a_busy_agent_is_alive(watched: Node) -> None:
    containers = [watched.container() for _ in range(20)]
    adding = [watched.begin("ADD", it) for it in containers]
    assert ask(watched, "/livez").status == 200
    for process in adding:
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_none_switches_it_off(node: Node) -> None:
    node.start("--metrics-listen", "none")
    assert not is_there(node)
    node.add(node.container())


def test_an_agent_serves_though_its_address_is_taken(node: Node) -> None:
    with node.namespace.entered():
        taken = socket.create_server(("127.0.0.1", PORT))
    with taken:
        node.start("--tick", "0.1", "--conf-dir", str(conf_dir(node, node.config())))
        node.add(node.container())
        assert eventually(lambda: findings(node) == [("metrics-unavailable", "warning")])
        assert node.plugin("STATUS").status == 0
    assert eventually(lambda: is_there(node))
    assert ask(node, "/readyz").status == 200
    assert findings(node) == []


def findings(node: Node) -> list[tuple[str, str]]:
    """What the agent tells whoever asks it by its socket."""
    return [(it["code"], it["severity"]) for it in node.info()["findings"]]
