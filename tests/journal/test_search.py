"""Finding in the journal what people name."""

from __future__ import annotations

from typing import Any

import pytest

from netloom.journal import Ledger, Operation, empty, search
from netloom.journal.search import AgentOutage

pytestmark = pytest.mark.unit


def operation(verb: str, container: str = "", started: float = 0.0, **more: Any) -> Operation:
    return Operation(
        verb=verb, network="net" if container else "", container_id=container,
        ifname="eth0" if container else "",
        started=started, duration=1.0, phases={}, **more,
    )  # fmt: skip


@pytest.fixture
def ledger() -> Ledger:
    made = empty()
    made.record(
        [
            operation("START", started=10.0),
            operation("ADD", "abc1", started=11.0, namespace="shop", pod="api", netns="/run/netns/one"),
            operation("ADD", "abc2", started=12.0, namespace="bank", pod="api", netns="/run/netns/two"),
            operation("DEL", "abc1", started=13.0, namespace="shop", pod="api", netns="/run/netns/one"),
            operation("ADD", "a_c", started=14.0),
        ]
    )
    return made


def test_a_container_is_found_by_its_beginning_and_nothing_else_is(ledger: Ledger) -> None:
    assert [it.container_id for it in search.named(ledger, "abc")] == ["abc1", "abc2"]
    assert [it.container_id for it in search.named(ledger, "abc1")] == ["abc1"]
    assert [it.container_id for it in search.named(ledger, "a_c")] == ["a_c"]
    assert search.named(ledger, "ABC") == []
    assert search.named(ledger, "%") == []


def test_a_pod_and_a_namespace_are_found_by_their_names(ledger: Ledger) -> None:
    assert [it.namespace for it in search.named(ledger, "api")] == ["shop", "bank"]
    assert [it.container_id for it in search.of_pod(ledger, "bank", "api")] == ["abc2"]
    assert [it.container_id for it in search.named(ledger, "\0", ["/run/netns/two"])] == ["abc2"]


def test_a_key_may_be_cut_short(ledger: Ledger) -> None:
    assert [it.container_id for it in search.of_key(ledger, "net", "abc", "eth0")] == ["abc1", "abc2"]
    assert search.of_key(ledger, "other", "abc", "eth0") == []


def test_without_the_log_only_what_is_attached_is_found(ledger: Ledger) -> None:
    assert search.named(ledger, "abc", log=False) == []


def test_each_is_found_once(ledger: Ledger) -> None:
    assert len(search.named(ledger, "abc1")) == 1
    assert sorted(str(it) for it in search.keys(ledger)) == ["net/a_c/eth0", "net/abc1/eth0", "net/abc2/eth0"]


def test_the_beginning_of_the_log_is_known(ledger: Ledger) -> None:
    assert (search.first_logged(ledger), search.first_logged(empty())) == (10.0, None)


def test_times_without_an_agent_are_known(ledger: Ledger) -> None:
    assert search.outages(ledger) == []
    ledger.record([operation("START", started=30.0), operation("STOP", started=40.0)])
    # The first was killed after its last sign of life, the second was stopped.
    assert search.outages(ledger) == [AgentOutage(14.001, 30.0, False), AgentOutage(40.0, None, True)]
    ledger.record([operation("START", started=50.0)])
    assert search.outages(ledger)[-1] == AgentOutage(40.0, 50.0, True)


def test_a_better_sign_of_life_than_the_last_line_is_taken(ledger: Ledger) -> None:
    """What the next agent did before its START is none of the one before it."""
    ledger.record([operation("UNDO", "abc2", started=29.0), operation("START", started=30.0, heartbeat=25.0)])
    assert search.outages(ledger) == [AgentOutage(25.0, 30.0, False)]


def test_a_sign_that_is_later_than_the_next_start_claims_nothing(ledger: Ledger) -> None:
    """As of a clock that was set back."""
    ledger.record([operation("START", started=30.0, heartbeat=99.0)])
    assert search.outages(ledger) == [AgentOutage(30.0, 30.0, False)]


def test_an_agent_that_was_killed_and_has_no_successor_is_known_to_have_lived(ledger: Ledger) -> None:
    assert search.outages(ledger, is_down=True) == [AgentOutage(14.001, None, False)]
    assert search.ended_uncleanly(ledger)
    ledger.record([operation("STOP", started=40.0)])
    assert search.outages(ledger, is_down=True) == [AgentOutage(40.0, None, True)]
    assert not search.ended_uncleanly(ledger)


def test_a_log_that_begins_in_an_agents_life_has_no_outage_before_it() -> None:
    made = empty()
    made.record(
        [operation("ADD", "c", started=1.0), operation("STOP", started=2.0), operation("START", started=3.0)]
    )
    assert search.outages(made) == [AgentOutage(2.0, 3.0, True)]


def test_a_handover_is_no_time_without_an_agent(ledger: Ledger) -> None:
    ledger.record(
        [
            operation("STOP", started=20.0, reason="handover"),
            operation("START", started=20.1),
            operation("START", started=30.0),
        ]
    )
    # The last of them follows one that was killed.
    (outage,) = search.outages(ledger)
    assert (outage.ended, outage.stopped) == (30.0, False)
    assert outage.began == pytest.approx(20.101)


def test_what_befell_the_node_is_found_without_what_befell_containers(ledger: Ledger) -> None:
    ledger.record([operation("TABLE", started=20.0), operation("TABLE", "abc2", started=21.0)])
    assert [it.started for it in ledger.operations_of_node("TABLE")] == [20.0]
