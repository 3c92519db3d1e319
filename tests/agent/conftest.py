from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .stage import Node


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
