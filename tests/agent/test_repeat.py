"""The same key again: the same answer, or an error, and never a second attachment."""

from __future__ import annotations

import json

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

GATEWAY = "169.254.1.1"


@pytest.fixture
def running(shared: Node) -> Node:
    return shared


def kernel_of(node: Node, container: str) -> list[object]:
    """What the kernel knows of a container and of the host, without what settles by itself after a while."""
    questions = [
        ["link"],
        ["addr", "show", "scope", "global"],
        ["route", "show", "table", "all", "proto", "78"],
        ["-6", "route", "show", "table", "all", "proto", "78"],
        ["rule"],
    ]
    texts = [node.in_container(container, "ip", "-j", *it).stdout for it in questions]
    texts += [node.inside("ip", "-j", *it) for it in questions]
    return [json.loads(text or "[]", object_hook=_settled) for text in texts]


def _settled(values: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if key not in ("operstate", "flags")}


def test_a2_add_again_is_the_same_answer_and_leaves_the_kernel_as_it_is(running: Node) -> None:
    container = running.container()
    first = running.add(container)
    before = kernel_of(running, container)
    again = running.add(container)
    assert again.document == first.document
    assert kernel_of(running, container) == before
    assert running.audit() == []


def test_add_again_is_the_same_answer_after_a_restart(running: Node) -> None:
    container = running.container()
    first = running.add(container)
    running.kill()
    running.start()
    assert running.add(container).document == first.document
    assert running.audit() == []


def test_add_again_puts_back_what_was_lost(running: Node) -> None:
    container = running.container()
    first = running.add(container)
    running.in_container(container, "ip", "route", "del", "default")
    assert running.add(container).document == first.document
    assert running.audit() == []


def test_add_again_answers_in_the_version_of_the_second_config(running: Node) -> None:
    container = running.container()
    first = running.add(container, running.config(version="1.1.0"))
    # Another version is another configuration of the same attachment.
    assert running.plugin("ADD", container, running.config(version="0.4.0")).code == 104
    assert running.add(container).document == first.document


def test_add_in_another_namespace_is_refused_while_the_first_lives(running: Node) -> None:
    container, other = running.container(), running.container()
    running.add(container)
    before = kernel_of(running, container)
    done = running.plugin("ADD", container, CNI_NETNS=f"/run/netns/{other}")
    assert done.code == 104
    assert kernel_of(running, container) == before
    assert running.in_container(other, "ip", "-j", "link", "show", "type", "veth").stdout.strip() in (
        "",
        "[]",
    )
    assert running.audit() == []


def test_add_with_another_config_is_refused(running: Node) -> None:
    container = running.container()
    running.add(container)
    before = kernel_of(running, container)
    assert running.plugin("ADD", container, running.config(mtu=1400)).code == 104
    assert kernel_of(running, container) == before


def test_add_with_other_arguments_is_refused(running: Node) -> None:
    container = running.container()
    running.add(container)
    assert running.plugin("ADD", container, CNI_ARGS="IP=10.9.7.7").code == 104


def test_add_replaces_what_a_container_left_that_is_gone(running: Node) -> None:
    """A runtime that lost its DEL makes the container again, with the same ID."""
    container = running.container()
    first = running.add(container)
    running.remove_container(container)
    # The kernel takes a namespace apart when it has the time.
    assert eventually(lambda: running.links() == [])
    running.container(container)
    second = running.add(container)
    assert second.document["interfaces"][1] == first.document["interfaces"][1]
    assert running.ping(container, GATEWAY)
    assert running.audit() == []


def test_the_answer_does_not_depend_on_what_plugins_before_did(running: Node) -> None:
    container = running.container()
    first = running.add(container)
    before = {"cniVersion": "1.1.0", "interfaces": [{"name": "dummy0"}], "ips": []}
    again = running.add(container, running.config(prevResult=before))
    assert again.document == first.document


def test_del_then_add_gives_another_address(running: Node) -> None:
    """One that was just released rests: the world still sends to it."""
    container = running.container()
    first = running.add(container)
    running.delete(container)
    second = running.add(container)
    assert not set(first.addresses) & set(second.addresses)


def test_two_networks_may_give_one_container_the_same_interface_only_once(running: Node) -> None:
    container = running.container()
    running.add(container)
    done = running.plugin("ADD", container, running.config("other"))
    assert done.code == 102
    assert running.audit() == []


def test_containers_with_ids_of_one_long_beginning_do_not_meet(running: Node) -> None:
    stem = "c" * 60
    one, other = running.container(f"{stem}1"), running.container(f"{stem}2")
    results = [running.add(it).document for it in (one, other)]
    assert results[0]["interfaces"][0]["name"] != results[1]["interfaces"][0]["name"]
    running.delete(one)
    assert running.ping(other, GATEWAY)
    assert running.audit() == []


def test_del_of_one_interface_leaves_the_other(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.add(container, running.config("other"), ifname="net1")
    running.delete(container)
    left = json.loads(running.in_container(container, "ip", "-j", "link").stdout)
    assert [link["ifname"] for link in left] == ["lo", "net1"]
    assert running.audit() == []


def test_del_of_another_network_with_the_same_name_of_interface_leaves_ours(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.delete(container, running.config("other"))
    assert len(running.links()) == 1
    assert running.audit() == []


def test_the_result_names_the_containers_namespace(running: Node) -> None:
    container = running.container()
    host, inside = running.add(container).document["interfaces"]
    assert "sandbox" not in host
    assert inside["sandbox"] == f"/run/netns/{container}"
