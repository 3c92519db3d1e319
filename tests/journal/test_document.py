"""A journal as a document, and back: the same, or a sentence that says what is wrong and where."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netloom.cni import Result
from netloom.journal import Journal, schema
from netloom.journal.document import InvalidDocument, built, decode, document_of
from netloom.kernel import Plan, Up

from .rows import operation, reserve

pytestmark = pytest.mark.unit

PLAN, RESULT = Plan((Up("eth0"),)).encode(), Result(cni_version="1.1.0").encode()


def exported(path: str, *, operations: bool = True) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return msgspec.json.encode(document_of(connection, version, operations=operations))


@pytest.fixture
def path(tmp_path: Path) -> str:
    found = str(tmp_path / "journal.db")
    with Journal(found) as journal:
        journal.change(lambda ledger: reserve(ledger, "web", 2, 3)).result(5)
        gone = journal.change(lambda ledger: reserve(ledger, "db", 4)).result(5)
        journal.change(lambda ledger: ledger.forget(gone, resting_since=12.5)).result(5)
        journal.log(operation("web"))
    with closing(sqlite3.connect(found, isolation_level=None)) as connection:
        connection.execute("UPDATE attachment SET plan = ?, result = ?", (PLAN, RESULT))
    return found


@pytest.fixture
def document(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exported(path))
    return found


def imported(document: dict[str, Any]) -> list[str]:
    journal, found = built(decode(json.dumps(document).encode()))
    journal.close()
    return [it.kind for it in found]


def test_what_was_exported_is_imported_as_it_was(path: str, tmp_path: Path) -> None:
    first = exported(path)
    again = tmp_path / "again.db"
    journal, _ = built(decode(first))
    with closing(journal), closing(sqlite3.connect(again)) as target:
        journal.backup(target)
    assert exported(str(again)) == first


def test_addresses_and_plans_can_be_read_by_people(document: dict[str, Any]) -> None:
    tables = document["tables"]
    rows = [dict(zip(tables["address"]["columns"], row, strict=True)) for row in tables["address"]["rows"]]
    assert [row["ip"] for row in rows] == [{"ip": "10.9.0.2"}, {"ip": "10.9.0.3"}, {"ip": "10.9.0.4"}]
    (row,) = tables["attachment"]["rows"]
    assert {"utf8": PLAN.decode()} in row


def test_without_operations_they_are_not_there_and_not_needed(path: str) -> None:
    document = json.loads(exported(path, operations=False))
    assert "operation" not in document["tables"]
    assert imported(document) == []


@settings(deadline=None)
@given(
    plan=st.binary(max_size=40),
    text=st.text(max_size=20),
    number=st.floats(-1e10, 1e10),
)
def test_any_value_comes_back_as_it_was(plan: bytes, text: str, number: float) -> None:
    """What a row may hold, SQLite can hold: text without zeros in it, and any bytes."""
    name = text.replace("\0", "") or "a"
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.migrate(connection, 0)
        connection.execute(
            "INSERT INTO operation (verb, network, container_id, ifname, started, duration, phases, code, "
            "error) VALUES (?, '', '', '', ?, 0, '{}', 0, '')",
            (name, number),
        )
        connection.execute("INSERT INTO cursor VALUES ('main', 'pool', ?)", (plan,))
        first = document_of(connection, schema.VERSION)
    journal, _ = built(decode(msgspec.json.encode(first)))
    with closing(journal):
        assert document_of(journal, schema.VERSION) == first


@pytest.mark.parametrize("version", range(1, schema.VERSION + 1))
def test_what_an_older_version_exported_is_brought_up_to_ours(version: int) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.migrate(connection, 0, version)
        document = document_of(connection, version)
    journal, found = built(document)
    with closing(journal):
        assert found == []
        assert journal.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)


def test_a_plan_that_cannot_be_read_is_told_and_borne(document: dict[str, Any]) -> None:
    table = document["tables"]["attachment"]
    table["rows"][0][table["columns"].index("plan")] = {"base64": "AP8="}
    assert imported(document) == ["plan"]


def broken(document: dict[str, Any], where: str, value: object) -> dict[str, Any]:
    *path, last = where.split(".")
    place: Any = document
    for key in path:
        place = place[int(key) if key.isdecimal() else key]
    place[int(last) if last.isdecimal() else last] = value
    return document


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("format", "other", "format"),
        ("version", 2, "version"),
        ("schema", schema.VERSION + 1, "schema"),
        ("schema", 0, "schema"),
        ("schema", 1, "columns|no table|is missing"),
        ("tables", {}, "is missing"),
        ("tables.other", {"columns": [], "rows": []}, "no table"),
        ("tables.address.columns", ["ip"], "columns"),
        ("tables.address.columns.0", "; DROP TABLE fact", "columns"),
        ("tables.address.rows.0", [], "row 1"),
        ("tables.address.rows.0.0", None, "row 1"),
        ("tables.address.rows.0.0", 7, "row 1"),
        ("tables.address.rows.0.1", {"ip": "10.9.0.999"}, "row 1"),
        ("tables.address.rows.0.1", {"ip": "10.9.0.3"}, "row 2"),
        ("tables.address.rows.0.1", {"base64": "!"}, "row 1"),
        ("tables.address.rows.0.1", {"hex": "00"}, "row 1"),
        ("tables.address.rows.0.1", ["10.9.0.3"], "row 1"),
        ("tables.address.rows.0.1", True, "row 1"),
        ("tables.address.rows.0.2", 77, "not there"),
        ("tables.attachment.rows.0.4", "sleeping", "row 1"),
        ("tables.attachment.rows.0.0", 1 << 70, "row 1|number"),
        ("tables.operation.rows.0.7", "{", "phases"),
    ],
)
def test_a_document_that_is_wrong_is_refused_with_what_and_where(
    document: dict[str, Any], where: str, value: object, said: str
) -> None:
    with pytest.raises(InvalidDocument, match=said):
        imported(broken(document, where, value))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidDocument):
        decode(data)


def test_attachments_without_addresses_are_refused(document: dict[str, Any]) -> None:
    document["tables"]["address"]["rows"] = []
    with pytest.raises(InvalidDocument, match="no address"):
        imported(document)
