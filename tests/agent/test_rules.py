"""The rules that every plugin has, through ours and the agent behind it: S1 to S12 of the checklist."""

from __future__ import annotations

import json
import subprocess

import pytest

from ..fixtures.node import PLUGIN, Node, eventually

pytestmark = pytest.mark.kernel


@pytest.fixture
def running(shared: Node) -> Node:
    return shared


VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]


def test_s1_without_a_command_it_says_what_it_is_and_succeeds(running: Node) -> None:
    done = running.plugin("")
    assert (done.status, done.output) == (0, b"")
    assert b"netloom" in done.errors
    assert b"CNI protocol versions supported: " + ", ".join(VERSIONS).encode() in done.errors


def test_s2_what_add_lacks_is_named_together(running: Node) -> None:
    done = running.plugin("ADD", running.container(), ifname="", CNI_NETNS="")
    assert (done.status, done.code) == (1, 4)
    assert "required env variables [CNI_NETNS,CNI_IFNAME] missing" in done.document["msg"]


@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL", "GC", "STATUS"])
def test_s2_every_verb_needs_the_plugins_path(running: Node, verb: str) -> None:
    done = running.plugin(verb, running.container(), CNI_PATH="")
    assert done.code == 4
    assert "[CNI_PATH]" in done.document["msg"]


def test_s3_version_needs_neither_stdin_nor_an_agent(node: Node) -> None:
    done = subprocess.run(
        node.command("sh", "-c", f"exec {PLUGIN} <&-"),
        env=node.environment({"CNI_COMMAND": "VERSION"}),
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"cniVersion": "1.1.0", "supportedVersions": VERSIONS}


def test_s4_an_unknown_command_is_code_4(running: Node) -> None:
    done = running.plugin("NOPE", running.container())
    assert (done.status, done.code) == (1, 4)
    assert "unknown CNI_COMMAND: NOPE" in done.document["msg"]


def test_s4_a_bad_config_is_told_before_an_unknown_command(running: Node) -> None:
    assert running.plugin("NOPE", running.container(), b"{").code == 6


def test_s5_half_an_object_is_code_6(running: Node) -> None:
    assert running.plugin("ADD", running.container(), b"{").code == 6


def test_s5_a_config_without_a_name_is_code_7(running: Node) -> None:
    done = running.plugin("ADD", running.container(), b"{}")
    assert done.code == 7
    assert "missing network name" in done.document["msg"]


def test_s6_a_version_that_is_not_supported_is_code_1(running: Node) -> None:
    done = running.plugin("ADD", running.container(), running.config(version="99.0.0"))
    assert done.code == 1
    assert "incompatible CNI versions" in done.document["msg"]
    listed = " ".join(f'"{version}"' for version in VERSIONS)
    assert done.document["details"].startswith(f'config is "99.0.0", plugin supports [{listed}]')


@pytest.mark.parametrize("verb", ["GC", "STATUS"])
def test_s7_older_configs_have_no_gc_and_no_status(running: Node, verb: str) -> None:
    done = running.plugin(verb, config=running.config(version="1.0.0"))
    assert done.code == 1
    assert f"config version does not allow {verb}" in done.document["msg"]


def test_s7_configs_before_0_4_0_have_no_check(running: Node) -> None:
    done = running.plugin("CHECK", running.container(), running.config(version="0.3.1"))
    assert done.code == 1
    assert "config version does not allow CHECK" in done.document["msg"]


@pytest.mark.parametrize("override", ["", "1", "true"])
def test_s8_the_plugins_own_namespace_is_refused_before_any_change(running: Node, override: str) -> None:
    before = running.inside("ip", "-d", "link")
    done = running.plugin(
        "ADD", running.container(), CNI_NETNS="/proc/self/ns/net", CNI_NETNS_OVERRIDE=override
    )
    assert done.code == 8
    assert running.inside("ip", "-d", "link") == before
    assert running.ledger().places() == []


def test_s9_del_of_what_never_was_succeeds(running: Node) -> None:
    assert running.plugin("DEL", "nobody").status == 0


