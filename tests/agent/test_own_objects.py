"""What a node has of its own, by family: one that cannot be had is told of, and costs the other nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netloom.api.catalogue import ENTRIES
from netloom.kernel import Namespace
from netloom.kernel.netlink import address, route
from netloom.networks.names import HOST4, HOST6

from ..fixtures.internet import IPV4, LOOPBACK, TCP, Answering, ask
from ..fixtures.internet import port as mapping
from ..fixtures.node import Node, eventually
from ..fixtures.pages import ask as ask_page
from ..fixtures.pages import conf_dir, is_there, scrape

pytestmark = pytest.mark.kernel

ONLY_IPV4 = [{"cidr": "10.9.0.0/16"}]
MISSING = "node-address-missing"


def has(node: Node, own: str) -> bool:
    listed = [
        it
        for flag in ("-4", "-6")
        for it in json.loads(
            node.inside("ip", "-j", flag, "route", "show", "table", "local", "proto", "78") or "[]"
        )
    ]
    return any(it["dst"] == own for it in listed)


def findings(node: Node) -> dict[tuple[str, str], str]:
    return {(it["code"], it["subject"]): it["severity"] for it in node.info()["findings"]}


def switched(node: Node, where: str, value: int) -> None:
    node.inside("sysctl", "-w", f"net.ipv6.conf.{where}.disable_ipv6={value}")


def started(node: Node, **keys: Any) -> Node:
    node.start("--tick", "0.1", "--conf-dir", str(conf_dir(node, node.config(**keys))))
    assert eventually(lambda: is_there(node))
    return node


@pytest.fixture
def without_ipv6() -> Iterator[Node]:
    """A node whose IPv6 was switched off before its agent was started; its network has an IPv4 pool."""
    with tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory, Node(Path(directory)) as node:
        switched(node, "all", 1)
        switched(node, "default", 1)
        yield started(node, pools=ONLY_IPV4)


def test_without_ipv6_host_ports_of_the_ipv4_loopback_work_and_nothing_is_wrong(without_ipv6: Node) -> None:
    node = without_ipv6
    assert has(node, HOST4)
    config = node.config(pools=ONLY_IPV4, runtimeConfig={"portMappings": [mapping(8080)]})
    container = node.container()
    node.add(container, config)
    with (
        Namespace.open(f"/run/netns/{container}") as inside,
        Answering(inside, "web", 80, protocols=(TCP,), families=(IPV4,)),
    ):
        assert ask(node.namespace, TCP, LOOPBACK[IPV4], 8080, patience=10).who == "web"
    assert findings(node) == {}
    assert ask_page(node, "/readyz").status == 200
    assert node.audit(ONLY_IPV4) == []


def test_ipv6_that_is_switched_on_while_the_agent_runs_gets_the_nodes_address(without_ipv6: Node) -> None:
    assert not has(without_ipv6, HOST6)
    switched(without_ipv6, "all", 0)
    assert eventually(lambda: has(without_ipv6, HOST6))


def test_an_address_that_a_network_needs_and_the_host_cannot_have_is_a_finding_until_it_can(
    node: Node,
) -> None:
    started(node)
    assert has(node, HOST6)
    switched(node, "lo", 1)
    assert eventually(lambda: (MISSING, HOST6) in findings(node))
    assert (MISSING, HOST4) not in findings(node)
    assert has(node, HOST4)
    assert MISSING in ENTRIES
    assert scrape(node).of("netloom_findings", code=MISSING) == 1
    # Containers can be attached, and lack the loopback's ports of that family alone.
    assert ask_page(node, "/readyz").status == 200
    node.add(node.container())
    assert [it.code for it in node.audit()] == [MISSING]
    switched(node, "lo", 0)
    assert eventually(lambda: has(node, HOST6) and findings(node) == {})
    assert node.audit() == []


def test_what_is_in_the_place_of_one_address_is_told_of_and_the_other_is_there(node: Node) -> None:
    node.inside("ip", "route", "add", "unreachable", HOST4, "table", "local")
    started(node)
    assert findings(node) == {(MISSING, HOST4): "error"}
    assert has(node, HOST6)
    node.inside("ip", "route", "del", "unreachable", HOST4, "table", "local")
    assert eventually(lambda: has(node, HOST4) and findings(node) == {})


def test_a_host_that_has_the_address_on_a_link_of_its_own_lacks_nothing(node: Node) -> None:
    node.inside("ip", "link", "add", "own0", "type", "veth", "peer", "name", "own1")
    node.inside("ip", "addr", "add", f"{HOST4}/32", "dev", "own0")
    node.inside("ip", "link", "set", "own0", "up")
    started(node)
    node.add(node.container())
    assert findings(node) == {}
    assert node.audit() == []


def test_where_a_family_cannot_be_forwarded_networks_of_that_family_are_not_ready(node: Node) -> None:
    """As in a container of its own, whose /proc/sys is read-only in part."""
    forwarding = "/proc/sys/net/ipv6/conf/all/forwarding"
    node.inside("sysctl", "-w", "net.ipv6.conf.all.forwarding=0", "net.ipv4.ip_forward=0")
    networks = (node.config("both"), node.config("four", pools=ONLY_IPV4))
    covered = f"mount --bind {forwarding} {forwarding} && mount -o remount,bind,ro {forwarding}"
    node.start(
        "--tick", "0.1", "--conf-dir", str(conf_dir(node, *networks)),
        through=("unshare", "--mount", "sh", "-c", f'{covered} && exec "$@"', "sh"),
    )  # fmt: skip
    assert eventually(lambda: is_there(node))
    assert node.inside("sysctl", "-n", "net.ipv4.ip_forward").strip() == "1"
    assert findings(node) == {("sysctl-forwarding", "net.ipv6.conf.all.forwarding"): "error"}
    assert ask_page(node, "/readyz?network=both").codes == ["sysctl-forwarding"]
    assert ask_page(node, "/readyz?network=four").status == 200
    assert node.plugin("STATUS", config=networks[0]).code == 50
    assert node.plugin("STATUS", config=networks[1]).status == 0
    # What is right already needs no writing.
    node.inside("sysctl", "-w", "net.ipv6.conf.all.forwarding=1")
    assert eventually(lambda: findings(node) == {})


def test_a_family_that_the_kernel_does_not_have_is_not_answered_for_by_the_others(node: Node) -> None:
    """It answers with all that the others have, as for IPv6 with ipv6.disable=1."""
    nobodys = 4  # IPX, which Linux has not any more
    connection = node.namespace.route
    assert connection.dump(address.GET, address.of_link(0, 2))
    assert connection.dump(address.GET, address.of_link(0, nobodys)) == []
    assert connection.dump(route.GET, route.everything(nobodys)) == []
