"""SIGKILL at any moment, while many ask: what the agent said is so, and the rest is settled."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netloom.failpoints import NAMES
from netloom.kernel.values import shown_ip

from ..fixtures.node import Node, Outcome, eventually
from .scene import FIRST, IMPATIENT, Scene, needs_root

pytestmark = [pytest.mark.crash, needs_root]

ROUNDS = 25
CLIENTS = 6


class Client:
    """Attaches and detaches its containers until it is not answered. `told` is what it knows of them."""

    def __init__(self, node: Node, seed: int) -> None:
        self._node = node
        self._random = random.Random(seed)
        # A container's addresses; none: it is detached; absent: nobody told.
        self.told: dict[str, list[str]] = {node.container(): [] for _ in range(2)}
        self.containers = list(self.told)
        self.answers = 0
        self.wrong: list[str] = []
        # A code that is no surprise.
        self.bears = 0
        self._enough = threading.Event()

    def stop(self) -> None:
        self._enough.set()

    def run(self) -> None:
        while not self._enough.is_set():
            container = self._random.choice(self.containers)
            verb = self._random.choice(("ADD", "DEL"))
            before = self.told.get(container)
            if verb == "DEL" or not before:
                self.told.pop(container, None)
            answer = self._asked(verb, container)
            if answer is None:
                return
            self.answers += 1
            if answer.code == self.bears != 0:
                continue
            if answer.status != 0 or (verb == "ADD" and before and answer.addresses != before):
                self.wrong.append(f"{verb} {container}, which had {before}: {answer.output!r}")
                return
            self.told[container] = answer.addresses if verb == "ADD" else []

    def _asked(self, verb: str, container: str) -> Outcome | None:
        try:
            return self._node.ask(verb, container)
        except (OSError, AssertionError):  # it is not there, or hung up
            return None


@pytest.fixture
def chance() -> random.Random:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


@pytest.fixture
def clients(scene: Scene, chance: random.Random) -> list[Client]:
    return [Client(scene.node, chance.randrange(1 << 32)) for _ in range(CLIENTS)]


@contextmanager
def load(clients: list[Client]) -> Iterator[None]:
    """All of them ask at the same time, until they are no longer answered."""
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def test_an_agent_killed_at_any_moment_has_kept_its_word(
    scene: Scene, clients: list[Client], chance: random.Random
) -> None:
    for _ in range(ROUNDS):
        with load(clients):
            time.sleep(chance.uniform(0.01, 0.3))
            scene.node.kill()
        scene.node.start()
        require_kept_word(scene, clients)
    assert sum(client.answers for client in clients) > ROUNDS
    scene.require_verbs_work()


def test_an_agent_killed_in_the_midst_of_any_step_of_many_has_kept_its_word(
    scene: Scene, clients: list[Client], chance: random.Random
) -> None:
    steps = [name for name in NAMES if name.split(".")[0] in ("add", "del", "journal", "kernel")]
    for _ in range(ROUNDS):
        step = f"{chance.choice(steps)}:kill:{chance.randrange(1, 100)}"
        if scene.lives_to_serve(step):
            require_kept_word(scene, clients)
            with load(clients):
                if scene.survived(1.0):
                    scene.node.kill()
    scene.start()
    require_kept_word(scene, clients)
    scene.require_verbs_work()


def test_a_table_flushed_under_load_is_whole_again_without_what_went_meanwhile(
    scene: Scene, clients: list[Client], chance: random.Random
) -> None:
    scene.start("", *IMPATIENT)
    for client in clients:
        client.bears = 100  # an ADD that finds no table fails, and leaves nothing
    with load(clients):
        for _ in range(40):
            scene.node.inside("nft", "flush", "ruleset")
            time.sleep(chance.uniform(0.02, 0.2))
        for client in clients:
            client.stop()
    assert eventually(lambda: scene.node.audit() == []), scene.node.audit()
    require_kept_word(scene, clients)


def require_kept_word(scene: Scene, clients: list[Client]) -> None:
    attached = addresses_by_container(scene.node)
    for client in clients:
        assert client.wrong == []
        for container in client.containers:
            found = attached.get(container, [])
            assert found == client.told.get(container, found)
            client.told[container] = found
            scene.attached.discard((container, FIRST))
            if found:
                scene.attached.add((container, FIRST))
    scene.require_sound()


def addresses_by_container(node: Node) -> dict[str, list[str]]:
    ledger = node.ledger()
    return {
        row.container_id: [shown_ip(ip) for _, ip in ledger.addresses_of(row.id)]
        for row in ledger.attachments()
    }
