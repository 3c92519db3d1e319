"""CHECK names every difference between what ADD left and what there is."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..fixtures.node import Node, Outcome, eventually

pytestmark = pytest.mark.kernel


class Attached(NamedTuple):
    """A container with an attachment that nobody repairs."""

    node: Node
    container: str
    result: dict[str, Any]

    @property
    def host(self) -> str:
        return str(self.result["interfaces"][0]["name"])

    def check(self, **changes: object) -> Outcome:
        config = self.node.config(prevResult={**self.result, **changes})
        return self.node.plugin("CHECK", self.container, config)

    def inside(self, *words: str) -> None:
        self.node.in_container(self.container, *words)


@pytest.fixture
def attached(node: Node) -> Attached:
    node.start("--tick", "600")
    container = node.container()
    return Attached(node, container, node.add(container).document)


def test_an_attachment_as_add_left_it_is_fine(attached: Attached) -> None:
    done = attached.check()
    assert (done.status, done.output) == (0, b"")


def test_check_takes_no_longer_in_a_container_with_many_routes_of_its_own(
    attached: Attached, tmp_path: Path
) -> None:
    """To list 30,000 of each family takes 300 ms, in which the agent would serve nobody else."""
    for family, network in (("-4", "172.{}.{}.0/24"), ("-6", "fd02:0:{:x}:{:x}::/64")):
        networks = (network.format(*divmod(number, 200)) for number in range(30_000))
        batch = tmp_path / "routes"
        batch.write_text("".join(f"route add {it} dev eth0 proto static\n" for it in networks))
        attached.inside("ip", family, "-batch", str(batch))
    config = attached.node.config(prevResult=attached.result)
    took = []
    for _ in range(5):
        start = time.perf_counter()
        assert attached.node.ask("CHECK", attached.container, config).status == 0
        took.append(time.perf_counter() - start)
    assert min(took) < 0.1


Change = Callable[[Attached], object]


def is_named(attached: Attached, change: Change, *names: str) -> bool:
    """Whether CHECK names what was changed.

    The agent hears of some of it, whatever its tick, and it may be back before CHECK looks: then it is
    changed once more.
    """

    def is_told() -> bool:
        with suppress(subprocess.CalledProcessError):
            change(attached)
        done = attached.check()
        return done.code == 103 and all(name.lower() in done.message.lower() for name in names)

    return eventually(is_told)


RENAME = "ip link set eth0 down && ip link set eth0 name eth9"

INSIDE: list[tuple[str, Change, str]] = [
    ("an address", lambda it: it.inside("ip", "addr", "flush", "dev", "eth0", "scope", "global"), "10.9.0.1"),
    ("the default route", lambda it: it.inside("ip", "route", "del", "default"), "0.0.0.0/0"),
    ("the other default route", lambda it: it.inside("ip", "-6", "route", "del", "default"), "::/0"),
    (
        "the neighbour",
        lambda it: it.inside("ip", "neigh", "del", "169.254.1.1", "dev", "eth0"),
        "169.254.1.1",
    ),
    ("the link is down", lambda it: it.inside("ip", "link", "set", "eth0", "down"), "eth0"),
    ("the link is gone", lambda it: it.inside("ip", "link", "del", "eth0"), "eth0"),
    ("another mac", lambda it: it.inside("ip", "link", "set", "eth0", "address", "02:0:0:0:0:1"), "mac"),
    ("another name", lambda it: it.inside("sh", "-c", RENAME), "eth0"),
]


@pytest.mark.parametrize(("change", "named"), [it[1:] for it in INSIDE], ids=[it[0] for it in INSIDE])
def test_what_changed_in_the_container_is_named(attached: Attached, change: Change, named: str) -> None:
    assert is_named(attached, change, named), attached.check().output


HOST: list[tuple[str, list[str], str]] = [
    ("the route", ["ip", "route", "del", "10.9.0.1/32"], "10.9.0.1"),
    ("the other route", ["ip", "-6", "route", "del", "fd09::1/128"], "fd09::1"),
    ("a source", ["nft", "delete element inet netloom sources4 { HOST . 10.9.0.1 }"], "10.9.0.1"),
    ("the table", ["nft", "delete", "table", "inet", "netloom"], "netloom"),
    ("the link is down", ["ip", "link", "set", "HOST", "down"], "HOST"),
    ("the neighbour", ["ip", "neigh", "del", "fd09::1", "dev", "HOST"], "fd09::1"),
]


@pytest.mark.parametrize(("command", "named"), [it[1:] for it in HOST], ids=[it[0] for it in HOST])
def test_what_changed_on_the_host_is_named(attached: Attached, command: list[str], named: str) -> None:
    words = [word.replace("HOST", attached.host) for word in command]
    assert is_named(attached, lambda it: it.node.inside(*words), named.replace("HOST", attached.host))


def test_several_differences_are_all_named(attached: Attached) -> None:
    attached.inside("ip", "route", "del", "default")
    attached.inside("ip", "-6", "route", "del", "default")

    def lose_route(it: Attached) -> None:
        it.node.inside("ip", "route", "del", "10.9.0.1/32")

    assert is_named(attached, lose_route, "0.0.0.0/0", "::/0", "10.9.0.1/32")


def test_check_changes_nothing(attached: Attached) -> None:
    attached.inside("ip", "route", "del", "default")
    attached.check()
    assert attached.check().code == 103


def test_without_prev_result_check_is_code_7(attached: Attached) -> None:
    assert attached.node.plugin("CHECK", attached.container).code == 7


def test_a_prev_result_that_cannot_be_read_is_code_6(attached: Attached) -> None:
    config = attached.node.config(prevResult="what?")
    assert attached.node.plugin("CHECK", attached.container, config).code == 6


def test_an_address_that_prev_result_lacks_is_named(attached: Attached) -> None:
    done = attached.check(ips=attached.result["ips"][:1])
    assert done.code == 103
    assert "fd09::1" in done.message


def test_an_interface_that_prev_result_lacks_is_named(attached: Attached) -> None:
    done = attached.check(interfaces=attached.result["interfaces"][:1], ips=[])
    assert done.code == 103
    assert "eth0" in done.message


def test_what_plugins_behind_ours_have_added_is_fine(attached: Attached) -> None:
    done = attached.check(
        interfaces=[*attached.result["interfaces"], {"name": "ifb0"}],
        ips=[*attached.result["ips"], {"address": "192.0.2.5/24"}],
        routes=[*attached.result["routes"], {"dst": "192.0.2.0/24"}],
        dns={"nameservers": ["192.0.2.53"]},
    )
    assert done.status == 0


def test_a_mac_that_a_plugin_behind_ours_has_changed_is_fine_if_it_says_so(attached: Attached) -> None:
    attached.inside("ip", "link", "set", "eth0", "address", "02:00:00:00:00:01")
    host, inside = attached.result["interfaces"]
    assert attached.check().code == 103
    assert attached.check(interfaces=[host, {**inside, "mac": "02:00:00:00:00:01"}]).status == 0


def test_an_mtu_that_a_plugin_behind_ours_has_changed_is_fine(attached: Attached) -> None:
    """The reference plugin for it does not say so in its result."""
    attached.inside("ip", "link", "set", "eth0", "mtu", "1400")
    assert attached.check().status == 0


def test_a_container_that_is_not_attached_is_code_3(attached: Attached) -> None:
    other = attached.node.container()
    config = attached.node.config(prevResult=attached.result)
    assert attached.node.plugin("CHECK", other, config).code == 3


def test_check_after_del_is_code_3(attached: Attached) -> None:
    attached.node.delete(attached.container)
    assert attached.check().code == 3


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0"])
def test_check_reads_results_of_older_versions(node: Node, version: str) -> None:
    node.start()
    container = node.container()
    result = node.add(container, node.config(version=version)).document
    assert result["cniVersion"] == version
    config = json.loads(node.config(version=version))
    done = node.plugin("CHECK", container, json.dumps({**config, "prevResult": result}).encode())
    assert done.status == 0
