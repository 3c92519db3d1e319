"""Many at once: nobody gets what another has, and whoever comes last decides."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..fixtures.node import Node, eventually

pytestmark = pytest.mark.kernel


def test_a3_a_hundred_adds_at_once_have_addresses_of_their_own(running: Node) -> None:
    containers = [running.container() for _ in range(100)]
    with ThreadPoolExecutor(100) as pool:
        outcomes = list(pool.map(running.add, containers))
    addresses = [address for outcome in outcomes for address in outcome.addresses]
    assert len(set(addresses)) == len(addresses) == 200
    assert running.audit() == []


def test_a_hundred_adds_and_dels_of_few_keys_end_consistent(running: Node) -> None:
    containers = [running.container() for _ in range(10)]
    work = [(verb, container) for container in containers for verb in ("ADD", "DEL") for _ in range(10)]
    random.Random(1).shuffle(work)
    with ThreadPoolExecutor(40) as pool:
        outcomes = list(pool.map(lambda it: running.ask(*it), work))
    assert [outcome.document for outcome in outcomes if outcome.status != 0] == []
    assert running.audit() == []
    assert len(running.links()) == len(running.ledger().places())


def test_pairs_of_plugins_on_the_same_keys_end_consistent(running: Node) -> None:
    """Two processes for each container, begun at the same moment: an ADD and a DEL."""
    containers = [running.container() for _ in range(100)]
    for start in range(0, 100, 25):
        some = containers[start : start + 25]
        for verb in ("ADD", "DEL"):
            processes = [running.begin(it, container) for container in some for it in (verb, "DEL")]
            for process in processes:
                process.communicate(timeout=60)
            assert [process.returncode for process in processes] == [0] * len(processes)
    # What the agent had no time for while a plugin waited.
    assert eventually(lambda: running.intents() == [] and running.info()["under_way"] == 0)
    assert running.ledger().places() == []
    assert running.links() == []
    assert running.audit() == []


def test_two_plugins_for_one_container_get_one_attachment(running: Node) -> None:
    container = running.container()
    processes = [running.begin("ADD", container) for _ in range(2)]
    answers = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert answers[0] == answers[1]
    assert len(running.links()) == 1
    assert running.audit() == []


def test_adds_in_two_namespaces_under_one_id_leave_one_of_them_attached(running: Node) -> None:
    container, other = running.container(), running.container()
    with ThreadPoolExecutor(2) as pool:
        paths = [f"/run/netns/{it}" for it in (container, other)]
        outcomes = list(pool.map(lambda path: running.ask("ADD", container, CNI_NETNS=path), paths))
    assert sorted(outcome.code for outcome in outcomes) == [0, 104]
    assert running.audit() == []


def test_the_last_address_goes_to_one_of_many(running: Node) -> None:
    config = running.config(pools=[{"cidr": "10.9.0.1/32"}])
    containers = [running.container() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(lambda it: running.ask("ADD", it, config), containers))
    assert sorted(outcome.status for outcome in outcomes) == [0] + [1] * 19
    assert running.audit([{"cidr": "10.9.0.1/32"}]) == []


def test_more_clients_than_the_agent_takes_at_once_are_all_served(running: Node) -> None:
    """1,024 are served at a time; the others wait in the socket's queue."""
    with ThreadPoolExecutor(64) as pool:
        idle = [running.connect() for _ in range(1100)]
        status = pool.map(lambda _: running.ask("STATUS", "").status, range(64))
        for connection in idle:
            connection.close()
        assert set(status) == {0}
