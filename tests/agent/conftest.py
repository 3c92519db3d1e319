from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    """A node without an agent. Its directory has a short name: a socket's path may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory, Node(Path(directory)) as made:
        yield made


@pytest.fixture
def running(node: Node) -> Node:
    """A node whose agent serves."""
    node.start()
    return node


@pytest.fixture(scope="module")
def lasting() -> Iterator[Node]:
    """A node whose agent serves all tests of a file, which must leave nothing on it."""
    with tempfile.TemporaryDirectory(prefix="node-", dir="/run") as directory, Node(Path(directory)) as made:
        made.start()
        yield made


@pytest.fixture
def shared(lasting: Node) -> Iterator[Node]:
    """The same, for tests that leave attachments: these are deleted after each."""
    yield lasting
    for place in lasting.ledger().places():
        config = lasting.config(place.key.network)
        assert lasting.ask("DEL", place.key.container_id, config, ifname=place.key.ifname).status == 0
