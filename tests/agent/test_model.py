"""Operations at random against a model of a few lines, which says what each must answer.

9,000 of them, with another seed each time; 50,000 in `make soak`, which also looks at the agent's memory.

Each client has a network and containers of its own, so that its model is exact, whatever the others do.
The agent is stopped and killed in between; who was not answered asks again.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from netloom.cni import AttachmentKey
from netloom.kernel.values import shown_ip

from ..fixtures.node import PATIENCE, Node, Outcome, eventually

pytestmark = pytest.mark.kernel

ROUND, LONG_ROUND = 400, 1_000
ROUNDS, SOAK = 22, 50
CLIENTS = 4
CONTAINERS = 10
IFNAMES = ("eth0", "net1")
# In these rounds the agent ends. After the last it lives on, so that its memory can be looked at.
RESTARTS: dict[int, Callable[[Node], object]] = {
    3: Node.stop,
    7: Node.kill,
    11: Node.stop,
    15: Node.kill,
    17: Node.kill,
    19: Node.stop,
}
# Caches fill slowly, and some work is done once a minute: it may take its memory after that.
WARM, GROWTH = 32, 6 << 20

COOLDOWN = 10.0
POOLS = ({"cidr": "10.9.0.0/20"}, {"cidr": "fd09::/64"})

BUSY, ELSEWHERE, UNKNOWN = 11, 104, 3


class Addresses:
    """Who has which: nobody has another's, and none that went a moment ago."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[str, AttachmentKey] = {}
        self._released: dict[str, float] = {}

    def take(self, key: AttachmentKey, addresses: Sequence[str]) -> None:
        with self._lock:
            for address in addresses:
                assert self._holders.setdefault(address, key) == key
                rested = time.monotonic() - self._released.get(address, float("-inf"))
                assert rested >= COOLDOWN / 10, f"{address} rested for {rested:.1f} s only"

    def release(self, addresses: Sequence[str]) -> None:
        """Before it is asked for: as soon as it is done, another may have them."""
        with self._lock:
            for address in addresses:
                del self._holders[address]
                self._released[address] = time.monotonic()


class Client:
    """One network. `attached` is the model: the result of every attachment that there is."""

    def __init__(self, node: Node, number: int, seed: int, addresses: Addresses) -> None:
        self.network = f"net{number}"
        self._node = node
        self._random = random.Random(seed)
        self._addresses = addresses
        self._containers = [node.container() for _ in range(CONTAINERS)]
        self._config = self._configured()
        self.attached: dict[AttachmentKey, dict[str, Any]] = {}
        self.error: BaseException | None = None

    def run(self, operations: int) -> None:
        try:
            for operation in self._random.choices(*zip(*OPERATIONS_BY_WEIGHT, strict=True), k=operations):
                operation(self)
        except BaseException as error:
            self.error = error

    # Operations.

    def add(self) -> None:
        key = self._any_key()
        answer = self._asked("ADD", key)
        assert answer.code == 0, answer.output
        if key in self.attached:
            assert answer.document == self.attached[key]
        else:
            self._note(key, answer)

    def add_with_another_config(self) -> None:
        key = self._any_key()
        if key in self.attached:
            answer = self._asked("ADD", key, self._configured(mtu=1300))
            assert answer.code == ELSEWHERE, answer.output

    def add_in_another_container(self) -> None:
        key = self._any_key()
        if key in self.attached:
            another = self._random.choice([it for it in self._containers if it != key.container_id])
            answer = self._asked("ADD", key, netns=f"/run/netns/{another}")
            assert answer.code == ELSEWHERE, answer.output

    def check(self) -> None:
        key = self._any_key()
        result = self.attached.get(key, {"cniVersion": "1.1.0"})
        answer = self._asked("CHECK", key, self._configured(prevResult=result))
        assert answer.code == (0 if key in self.attached else UNKNOWN), answer.output

    def delete(self) -> None:
        self._delete(self._any_key())

    def delete_twice(self) -> None:
        key = self._any_key()
        self._delete(key)
        self._delete(key)

    def collect(self) -> None:
        """Most stay. Some that are called valid are not there."""
        stay = [key for key in self._keys() if self._random.random() < 0.9]
        self._collect(stay)

    def lose_container(self) -> None:
        """It goes without a DEL. The runtime says so later, or has another one in its place."""
        container = self._random.choice(self._containers)
        lost = [key for key in self.attached if key.container_id == container]
        subprocess.run(["ip", "netns", "del", container], check=True)
        told = self._random.choice((self._collect_lost, self._delete_lost, None))
        if told is not None:
            told(lost)
        subprocess.run(["ip", "netns", "add", container], check=True)
        if told is None:
            self._replace_lost(lost)

    def ask_status(self) -> None:
        assert self._asked("STATUS", AttachmentKey(self.network, "", "")).code == 0

    # Parts of them.

    def _delete(self, key: AttachmentKey) -> None:
        self._forget(key)
        assert self._asked("DEL", key).code == 0

    def _collect(self, stay: Sequence[AttachmentKey]) -> None:
        for key in self.attached.keys() - set(stay):
            self._forget(key)
        valid = [{"containerID": key.container_id, "ifname": key.ifname} for key in stay]
        config = self._configured(**{"cni.dev/valid-attachments": valid})
        answer = self._asked("GC", AttachmentKey(self.network, "", ""), config)
        assert answer.code == 0, answer.output

    def _collect_lost(self, lost: Sequence[AttachmentKey]) -> None:
        self._collect([key for key in self.attached if key not in lost])

    def _delete_lost(self, lost: Sequence[AttachmentKey]) -> None:
        for key in lost:
            self._delete(key)

    def _replace_lost(self, lost: Sequence[AttachmentKey]) -> None:
        """A namespace takes a moment to end; until then, the old attachment may still be somebody's."""
        for key in lost:
            self._forget(key)
        for key in lost:
            answer = self._asked("ADD", key)
            deadline = time.monotonic() + PATIENCE
            while answer.code == ELSEWHERE and time.monotonic() < deadline:
                time.sleep(0.01)
                answer = self._asked("ADD", key)
            assert answer.code == 0, answer.output
            self._note(key, answer)

    def _note(self, key: AttachmentKey, answer: Outcome) -> None:
        assert len(answer.addresses) == len(POOLS)
        self._addresses.take(key, answer.addresses)
        self.attached[key] = answer.document

    def _forget(self, key: AttachmentKey) -> None:
        result = self.attached.pop(key, None)
        if result is not None:
            self._addresses.release(addresses_of(result))

    def _keys(self) -> list[AttachmentKey]:
        return [AttachmentKey(self.network, it, ifname) for it in self._containers for ifname in IFNAMES]

    def _any_key(self) -> AttachmentKey:
        return AttachmentKey(
            self.network, self._random.choice(self._containers), self._random.choice(IFNAMES)
        )

    def _configured(self, **keys: Any) -> bytes:
        return self._node.config(self.network, pools=POOLS, cooldown=COOLDOWN, **keys)

    def _asked(
        self, verb: str, key: AttachmentKey, config: bytes | None = None, *, netns: str | None = None
    ) -> Outcome:
        """The answer; if there is none, because the agent was stopped or killed, that of the next one."""
        variables: dict[str, Any] = {} if netns is None else {"CNI_NETNS": netns}
        while True:
            try:
                answer = self._node.ask(
                    verb, key.container_id, config or self._config, ifname=key.ifname, **variables
                )
                if answer.code != BUSY:
                    return answer
            except (OSError, AssertionError):
                pass
            time.sleep(0.02)


