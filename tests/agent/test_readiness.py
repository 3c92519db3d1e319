"""Whether an agent could follow is asked of a node that works: what changes meanwhile is asked for again."""

from __future__ import annotations

import errno

import pytest

from netloom.agent.node import Settings
from netloom.agent.readiness import require_ready
from netloom.kernel import KernelError

from .stage import Node, eventually
from .storm import storm
from .succession import successor

pytestmark = pytest.mark.kernel


def test_a_node_that_changes_all_the_time_is_followed_when_it_rests(running: Node) -> None:
    before = running.agent
    assert before is not None
    with storm(running) as blowing:
        after = successor(running)
        assert eventually(lambda: "trying again" in running.log()), running.log()[-2000:]
        assert (after.poll(), before.poll()) == (None, None)
        blowing.kill()
        blowing.wait(10)
        assert eventually(lambda: before.poll() is not None), running.log()[-2000:]
    running.agent = after
    assert before.returncode == 0
    assert running.plugin("STATUS").status == 0


def test_one_that_never_rests_is_not_followed_and_goes_on(running: Node) -> None:
    settings = Settings(state_dir=str(running.state_dir), socket=str(running.socket))
    with storm(running), running.namespace.entered(), pytest.raises(KernelError) as refused:
        require_ready(settings, patience=1.0)
    assert refused.value.errno == errno.EINTR
    assert running.plugin("STATUS").status == 0
