"""Ports of the host: who holds which, and what becomes of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal import Journal, JournalError, Ledger, Port, read_only, schema

from .rows import BOOT, SCOPE, attachment, ip

pytestmark = pytest.mark.unit

ANY4, ANY6 = bytes(4), bytes(16)
ONE, OTHER = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
ONE6 = bytes.fromhex("fd" + "00" * 14 + "01")


def port(number: int = 8080, host_ip: bytes = ANY4, protocol: str = "tcp") -> Port:
    target = ip(2) if len(host_ip) == 4 else ONE6
    return Port(protocol=protocol, host_port=number, host_ip=host_ip, ip=target, port=80)


def hold(ledger: Ledger, name: str, *ports: Port) -> int:
    return ledger.reserve(attachment(name), [], ports)


def holder(ledger: Ledger, wanted: Port) -> str | None:
    found = ledger.port_holder(wanted)
    return None if found is None else found.container_id


# Who holds what.


def test_a_port_comes_back_as_it_was_written(ledger: Ledger) -> None:
    number = hold(ledger, "web", port(host_ip=ONE))
    assert ledger.ports() == [(number, port(host_ip=ONE))]


def test_a_port_that_nobody_has_is_free(ledger: Ledger) -> None:
    assert holder(ledger, port()) is None


@pytest.mark.parametrize(
    ("held", "wanted"),
    [(ANY4, ANY4), (ANY4, ONE), (ONE, ANY4), (ONE, ONE), (ANY6, ANY6), (ANY6, ONE6), (ONE6, ANY6)],
    ids=["all, all", "all, one", "one, all", "one, the same", "all of IPv6", "IPv6: all, one", "one, all"],
)
def test_a_port_of_all_addresses_and_one_of_any_are_in_each_others_way(
    ledger: Ledger, held: bytes, wanted: bytes
) -> None:
    hold(ledger, "web", port(host_ip=held))
    assert holder(ledger, port(host_ip=wanted)) == "web"


@pytest.mark.parametrize(
    "wanted",
    [port(host_ip=OTHER), port(host_ip=ANY6), port(host_ip=ONE6), port(8081, ONE), port(8080, ONE, "udp")],
    ids=["another address", "all of IPv6", "one of IPv6", "another number", "another protocol"],
)
def test_a_port_of_something_else_is_free(ledger: Ledger, wanted: Port) -> None:
    hold(ledger, "web", port(host_ip=ONE))
    assert holder(ledger, wanted) is None


def test_ports_are_listed_by_their_number(ledger: Ledger) -> None:
    hold(ledger, "web", port(9000), port(53, protocol="udp"))
    hold(ledger, "db", port(53), port(8080, ANY6))
    found = [(it.host_port, it.protocol) for _, it in ledger.ports()]
    assert found == [(53, "tcp"), (53, "udp"), (8080, "tcp"), (9000, "tcp")]


def test_ports_are_counted_by_family(ledger: Ledger) -> None:
    hold(ledger, "web", port(9000), port(9001), port(9000, ANY6))
    assert ledger.count_ports() == (2, 1)


# What becomes of them.


@pytest.mark.parametrize("resting_since", [None, 50.0], ids=["nobody knew of it", "somebody did"])
def test_the_ports_of_an_attachment_that_is_gone_are_free_at_once(
    ledger: Ledger, resting_since: float | None
) -> None:
    ledger.forget(hold(ledger, "web", port(), port(host_ip=ANY6)), resting_since=resting_since)
    assert ledger.ports() == []
    assert holder(ledger, port()) is None


def test_the_ports_of_others_stay(ledger: Ledger) -> None:
    gone = hold(ledger, "web", port(8080))
    kept = hold(ledger, "db", port(8081))
    ledger.forget(gone, resting_since=None)
    assert ledger.ports() == [(kept, port(8081))]


def test_a_new_boot_frees_all_ports(ledger: Ledger) -> None:
    ledger.begin_boot("old-boot", 10.0)
    ledger.reserve(attachment("web", boot_id="old-boot"), [ip(2)], [port()])
    ledger.begin_boot(BOOT, 5.0)
    assert ledger.ports() == []


def test_an_attachment_cannot_go_while_it_holds_ports(ledger: Ledger) -> None:
    ledger.connection.execute("PRAGMA foreign_keys = ON")
    number = hold(ledger, "web", port())
    with pytest.raises(sqlite3.IntegrityError):
        ledger.connection.execute("DELETE FROM attachment WHERE id = ?", (number,))


@pytest.mark.parametrize(
    "reserve",
    [
        lambda ledger: ledger.reserve(attachment("db"), [ip(3)], [port(8081), port(8080)]),
        lambda ledger: ledger.reserve(attachment("db"), [ip(3)], [port(8081), port(8081)]),
        lambda ledger: ledger.reserve(attachment("db"), [ip(2)], [port(8081)]),
    ],
    ids=["a port is held", "a port is there twice", "an address is held"],
)
def test_a_reservation_that_fails_half_way_leaves_nothing(
    journal: Journal, reserve: Callable[[Ledger], int]
) -> None:
    first = journal.change(lambda ledger: ledger.reserve(attachment("web"), [ip(2)], [port()])).result(5)
    with pytest.raises(JournalError):
        journal.change(reserve).result(5)
    assert journal.ask(Ledger.ports).result(5) == [(first, port())]
    assert [it.id for it in journal.ask(Ledger.places).result(5)] == [first]
    assert journal.ask(lambda ledger: ledger.holder(SCOPE, ip(3))).result(5) is None


def test_what_a_reservation_that_failed_wanted_can_be_had(journal: Journal) -> None:
    with pytest.raises(JournalError):
        journal.change(lambda ledger: hold(ledger, "web", port(), port())).result(5)
    journal.change(lambda ledger: hold(ledger, "db", port())).result(5)
    assert journal.ask(lambda ledger: holder(ledger, port())).result(5) == "db"


def test_a_reservation_that_contradicts_another_is_no_trouble_of_the_journals(journal: Journal) -> None:
    """Or the node would say that it cannot attach anything."""
    with pytest.raises(JournalError):
        journal.change(lambda ledger: hold(ledger, "web", port(), port())).result(5)
    assert journal.trouble == ""


# A journal of the version before, which had none.


@pytest.fixture
def older(path: str) -> str:
    """With an attachment that has an address, and one that rests."""
    os.makedirs(os.path.dirname(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            f"{schema.MIGRATIONS[0].script} {schema.MIGRATIONS[1].script}"
            f"PRAGMA application_id = {schema.APPLICATION_ID}; PRAGMA user_version = 2;"
        )
        connection.execute(
            "INSERT INTO attachment VALUES (7, 'net', 'web', 'eth0', 'committed', '/run/netns/web', 4, 77, "
            "0, 'shop', 'api-0', 'u-1', 'hash', 'loom1', x'01', x'02', 'boot', 1.0, 2.0, 99)"
        )
        connection.execute("INSERT INTO address VALUES (?, ?, 7, 1.0, NULL)", (SCOPE, ip(2)))
        connection.execute("INSERT INTO address VALUES (?, ?, NULL, 1.0, 3.0)", (SCOPE, ip(3)))
    return path


def test_an_older_journal_is_brought_up_to_ours_with_all_that_is_in_it(older: str) -> None:
    with Journal(older) as journal:
        (found,) = journal.ask(lambda ledger: ledger.of_container("web")).result(5)
        assert (found.id, found.netns_cookie, found.pod, found.plan) == (7, 99, "api-0", b"\1")
        assert journal.ask(lambda ledger: ledger.addresses_of(7)).result(5) == [(SCOPE, ip(2))]
        assert journal.ask(Ledger.resting).result(5) == [ip(3)]
        assert journal.ask(Ledger.ports).result(5) == []
    with closing(sqlite3.connect(older)) as connection:
        assert schema.require_known(connection, older) == schema.VERSION


def test_an_older_journal_can_hold_ports_once_it_is_ours(older: str) -> None:
    with Journal(older) as journal:
        number = journal.change(lambda ledger: hold(ledger, "db", port())).result(5)
        assert journal.ask(Ledger.ports).result(5) == [(number, port())]


def test_who_looks_at_an_older_journal_sees_no_ports_and_leaves_it_as_it_is(older: str) -> None:
    before = Path(older).read_bytes()
    with closing(read_only(older)) as connection:
        assert Ledger(connection).ports() == []
        assert [it.id for it in Ledger(connection).places()] == [7]
    assert Path(older).read_bytes() == before


def test_of_several_holders_one_is_told_that_is_not_the_container_itself(ledger: Ledger) -> None:
    hold(ledger, "own", port(host_ip=bytes([127, 0, 0, 1])))
    hold(ledger, "other", port(host_ip=bytes([192, 0, 2, 1])))
    for name, expected in (("own", "other"), ("other", "own")):
        found = ledger.port_holder(port(), name)
        assert found is not None
        assert found.container_id == expected