OPERATIONS_BY_WEIGHT: list[tuple[Callable[[Client], None], float]] = [
    (Client.add, 40),
    (Client.delete, 18),
    (Client.delete_twice, 3),
    (Client.check, 25),
    (Client.add_with_another_config, 4),
    (Client.add_in_another_container, 4),
    (Client.ask_status, 3),
    (Client.collect, 1.5),
    (Client.lose_container, 0.5),
]


def addresses_of(result: dict[str, Any]) -> list[str]:
    return [ip["address"].split("/")[0] for ip in result["ips"]]


def test_every_answer_is_what_a_simple_model_says(node: Node, soak: bool) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    addresses = Addresses()
    clients = [Client(node, number, chance.randrange(1 << 32), addresses) for number in range(CLIENTS)]
    node.start()
    memory = descriptors = 0
    for number in range(SOAK if soak else ROUNDS):
        run_round(node, clients, LONG_ROUND if soak else ROUND, RESTARTS.get(number), chance)
        assert node.audit(POOLS) == []
        model = {key: addresses_of(it) for client in clients for key, it in client.attached.items()}
        assert addresses_in_journal(node) == model
        if number == (WARM if soak else max(RESTARTS) + 1):
            memory, descriptors = node.memory(), node.descriptors()
    assert eventually(lambda: node.descriptors() <= descriptors)
    if soak:
        assert node.memory() - memory < GROWTH


def run_round(
    node: Node,
    clients: Sequence[Client],
    count: int,
    end: Callable[[Node], object] | None,
    chance: random.Random,
) -> None:
    """`count` operations, and an agent that ends among them if `end` says how."""
    threads = [threading.Thread(target=it.run, args=(count // len(clients),)) for it in clients]
    for thread in threads:
        thread.start()
    if end is not None:
        time.sleep(chance.uniform(0.05, 0.5))
        end(node)
        node.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.error is not None:
            raise client.error


def addresses_in_journal(node: Node) -> dict[AttachmentKey, list[str]]:
    ledger = node.ledger()
    return {row.key: [shown_ip(ip) for _, ip in ledger.addresses_of(row.id)] for row in ledger.attachments()}
