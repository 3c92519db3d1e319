from __future__ import annotations

import pytest

from ..agent.conftest import node as node
from ..fixtures.node import Node
from .scene import Scene


@pytest.fixture
def scene(node: Node) -> Scene:
    """Two containers that talk to each other, a third that things happen to, and an agent that serves."""
    node.start()
    return Scene(node)
