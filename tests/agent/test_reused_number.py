"""A namespace is known by more than its path and its number: both are given again, the number at once."""

from __future__ import annotations

import os
import sqlite3

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel

FAST = ("--grace", "0.5", "--tick", "0.1")


def replace(node: Node, container: str, *options: str) -> None:
    """Another namespace in the container's place, with its number.

    The kernel gives the lowest number that is free; which one that is, the rest of the machine decides. So it
    is the journal that has the new one's, as it would have had by chance.
    """
    node.kill()
    node.remove_container(container)
    node.container(container)
    path = f"/run/netns/{container}"
    with sqlite3.connect(node.state_dir / "journal.db") as journal:
        journal.execute("UPDATE attachment SET netns_inode = ? WHERE netns = ?", (os.stat(path).st_ino, path))
    journal.close()
    node.start(*options)


def links_in(node: Node, container: str) -> str:
    return node.in_container(container, "ip", "-o", "link").stdout


def test_a_namespace_with_the_number_of_a_dead_one_is_not_attached_in_its_place(node: Node) -> None:
    node.start(*FAST)
    container = node.container()
    node.add(container)
    replace(node, container, *FAST)
    assert not eventually(lambda: "eth0" in links_in(node, container), patience=1.5)


def test_what_the_dead_one_held_is_given_back(node: Node) -> None:
    node.start(*FAST)
    container = node.container()
    node.add(container)
    replace(node, container, *FAST)
    assert eventually(lambda: node.ledger().places() == [])
    assert node.audit() == []


def test_add_in_the_new_one_is_a_new_attachment(node: Node) -> None:
    node.start("--grace", "60")
    container = node.container()
    first = node.add(container).addresses
    replace(node, container, "--grace", "60")
    second = node.add(container).addresses
    assert set(first).isdisjoint(second)
    assert node.ping(container, "169.254.1.1")
    assert node.audit() == []


def test_the_first_interface_of_the_new_one_has_the_default_route(node: Node) -> None:
    """The interfaces of the dead one, which nobody has deleted yet, are none of its."""
    node.start("--grace", "60")
    container = node.container()
    node.add(container, CNI_CONTAINERID="before")
    replace(node, container, "--grace", "60")
    added = node.add(container, CNI_CONTAINERID="after")
    assert {route["dst"] for route in added.document["routes"]} == {"0.0.0.0/0", "::/0"}


def test_further_interfaces_of_the_same_namespace_are_still_told_apart(node: Node) -> None:
    node.start()
    container = node.container()
    for ifname in ("eth0", "net1", "net2"):
        node.add(container, ifname=ifname)
    assert sorted(it.rank for it in node.ledger().attachments()) == [0, 1, 2]


def test_an_attachment_of_an_older_journal_is_kept_without_its_cookie(node: Node) -> None:
    node.start(*FAST)
    container = node.container()
    node.add(container)
    node.stop()
    with sqlite3.connect(node.state_dir / "journal.db") as journal:
        journal.execute("UPDATE attachment SET netns_cookie = 0")
    journal.close()
    node.start(*FAST)
    node.inside("ip", "link", "delete", node.link_of(container))
    assert eventually(lambda: "eth0" in links_in(node, container))
