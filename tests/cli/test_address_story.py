"""Who had an address when, from logs that agents leave behind in all kinds of nights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from netloom.journal import Operation, empty
from netloom.kernel import Namespace
from netloom.ops.explain.address import story_of
from netloom.ops.explain.explanation import AddressStory

pytestmark = pytest.mark.unit

# Of no network, and not the host's own.
ADDRESS = "198.51.100.77"


def operation(verb: str, container: str, at: float, **more: Any) -> Operation:
    of_container = bool(container)
    return Operation(
        verb=verb,
        network="net" if of_container else "",
        container_id=container,
        ifname="eth0" if of_container else "",
        started=at,
        duration=1.0,
        phases={},
        caller="containerd[1]" if verb in ("ADD", "DEL") else "",
        addresses=(ADDRESS,) if of_container else (),
        **more,
    )


def told(operations: Iterable[Operation], at: float | None = None) -> AddressStory:
    ledger = empty()
    ledger.record(list(operations))
    packed = bytes(map(int, ADDRESS.split(".")))
    with Namespace.own() as host:
        story = story_of(ADDRESS, packed, at, ledger, host, [], []).address
    assert story is not None
    return story


def tenures(*operations: Operation) -> list[tuple[str, float | None, float | None]]:
    return [(it.container_id, it.began, it.ended) for it in reversed(told(operations).tenures)]


def test_one_after_the_other_each_has_its_time() -> None:
    assert tenures(
        operation("ADD", "a", 10),
        operation("DEL", "a", 20),
        operation("ADD", "b", 30),
        operation("DEL", "b", 40),
    ) == [("a", 10, 20), ("b", 30, 40)]


def test_the_same_again_is_one_time() -> None:
    assert tenures(operation("ADD", "a", 10), operation("ADD", "a", 15), operation("DEL", "a", 20)) == [
        ("a", 10, 20)
    ]


def test_what_failed_or_only_looked_gives_nothing() -> None:
    assert tenures(operation("ADD", "a", 10, code=101), operation("CHECK", "b", 11)) == []


def test_whatever_way_an_address_is_given_back_ends_it() -> None:
    for verb in ("RELEASE", "REPLAY", "UNDO"):
        found = told([operation("ADD", "a", 10), operation(verb, "a", 20, details="why")]).tenures
        assert [(it.ended, it.how) for it in found] == [(20, "why")]


def test_a_new_boot_ends_what_the_old_one_had() -> None:
    assert tenures(operation("ADD", "a", 10), operation("START", "", 50, reason="reboot")) == [("a", 10, 50)]
    (lasting,) = told([operation("ADD", "a", 10), operation("START", "", 50)]).tenures
    assert (lasting.ended, lasting.current) == (None, False)


def test_an_end_whose_beginning_is_older_than_the_log_is_told_so() -> None:
    operations = [operation("ADD", "z", 5), operation("DEL", "a", 20)]
    assert tenures(*operations)[-1] == ("a", None, 20)
    moment = told(operations[1:], at=20 - 1e-6).at
    assert moment is not None
    assert not moment.known


def test_an_end_that_nobody_wrote_down_is_not_made_up() -> None:
    operations = [operation("ADD", "a", 10), operation("ADD", "b", 30)]
    first, second = reversed(told(operations).tenures)
    assert (first.ended, bool(first.how)) == (None, True)
    assert (second.began, second.ended) == (30, None)
    moment = told(operations, at=20).at
    assert moment is not None
    assert (moment.known, moment.holder and moment.holder.container_id) == (False, "a")


MOMENTS = [(5, False, None), (15, True, "a"), (25, True, None), (35, True, "b")]


@pytest.mark.parametrize(("at", "known", "holder"), MOMENTS)
def test_a_moment_is_answered_by_whoever_had_it_then(at: float, known: bool, holder: str | None) -> None:
    operations = [
        operation("ADD", "a", 10),
        operation("DEL", "a", 20),
        operation("ADD", "b", 30),
        operation("DEL", "b", 40),
    ]
    moment = told(operations, at=at).at
    assert moment is not None
    assert (moment.known, moment.holder and moment.holder.container_id) == (known, holder)


def attached(verb: str, container: str, at: float, since: float, details: str = "") -> Operation:
    """A line that says since when its attachment was there."""
    return operation(verb, container, at, details=details, attached=since)


def test_an_end_without_a_beginning_begins_where_its_line_says() -> None:
    for verb in ("DEL", "RELEASE", "REPLAY", "UNDO"):
        operations = [operation("ADD", "z", 1), attached("DEL", "z", 5, 1), attached(verb, "a", 20, 15)]
        assert tenures(*operations) == [("z", 1, 5), ("a", 15, 20)]
        for at, holder in ((10, None), (16, "a")):
            moment = told(operations, at=at).at
            assert moment is not None
            assert (moment.known, moment.holder and moment.holder.container_id) == (True, holder)


def test_an_end_that_does_not_say_since_when_names_nobody() -> None:
    operations = [operation("START", "", 1), operation("DEL", "a", 20)]
    moment = told(operations, at=10).at
    assert moment is not None
    assert (moment.known, moment.holder) == (False, None)
    assert "no beginning" in moment.why


def test_a_beginning_that_is_older_than_the_log_is_known_by_its_end() -> None:
    moment = told([attached("DEL", "a", 20, 5)], at=10).at
    assert moment is not None
    assert (moment.known, moment.holder and moment.holder.container_id) == (True, "a")


def test_the_same_name_twice_is_two_times_though_lines_between_them_are_lost() -> None:
    assert tenures(attached("ADD", "a", 10, 10.002), attached("DEL", "a", 40, 30)) == [
        ("a", 10.002, None),
        ("a", 30, 40),
    ]


def test_a_del_that_was_done_once_more_ends_nothing() -> None:
    operations = [attached("ADD", "a", 10, 10), attached("DEL", "a", 20, 10), attached("REPLAY", "a", 30, 10)]
    assert tenures(*operations) == [("a", 10, 20)]


def test_an_older_line_and_a_newer_one_are_of_one_attachment() -> None:
    assert tenures(operation("ADD", "a", 10), attached("DEL", "a", 20, 10.0007)) == [("a", 10, 20)]


def test_how_it_ended_is_told_without_since_when_it_was_there() -> None:
    (found,) = told([attached("RELEASE", "a", 20, 10, "its namespace is gone")]).tenures
    assert found.how == "its namespace is gone"


def test_where_an_agent_was_killed_nobody_is_known_for_certain() -> None:
    operations = [
        operation("START", "", 1),
        operation("ADD", "a", 10),
        operation("DEL", "a", 20),
        operation("START", "", 200, heartbeat=100),
    ]
    for at, known in ((50, True), (150, False), (250, True)):
        moment = told(operations, at=at).at
        assert moment is not None
        assert (moment.known, moment.holder) == (known, None)
