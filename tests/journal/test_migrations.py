"""What a journal of an earlier version says is still said by one of this version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from netloom.journal import Ledger, Operation, schema

pytestmark = pytest.mark.unit

# What version 4 wrote, and what version 5 knows of it: details, attached, heartbeat, reason.
AGENT = "version 0.1.0, process 20595"
RECOVERED = "{} attachments of another boot released, 0 unfinished taken away, queued DELs done: 0"
DETAILS = [
    ("ADD", "attached since 2026-11-16T13:37:19.834001Z", ("", 1794836239.834001, None, "")),
    (
        "RELEASE",
        "attached since 1970-01-01T00:00:00.250000Z; its namespace /run/netns/a is gone; so",
        ("its namespace /run/netns/a is gone; so", 0.25, None, ""),
    ),
    ("RELEASE", "its namespace is gone", ("its namespace is gone", None, None, "")),
    ("RELEASE", "attached since somebody", ("attached since somebody", None, None, "")),
    ("DEL", "", ("", None, None, "")),
    ("STOP", AGENT, (AGENT, None, None, "")),
    (
        "STOP",
        f"{AGENT}; handing over to version 0.2.0",
        (f"{AGENT}; handing over to version 0.2.0", None, None, "handover"),
    ),
    ("START", f"{AGENT}; {RECOVERED.format(0)}", (f"{AGENT}; {RECOVERED.format(0)}", None, None, "")),
    (
        "START",
        f"{AGENT}; {RECOVERED.format(12)}",
        (f"{AGENT}; {RECOVERED.format(12)}", None, None, "reboot"),
    ),
    (
        "START",
        f"{AGENT}; {RECOVERED.format(3)}; the previous agent did not shut down cleanly; last heartbeat "
        "2026-11-16T13:37:19.000007Z",
        (f"{AGENT}; {RECOVERED.format(3)}", None, 1794836239.000007, "reboot"),
    ),
    (
        "START",
        f"{AGENT}; the one before it ended without a word, and was last alive at 2026-11-16T13:37:19.500000Z",
        (AGENT, None, 1794836239.5, ""),
    ),
]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        schema.migrate(made, 0, 4)
        yield made


@pytest.mark.parametrize(("verb", "details", "known"), DETAILS)
def test_facts_that_were_text_in_the_details_have_columns(
    connection: sqlite3.Connection, verb: str, details: str, known: tuple[object, ...]
) -> None:
    connection.execute(
        "INSERT INTO operation (verb, network, container_id, ifname, started, duration, phases, code, error, "
        "details) VALUES (?, '', '', '', 1.0, 0.0, '{}', 0, '', ?)",
        (verb, details),
    )
    schema.migrate(connection, 4)
    (found,) = Ledger(connection).operations()
    assert (found.details, found.attached, found.heartbeat, found.reason) == pytest.approx(known)


def _attach(connection: sqlite3.Connection, name: str, scope: str | None) -> None:
    """As version 5 did, with an address or without one."""
    connection.execute(
        "INSERT INTO attachment (network, container_id, ifname, state, netns, netns_device, netns_inode, "
        "rank, namespace, pod, uid, config_hash, host_link, plan, result, boot_id, created, created_at) "
        "VALUES ('net', ?, 'eth0', 'committed', '', 0, 0, 0, '', '', '', '', ?, x'', x'', '', 1.0, 1.0)",
        (name, f"loom-{name}"),
    )
    if scope is not None:
        connection.execute(
            "INSERT INTO address (scope, ip, attachment, allocated) "
            "VALUES (?, x'0a090001', last_insert_rowid(), 1.0)",
            (scope,),
        )


def test_attachments_of_a_version_without_modes_are_routed_in_the_scope_of_their_addresses(
    connection: sqlite3.Connection,
) -> None:
    schema.migrate(connection, 4, 5)
    _attach(connection, "web", "main")
    _attach(connection, "db", "tenant")
    _attach(connection, "bare", None)
    schema.migrate(connection, 5)
    found = {it.container_id: (it.mode, it.address_scope) for it in Ledger(connection).attachments()}
    assert found == {"web": ("routed", "main"), "db": ("routed", "tenant"), "bare": ("routed", "main")}


def test_a_version_without_modes_attaches_in_a_journal_that_has_them(connection: sqlite3.Connection) -> None:
    schema.migrate(connection, 4)
    _attach(connection, "web", "main")
    assert int(Ledger(connection).fact("readable_by") or 0) <= 5
    (found,) = Ledger(connection).attachments()
    assert (found.mode, found.address_scope) == ("routed", "main")
    # As older versions ask who holds an address: `scope` is a column of one of the two tables alone.
    joined = "address JOIN attachment ON attachment.id = address.attachment"
    query = f"SELECT container_id FROM {joined} WHERE scope = ?"
    assert connection.execute(query, ("main",)).fetchall() == [("web",)]


def test_a_version_before_reads_what_this_one_writes(connection: sqlite3.Connection) -> None:
    schema.migrate(connection, 4)
    ledger = Ledger(connection)
    ledger.record(
        [
            Operation(
                verb="STOP", network="", container_id="", ifname="", started=1.0, duration=0.0, phases={},
                reason="handover",
            )
        ]
    )  # fmt: skip
    assert int(ledger.fact("readable_by") or 0) <= 4
    columns = "id, verb, network, started, details"
    assert connection.execute(f"SELECT {columns} FROM operation").fetchall() == [(1, "STOP", "", 1.0, "")]