def test_s9_del_succeeds_without_a_namespace_and_gives_the_addresses_back(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.delete(container, CNI_NETNS="")
    assert list(running.ledger().held()) == []
    assert running.audit() == []


def test_s9_del_succeeds_when_the_namespace_is_gone_and_gives_the_addresses_back(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.remove_container(container)
    running.delete(container)
    assert list(running.ledger().held()) == []
    assert running.audit() == []


def test_s9_del_twice_is_as_good_as_once(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.delete(container)
    running.delete(container)
    assert running.audit() == []


def test_s9_del_needs_nothing_of_the_config_but_the_networks_name(running: Node) -> None:
    container = running.container()
    running.add(container)
    config = {"cniVersion": "7.7.7", "name": "net", "type": "netloom", "pools": 5, "prevResult": "what?"}
    running.delete(container, json.dumps(config).encode())
    assert running.links() == []
    assert running.audit() == []


UNREADABLE = pytest.mark.parametrize(
    "stdin", [b"", b"{", b"\xff", b"{}", b'{"name": 5}', b'{"name": "../net"}'], ids=repr
)


@UNREADABLE
def test_s9_del_with_a_config_that_cannot_be_read_takes_the_containers_interface(
    running: Node, stdin: bytes
) -> None:
    one, other = running.container(), running.container()
    for container in (one, other):
        running.add(container)
    running.add(one, running.config("second"), ifname="net1")
    running.delete(one, stdin)
    left = {(place.key.container_id, place.key.ifname) for place in running.ledger().places()}
    assert left == {(one, "net1"), (other, "eth0")}
    assert running.audit() == []


@UNREADABLE
def test_s9_del_with_a_config_that_cannot_be_read_succeeds_again_and_of_what_never_was(
    running: Node, stdin: bytes
) -> None:
    container = running.container()
    running.add(container)
    running.delete(container, stdin)
    done = running.delete(container, stdin)
    assert (done.status, done.output) == (0, b"")
    running.delete("nobody", stdin)
    assert running.plugin("DEL", "", stdin).code == 4
    assert running.plugin("DEL", container, stdin, ifname="").code == 4
    assert running.audit() == []


def test_s10_an_interface_of_that_name_is_left_alone_and_nothing_is_kept(running: Node) -> None:
    container = running.container()
    running.in_container(container, "ip", "link", "add", "eth0", "type", "bridge")
    before = running.in_container(container, "ip", "-d", "link").stdout
    done = running.plugin("ADD", container)
    assert done.code == 102
    assert "eth0" in done.message
    assert running.in_container(container, "ip", "-d", "link").stdout == before
    assert running.ledger().places() == []
    assert running.audit() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_s11_the_result_has_the_shape_and_version_of_the_config(running: Node, version: str) -> None:
    result = running.add(running.container(), running.config(version=version)).document
    assert result["cniVersion"] == version
    if version < "0.3.0":
        assert set(result) == {"cniVersion", "ip4", "ip6", "dns"}
        assert result["ip4"]["ip"].startswith("10.9.")
        assert result["ip4"]["routes"] == [{"dst": "0.0.0.0/0", "gw": "169.254.1.1"}]
        return
    assert [ip["address"].split("/")[1] for ip in result["ips"]] == ["32", "128"]
    assert [ip["interface"] for ip in result["ips"]] == [1, 1]
    assert result["interfaces"][1]["name"] == "eth0"
    families = [ip.get("version") for ip in result["ips"]]
    assert families == (["4", "6"] if version < "1.0.0" else [None, None])


def test_s11_an_error_has_the_version_of_the_config(running: Node) -> None:
    done = running.plugin("ADD", running.container(), running.config(version="0.4.0", mtu=1))
    assert done.document["cniVersion"] == "0.4.0"


# The first two changes of a new journal are of the start: the boot, and the identity.
@pytest.mark.parametrize("step", ["add.reserved", "add.applied", "journal.written:error:3"])
def test_s12_a_failure_after_the_addresses_leaves_nothing(node: Node, step: str) -> None:
    node.start("--tick", "0.1", environment={"NETLOOM_FAILPOINT": step if ":" in step else f"{step}:error"})
    assert node.plugin("ADD", node.container()).status == 1
    assert eventually(lambda: node.ledger().places() == [])
    assert node.links() == []
    assert list(node.ledger().held()) == []
    assert node.audit() == []
