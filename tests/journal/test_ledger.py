"""What stands in the ledger: attachments with their addresses, the boot, operations."""

from __future__ import annotations

import sqlite3

import pytest
from msgspec.structs import replace

from netloom.cni import AttachmentKey
from netloom.journal import Ledger, Operation
from netloom.journal.ledger import OPERATIONS_KEPT

from .rows import BOOT, SCOPE, attachment, ip, operation, reserve

pytestmark = pytest.mark.unit


def test_an_attachment_comes_back_as_it_was_written(ledger: Ledger) -> None:
    number = reserve(ledger, "web", 2, 3)
    found = ledger.find(AttachmentKey("net", "web", "eth0"))
    assert found == ledger.by_id(number)
    assert found is not None
    assert (found.id, found.state, found.plan) == (number, "pending", b"plan")
    assert ledger.addresses_of(number) == [(SCOPE, ip(2)), (SCOPE, ip(3))]


def test_an_address_has_one_holder(ledger: Ledger) -> None:
    number = reserve(ledger, "web", 2)
    with pytest.raises(sqlite3.IntegrityError, match="already held"):
        reserve(ledger, "db", 2)
    assert ledger.holder(SCOPE, ip(2)) == number


def test_another_scope_may_have_the_same_address(ledger: Ledger) -> None:
    reserve(ledger, "web", 2)
    number = ledger.reserve(attachment("db", scope="tenant"), [ip(2)])
    assert ledger.holder("tenant", ip(2)) == number
    assert ledger.scopes() == [SCOPE, "tenant"]


def test_an_empty_journal_has_no_scope(ledger: Ledger) -> None:
    assert ledger.scopes() == []


def test_a_key_and_a_link_have_one_attachment(ledger: Ledger) -> None:
    reserve(ledger, "web", 2)
    with pytest.raises(sqlite3.IntegrityError):
        reserve(ledger, "web", 3)


def test_the_addresses_of_an_attachment_that_somebody_knew_of_rest(ledger: Ledger) -> None:
    number = reserve(ledger, "web", 2)
    ledger.forget(number, resting_since=50.0)
    assert ledger.by_id(number) is None
    assert list(ledger.held()) == []
    assert rests(ledger) == {ip(2): 50.0}


def test_the_addresses_of_an_attachment_that_nobody_knew_of_are_free(ledger: Ledger) -> None:
    ledger.forget(reserve(ledger, "web", 2), resting_since=None)
    assert rests(ledger) == {}


def test_an_address_that_rests_can_be_taken_again(ledger: Ledger) -> None:
    ledger.forget(reserve(ledger, "web", 2), resting_since=50.0)
    number = reserve(ledger, "db", 2)
    assert ledger.holder(SCOPE, ip(2)) == number
    assert rests(ledger) == {}


def test_what_rested_long_ago_is_forgotten(ledger: Ledger) -> None:
    ledger.forget(reserve(ledger, "web", 2), resting_since=50.0)
    ledger.forget(reserve(ledger, "db", 3), resting_since=70.0)
    assert ledger.forget_rested(60.0) == 1
    assert rests(ledger) == {ip(3): 70.0}


def test_an_attachment_cannot_go_while_it_holds_addresses(ledger: Ledger) -> None:
    ledger.connection.execute("PRAGMA foreign_keys = ON")
    number = reserve(ledger, "web", 2)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.connection.execute("DELETE FROM attachment WHERE id = ?", (number,))


def test_states_are_counted_and_listed(ledger: Ledger) -> None:
    web, db, cache = (reserve(ledger, name, at) for at, name in enumerate(("web", "db", "cache"), 2))
    ledger.set_state(web, "committed")
    ledger.set_state(db, "deleting")
    assert ledger.count() == {"pending": 1, "committed": 1, "deleting": 1}
    assert [it.id for it in ledger.attachments("pending", "deleting")] == [db, cache]
    assert [it.id for it in ledger.places()] == [web, db, cache]
    assert ledger.places("another") == []
    assert ledger.numbers_after(web, 1) == [db]


def test_a_new_boot_gives_back_what_the_old_one_held(ledger: Ledger) -> None:
    ledger.begin_boot("old-boot", 10.0)
    ledger.reserve(attachment("web", boot_id="old-boot"), [ip(2)])
    ledger.forget(ledger.reserve(attachment("db", boot_id="old-boot"), [ip(3)]), resting_since=9000.0)
    assert ledger.begin_boot(BOOT, 5.0) == 1
    assert ledger.places() == []
    # Times of the old boot mean nothing in the new one: every rest begins again.
    assert rests(ledger) == {ip(2): 5.0, ip(3): 5.0}
    assert ledger.fact("boot_id") == BOOT


def test_the_same_boot_changes_nothing(ledger: Ledger) -> None:
    ledger.begin_boot(BOOT, 5.0)
    reserve(ledger, "web", 2)
    ledger.forget(reserve(ledger, "db", 3), resting_since=6.0)
    assert ledger.begin_boot(BOOT, 7.0) == 0
    assert len(ledger.places()) == 1
    assert rests(ledger) == {ip(3): 6.0}


def test_operations_come_back_the_latest_first(ledger: Ledger) -> None:
    ledger.record([operation("web"), operation("db")])
    assert [it.container_id for it in ledger.operations()] == ["db", "web"]
    assert ledger.operations(1)[0].phases == {"kernel": 1.5}


def test_of_operations_the_last_few_thousand_are_kept(ledger: Ledger) -> None:
    for batch in range(OPERATIONS_KEPT // 1000 + 1):
        ledger.record([operation(f"c{batch}-{number}") for number in range(1000)])
    kept = ledger.operations(2 * OPERATIONS_KEPT)
    assert len(kept) == OPERATIONS_KEPT
    assert (kept[0].container_id, kept[-1].container_id) == (f"c{batch}-999", "c1-0")


def test_operations_are_found_by_what_they_are_about(ledger: Ledger) -> None:
    web = replace(operation("web-1"), namespace="shop", pod="web", addresses=("10.9.0.1", "fd09::1"))
    other = replace(operation("web_2"), namespace="blog", pod="web", addresses=("10.9.0.11",))
    ledger.record([web, other])

    def names(found: list[Operation]) -> list[str]:
        return [it.container_id for it in found]

    assert names(ledger.operations_of_container("web")) == ["web-1", "web_2"]
    assert names(ledger.operations_of_container("web_")) == ["web_2"]
    assert names(ledger.operations_of_container("%")) == []
    assert names(ledger.operations_of_pod("web")) == ["web-1", "web_2"]
    assert names(ledger.operations_of_pod("web", "shop")) == ["web-1"]
    assert names(ledger.operations_of_address("10.9.0.1")) == ["web-1"]
    assert names(ledger.operations_of_address("fd09::1")) == ["web-1"]
    assert ledger.operations_of_pod("web", "blog")[0] == replace(other, id=2)


def test_operations_are_followed_by_their_numbers(ledger: Ledger) -> None:
    assert ledger.last_operation() == 0
    ledger.record([operation("web"), operation("db")])
    assert [it.container_id for it in ledger.operations_after(1)] == ["db"]
    assert ledger.operations_after(ledger.last_operation()) == []


def test_operations_before_a_time_are_found(ledger: Ledger) -> None:
    ledger.record([replace(operation("web"), started=100.0), replace(operation("db"), started=200.0)])
    assert [it.container_id for it in ledger.operations(before=150.0)] == ["web"]


def rests(ledger: Ledger) -> dict[bytes, float]:
    return dict(ledger.connection.execute("SELECT ip, released FROM address WHERE released IS NOT NULL"))
