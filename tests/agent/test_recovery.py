"""What an agent does before it serves: what another left unfinished is finished or undone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def other_boot(directory: Path) -> list[str]:
    """A command that runs another with the boot ID of another boot."""
    fake = directory / "boot_id"
    fake.write_text(OTHER_BOOT + "\n")
    script = f'mount --bind {fake} /proc/sys/kernel/random/boot_id && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh"]


def links_inside(node: Node, container: str) -> str:
    return node.in_container(container, "ip", "-o", "link").stdout


@pytest.mark.parametrize("step", ["add.reserved", "add.applied"])
def test_a1_an_add_that_was_killed_before_its_commit_never_was(node: Node, step: str) -> None:
    pools = [{"cidr": "10.9.0.1/32"}]
    config = node.config(pools=pools)
    node.start(environment={"NETLOOM_FAILPOINT": step})
    container = node.container()
    assert node.plugin("ADD", container, config).code == 11
    node.wait()
    node.start()
    assert node.ledger().places() == []
    assert node.links() == []
    assert "eth0" not in links_inside(node, container)
    assert node.add(container, config).addresses == ["10.9.0.1"]
    assert node.audit(pools) == []


def test_an_add_that_was_killed_after_its_commit_is_kept(node: Node) -> None:
    node.start(environment={"NETLOOM_FAILPOINT": "add.committed"})
    container = node.container()
    assert node.plugin("ADD", container).code == 11
    node.wait()
    node.start()
    assert len(node.ledger().places()) == 1
    assert node.audit() == []
    node.add(container)
    node.delete(container)
    assert node.links() == []


@pytest.mark.parametrize("step", ["del.marked", "del.removed"])
def test_a_del_that_was_killed_is_finished(node: Node, step: str) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.kill()
    node.start(environment={"NETLOOM_FAILPOINT": step})
    # The plugin's DEL succeeds whatever becomes of the agent.
    node.delete(container)
    node.wait()
    node.start()
    assert node.ledger().places() == []
    assert node.links() == []
    assert node.intents() == []
    assert node.audit() == []


def test_what_was_unfinished_in_a_namespace_that_is_gone_is_given_back(node: Node) -> None:
    node.start(environment={"NETLOOM_FAILPOINT": "add.applied"})
    container = node.container()
    node.plugin("ADD", container)
    node.wait()
    node.remove_container(container)
    node.start()
    assert node.ledger().places() == []
    assert list(node.ledger().held()) == []
    assert node.audit() == []


def test_containers_are_not_disturbed_by_an_agents_death_and_return(running: Node) -> None:
    one, other = running.container(), running.container()
    running.add(one)
    address = running.add(other).addresses[0]
    links = running.inside("ip", "-o", "-br", "link")
    running.kill()
    assert running.ping(one, address)
    running.start()
    assert running.ping(one, address)
    assert running.inside("ip", "-o", "-br", "link") == links
    assert running.audit() == []


def test_no_packet_of_a_container_is_dropped_while_an_agent_starts(running: Node) -> None:
    """The table is laid down anew in one step, with all elements."""
    one, other = running.container(), running.container()
    running.add(one)
    address = running.add(other).addresses[0]
    running.kill()
    ping = ["ping", "-n", "-q", "-i", "0.002", "-c", "300", "-W", "5", address]
    with running.popen_in(one, *ping) as process:
        running.start()
        output, _ = process.communicate(timeout=30)
    assert " 0% packet loss" in output, output


def test_what_another_boot_held_is_given_back_before_the_first_add(node: Node) -> None:
    pools = [{"cidr": "10.9.0.0/29"}]
    config = node.config(pools=pools, cooldown=100)
    node.start()
    containers = [node.container() for _ in range(2)]
    before = [node.add(container, config).addresses[0] for container in containers]
    node.kill()
    for container in containers:  # the kernel's own state ends with a boot
        node.remove_container(container)
    node.start(through=other_boot(node.directory))
    assert node.ledger().places() == []
    assert node.info()["boot_id"] == OTHER_BOOT
    # They rest: the world does not know of our reboot.
    after = [node.add(node.container(), config).addresses[0] for _ in range(4)]
    assert not set(before) & set(after)
    assert node.audit(pools) == []


def test_a_rest_that_another_boot_began_is_counted_anew(node: Node) -> None:
    """Seconds since boot mean nothing in another boot: neither freed at once nor kept for ever."""
    config = node.config(pools=[{"cidr": "10.9.0.1/32"}], cooldown=40)
    node.start()
    container = node.container()
    node.add(container, config)
    node.delete(container, config)
    node.stop()
    with sqlite3.connect(node.state_dir / "journal.db") as connection:
        connection.execute("UPDATE address SET released = released + 1e6")
    connection.close()
    node.start(through=other_boot(node.directory))
    assert node.plugin("ADD", container, config).status == 1
    assert eventually(lambda: node.plugin("ADD", container, config).status == 0)


def test_the_same_boot_gives_nothing_back(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.kill()
    running.start()
    assert len(running.ledger().places()) == 1


def test_an_agent_that_is_killed_in_its_recovery_is_followed_by_one_that_ends_it(node: Node) -> None:
    node.start(environment={"NETLOOM_FAILPOINT": "add.applied"})
    node.plugin("ADD", node.container())
    node.wait()
    for step in ("recovery.boot", "recovery.node", "recovery.row", "recovery.row-removed", "recovery.done"):
        node.start(ready=False, environment={"NETLOOM_FAILPOINT": step})
        node.wait()
    node.start()
    assert node.ledger().places() == []
    assert node.links() == []
    assert node.audit() == []


def test_the_host_forwards_when_the_agent_serves(running: Node) -> None:
    for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
        assert running.inside("sysctl", "-n", setting).strip() == "1"


def test_a_host_that_listens_to_its_routers_still_does(node: Node) -> None:
    node.inside("ip", "link", "add", "up0", "type", "bridge")
    node.inside("sysctl", "-w", "net.ipv6.conf.up0.accept_ra=1")
    node.start()
    assert node.inside("sysctl", "-n", "net.ipv6.conf.up0.accept_ra").strip() == "2"


def test_containers_keep_their_network_when_the_journal_is_lost(running: Node) -> None:
    """Somebody moved a damaged one away: nobody knows these containers any more, and they still work."""
    one, other = running.container(), running.container()
    running.add(one)
    addresses = running.add(other).addresses
    running.kill()
    for file in running.state_dir.iterdir():
        file.unlink()
    running.start()
    assert [address for address in addresses if not running.ping(one, address)] == []


@pytest.fixture
def forgetful(node: Node) -> tuple[Node, str]:
    """A node whose journal was lost, and a container that it had attached before."""
    node.start()
    container = node.container()
    node.add(container)
    node.kill()
    for file in node.state_dir.iterdir():
        file.unlink()
    node.start("--tick", "0.1")
    return node, container


def test_what_the_lost_journal_knew_can_be_deleted(forgetful: tuple[Node, str]) -> None:
    node, container = forgetful
    node.delete(container)
    assert node.links() == []
    assert eventually(lambda: node.audit() == [])


def test_what_the_lost_journal_knew_is_attached_anew_without_its_old_addresses(
    forgetful: tuple[Node, str],
) -> None:
    node, container = forgetful
    new = node.add(container, CNI_ARGS="IP=10.9.0.78")
    shown = node.in_container(container, "ip", "-o", "-4", "address", "show", "eth0").stdout
    assert new.addresses[0].removesuffix("/32") == "10.9.0.78"
    assert shown.count("inet ") == 1
    assert eventually(lambda: node.audit() == [])


def test_del_of_what_never_was_takes_nobody_elses_link(node: Node) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.delete("somebody-else")
    assert len(node.links()) == 1


# A plan that cannot be read.


UNREADABLE = {
    "damaged": b"garbage",
    "no UTF-8": b'{"objects": ["\xff"]}',
    "of a later version": b'{"version": 99, "objects": []}',
    "with an object of no type": b'{"objects": [{}]}',
    "with an element of a later version": b'{"version": 2, "objects": [{"type": "nft-element", "timeout": 5, '
    b'"family": "inet", "table": "netloom", "set": "sources4", "key": ["loom1", "10.9.0.1"]}]}',
}


@pytest.fixture(params=UNREADABLE.values(), ids=list(UNREADABLE))
def unreadable(node: Node, request: pytest.FixtureRequest) -> tuple[Node, str]:
    """A node, and a container of it whose plan cannot be read."""
    node.start()
    container = node.container()
    node.add(container)
    node.stop()
    with sqlite3.connect(node.state_dir / "journal.db") as journal:
        journal.execute("UPDATE attachment SET plan = ?", (request.param,))
    journal.close()
    node.start("--tick", "0.1")
    return node, container


def test_what_has_no_readable_plan_can_be_deleted(unreadable: tuple[Node, str]) -> None:
    node, container = unreadable
    node.delete(container)
    assert node.links() == []
    assert node.audit() == []


def test_what_has_no_readable_plan_can_be_collected(unreadable: tuple[Node, str]) -> None:
    node, _ = unreadable
    done = node.plugin("GC", config=node.config_with({"cni.dev/valid-attachments": []}))
    assert done.status == 0, done.output
    assert node.links() == []
    assert node.audit() == []


def test_what_has_no_readable_plan_is_made_anew_by_add(unreadable: tuple[Node, str]) -> None:
    node, container = unreadable
    node.add(container)
    assert node.ping(container, "169.254.1.1")
    assert node.audit() == []


def test_what_has_no_readable_plan_is_told_by_the_audit_and_keeps_nothing_else_from_work(
    unreadable: tuple[Node, str],
) -> None:
    node, _ = unreadable
    assert "plan-unreadable" in {finding.code for finding in node.audit()}
    other = node.container()
    node.add(other)
    node.inside("nft", "flush", "ruleset")
    assert eventually(lambda: node.plugin("STATUS").status == 0 and guards(node, other))
    node.kill()
    node.inside("nft", "flush", "ruleset")
    node.start()
    assert guards(node, other)
    node.delete(other)


def guards(node: Node, container: str) -> bool:
    listed = node.inside("nft", "list", "table", "inet", "netloom", check=False)
    return node.link_of(container) in listed


def test_of_a_further_interface_without_a_readable_plan_no_rule_stays(node: Node) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.add(container, ifname="net1")
    node.stop()
    with sqlite3.connect(node.state_dir / "journal.db") as journal:
        journal.execute("UPDATE attachment SET plan = x'' WHERE ifname = 'net1'")
    journal.close()
    node.start()
    assert "7801" in rules(node, container)
    node.delete(container, ifname="net1")
    assert "7801" not in rules(node, container)


def rules(node: Node, container: str) -> str:
    return node.in_container(container, "sh", "-c", "ip rule; ip -6 rule").stdout


def test_what_has_no_readable_result_is_made_anew_by_add(node: Node) -> None:
    node.start()
    container = node.container()
    node.add(container)
    node.stop()
    with sqlite3.connect(node.state_dir / "journal.db") as journal:
        journal.execute("UPDATE attachment SET result = x'7b'")
    journal.close()
    node.start()
    node.add(container)
    assert node.audit() == []
