"""The six verbs, as a runtime sees them through the plugin."""

from __future__ import annotations

import pytest

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel


def test_two_containers_reach_each_other_in_both_families(running: Node) -> None:
    one, other = running.container(), running.container()
    running.add(one)
    added = running.add(other)
    assert all(running.ping(one, address) for address in added.addresses)
    assert running.audit() == []


def test_del_leaves_nothing_behind(running: Node) -> None:
    container = running.container()
    running.add(container)
    running.delete(container)
    assert running.links() == []
    assert running.audit() == []
    assert running.ledger().places() == []
