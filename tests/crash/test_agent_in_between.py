"""What comes while the agent collects: an attachment that is younger than its judgement is spared."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from ..fixtures.node import Outcome, eventually, is_stopped, received
from .scene import FIRST, IMPATIENT, SECOND, Scene, needs_root

pytestmark = [pytest.mark.crash, needs_root]


def test_a_container_that_comes_back_while_it_is_collected_stays_attached(scene: Scene) -> None:
    node = scene.node
    scene.start("collect.found:stop", *IMPATIENT)
    node.remove_container(scene.victim)
    node.container(scene.victim)
    with asked_while_stopped(scene) as ask:
        answer = ask("ADD")
    assert answer.result().code == 0
    time.sleep(0.5)
    scene.require_sound()


def test_what_is_attached_while_others_are_collected_stays_attached(scene: Scene) -> None:
    """A GC speaks of the time at which it was asked for, however long it takes."""
    crowd = scene.node.container()
    for number in range(80):
        assert scene.node.ask("ADD", crowd, ifname=f"many{number}").code == 0
    assert scene.add().code == 0
    scene.start("gc.listed:stop")
    with ThreadPoolExecutor() as executor:
        collected = executor.submit(scene.collect)
        with asked_while_stopped(scene, SECOND) as ask:
            deleted, added = ask("DEL"), ask("ADD")
        assert (deleted.result().code, added.result().code, collected.result().code) == (0, 0, 0)
    scene.attached.add((scene.victim, SECOND))
    scene.require_sound()


@contextmanager
def asked_while_stopped(scene: Scene, ifname: str = FIRST) -> Iterator[Callable[[str], Future[Outcome]]]:
    """The agent has stopped at its step. What is asked in the block waits for it, and then it goes on.

    It finds what was asked in the order in which it came.
    """
    agent = scene.node.agent
    assert agent is not None
    assert eventually(lambda: is_stopped(agent))
    with ExitStack() as stack, ThreadPoolExecutor() as executor:

        def ask(verb: str) -> Future[Outcome]:
            connection = stack.enter_context(scene.node.sent(verb, scene.victim, ifname=ifname))
            return executor.submit(received, connection)

        yield ask
        agent.send_signal(signal.SIGCONT)
