"""A dataplane that hangs and one that has much to do: whoever watches can tell them apart."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from netloom.agent.liveness import stuck
from netloom.agent.node import Node
from netloom.agent.settings import Settings
from netloom.journal import Journal
from netloom.kernel import Namespace, QueueFull
from netloom.kernel.dataplane import Dataplane, DataplaneRequest
from netloom.networks.table import TABLE

pytestmark = pytest.mark.kernel

LIMIT = 8
# More than the machine may have something else to do for.
PATIENCE = 3.0


class Workshop:
    """What an agent works with, in a namespace of its own, and work that is as slow as it is told to be."""

    def __init__(self, journal: Journal, dataplane: Dataplane) -> None:
        self.journal = journal
        self.dataplane = dataplane
        self.released = threading.Event()

    def slow(self, seconds: float, *, timeout: float = 30.0) -> DataplaneRequest[None]:
        """Keeps the dataplane's own thread for so long, and then lays a table down."""

        def wait(_: Namespace) -> list[object]:
            time.sleep(seconds)
            return []

        return self.dataplane.lay_down(TABLE, wait, timeout=timeout)  # type: ignore[arg-type]

    def hang(self) -> None:
        """The thread is inside, and does not come back before it is released."""
        inside = threading.Event()

        def wait(_: Namespace) -> list[object]:
            inside.set()
            self.released.wait(60)
            return []

        self.dataplane.lay_down(TABLE, wait)  # type: ignore[arg-type]
        assert inside.wait(10)

    def parts(self, beside: Callable[[], Coroutine[None, None, None]] | None = None) -> list[str]:
        """What is stuck; found while something else goes on."""

        async def found() -> list[str]:
            node = Node(Settings(), self.journal, self.dataplane)
            other = None if beside is None else asyncio.ensure_future(beside())
            try:
                return [it.subject for it in await stuck(node, PATIENCE)]
            finally:
                if other is not None:
                    other.cancel()

        return asyncio.run(found())


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with (
        Namespace.new() as host,
        Journal(str(tmp_path / "journal.db")) as journal,
        Dataplane(host, limit=LIMIT) as dataplane,
    ):
        made = Workshop(journal, dataplane)
        try:
            yield made
        finally:
            made.released.set()


def test_one_that_rests_is_alive(workshop: Workshop) -> None:
    assert workshop.parts() == []


def test_one_that_hangs_is_named(workshop: Workshop) -> None:
    workshop.hang()
    assert workshop.parts() == ["dataplane"]
    workshop.released.set()
    assert workshop.parts() == []


def test_requests_whose_time_is_over_are_no_progress(workshop: Workshop) -> None:
    """They are answered by another thread, which sees to it that nobody waits for ever."""
    workshop.hang()

    async def impatient() -> None:
        while True:
            workshop.slow(0, timeout=0.02)
            await asyncio.sleep(0.05)

    assert workshop.parts(impatient) == ["dataplane"]


def test_one_that_hangs_with_a_full_queue_is_named(workshop: Workshop) -> None:
    workshop.hang()
    for _ in range(LIMIT - 1):
        workshop.slow(0)
    with pytest.raises(QueueFull):
        workshop.slow(0)
    assert workshop.parts() == ["dataplane"]


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT], ids=["long", "full"])
def test_a_queue_that_moves_is_no_hang(workshop: Workshop, length: int) -> None:
    """Whoever comes last waits for longer than anybody watches."""

    async def busy() -> None:
        while True:
            while workshop.dataplane.lanes["add"] < length:
                workshop.slow(PATIENCE / 4)
            await asyncio.sleep(0.001)

    for _ in range(length):
        workshop.slow(PATIENCE / 4)
    assert workshop.parts(busy) == []
