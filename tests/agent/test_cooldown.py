"""Addresses that rested long enough for every network leave no trace: of a large pool, there are many."""

from __future__ import annotations

import sqlite3

import pytest

from netloom.journal import boottime

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel

DAY = 86400.0


def test_what_rested_for_a_day_is_forgotten_and_what_rests_is_not(node: Node) -> None:
    node.start()
    container = node.container()
    addresses = node.add(container).addresses
    node.delete(container)
    assert node.stop() == 0
    resting(node, b"\xfd" + bytes(15), boottime() - DAY - 60)
    node.start()
    query = "SELECT count(*), min(released) FROM address"
    count, released = node.ledger().connection.execute(query).fetchone()
    assert count == len(addresses)
    assert released > boottime() - 60
    assert node.add(container).addresses != addresses


def resting(node: Node, ip: bytes, released: float) -> None:
    with sqlite3.connect(node.state_dir / "journal.db") as connection:
        connection.execute("INSERT INTO address VALUES ('main', ?, NULL, 1.0, ?)", (ip, released))
    connection.close()
