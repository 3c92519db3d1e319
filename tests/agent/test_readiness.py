"""Whether an agent could follow is asked of a node that works: what changes meanwhile is asked for again."""

from __future__ import annotations

import errno

import pytest

from netloom.agent.handover.successor import require_ready
from netloom.agent.settings import Settings
from netloom.kernel import KernelError

from ..fixtures.nft_storm import storm
from ..fixtures.node import Node, eventually
from ..fixtures.successor import successor

pytestmark = pytest.mark.kernel

# An agent that ticks would take what makes its lists long for a fault of its table, and mend it.
AT_REST = ("--tick", "600")
# In a lull of the storm, one that is to follow finds the node ready, and whatever it asks next may fail.
TRIES = 10
# Before a list is given up, it is asked for again and again.
PATIENCE = 60.0


def test_a_node_that_changes_all_the_time_is_followed_when_it_rests(node: Node) -> None:
    node.start(*AT_REST)
    assert any(is_followed_when_it_rests(node) for _ in range(TRIES)), node.log()[-2000:]
    assert node.plugin("STATUS").status == 0


def is_followed_when_it_rests(node: Node) -> bool:
    """Whether its successor waited, and then followed."""
    before, logged = node.agent, len(node.log())
    assert before is not None
    with storm(node) as blowing:
        after = successor(node, "", *AT_REST)
        either = (before, after)
        assert eventually(
            lambda: "trying again" in node.log()[logged:] or any(it.poll() is not None for it in either),
            PATIENCE,
        ), node.log()[-2000:]
        waits = [it.poll() for it in either] == [None, None]
        blowing.kill()
        blowing.wait(10)
        assert eventually(lambda: any(it.poll() is not None for it in either)), node.log()[-2000:]
    if before.poll() is not None:
        node.agent = after
    return waits and before.poll() == 0


def test_one_that_never_rests_is_not_followed_and_goes_on(node: Node) -> None:
    node.start(*AT_REST)
    settings = Settings(state_dir=str(node.state_dir), socket=str(node.socket))

    def is_refused() -> bool:
        try:
            require_ready(settings, patience=1.0)
        except KernelError as error:
            assert error.errno == errno.EINTR
            return True
        return False

    with storm(node), node.namespace.entered():
        assert eventually(is_refused, PATIENCE)
    assert eventually(lambda: node.plugin("STATUS").status == 0, PATIENCE)
