"""`netloom journal`: beside a running agent, without one, and with what is no journal."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from netloom.journal.schema import VERSION

from ..fixtures.machine import Machine
from ..fixtures.successor import calling, failures

pytestmark = pytest.mark.kernel


@pytest.fixture
def attached(machine: Machine) -> Machine:
    """A machine with an agent that serves, and two containers."""
    for _ in range(2):
        machine.attach(machine.node.container())
    return machine


def exported(machine: Machine, *words: str) -> str:
    done = machine.run("journal", "export", *words)
    assert done.status == 0, done.stderr
    return done.stdout


# Verify.


def test_a_journal_in_use_is_sound(attached: Machine) -> None:
    found = attached.run("journal", "verify", "--json").document
    assert (found["path"], found["schema"], found["findings"]) == (str(attached.journal), VERSION, [])
    assert (found["counts"]["attachments"], found["counts"]["addresses"]) == (2, 4)


def test_on_a_terminal_it_says_so_in_a_line(attached: Machine) -> None:
    done = attached.on_a_terminal("journal", "verify")
    assert done.status == 0
    said = f"{attached.journal} is sound: schema {VERSION}, 2 attachments, 4 addresses, "
    assert done.stdout.startswith(said)


def test_to_verify_changes_nothing(attached: Machine) -> None:
    attached.run("down")
    before = attached.journal.read_bytes()
    assert attached.run("journal", "verify").status == 0
    assert attached.journal.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("UPDATE attachment SET plan = x'00'", "plan-unreadable"),
        ("DELETE FROM attachment", "journal-dangling"),
        ("DROP TABLE cursor", "journal-tables"),
    ],
)
def test_what_somebody_has_changed_is_named_and_the_status_is_1(
    attached: Machine, change: str, code: str
) -> None:
    attached.run("down")
    with closing(sqlite3.connect(attached.journal, isolation_level=None)) as connection:
        connection.execute(change)
    done = attached.run("journal", "verify", "--json")
    assert done.status == 1
    assert {it["code"] for it in done.document["findings"]} == {code}


def test_a_file_with_a_hole_is_named_damaged(attached: Machine) -> None:
    attached.run("down")
    with open(attached.journal, "r+b") as file:
        file.seek(os.path.getsize(attached.journal) // 2)
        file.write(b"\xff" * 8192)
    done = attached.run("journal", "verify", "--json")
    assert done.status == 1
    assert {it["code"] for it in done.document["findings"]} == {"journal-damaged"}


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_what_is_no_journal_is_not_called_sound(bare: Machine, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    done = bare.run("journal", "verify", str(tmp_path / "file"), "--json")
    assert done.status == 1


def test_where_there_is_no_journal_it_says_so(bare: Machine) -> None:
    done = bare.run("journal", "verify", "--json")
    assert done.status == 1
    assert "no journal" in done.error["error"]


# Backup.


def test_a_copy_beside_a_running_agent_is_sound_and_for_root_alone(attached: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    done = attached.run("journal", "backup", str(copy), "--json")
    assert (done.status, done.document["counts"]["attachments"]) == (0, 2)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert attached.run("journal", "verify", str(copy)).status == 0
    assert [it.name for it in tmp_path.iterdir()] == ["copy.db"]


def test_copies_while_many_are_attached_are_all_sound(attached: Machine, tmp_path: Path) -> None:
    with calling(attached.node, 3) as callers:
        for number in range(5):
            copy = tmp_path / f"{number}.db"
            assert attached.run("journal", "backup", str(copy)).status == 0
            assert attached.run("journal", "verify", str(copy)).status == 0
    assert failures(callers) == []


def test_no_file_is_replaced_unless_that_is_asked_for(attached: Machine, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    for command in ("backup", "export"):
        done = attached.run("journal", command, str(tmp_path / "precious"))
        assert done.status == 1
        assert "file-exists" in done.stderr
        assert (tmp_path / "precious").read_text() == "precious"
    assert attached.run("journal", "backup", "--force", str(tmp_path / "precious")).status == 0
    assert attached.run("journal", "verify", str(tmp_path / "precious")).status == 0


@pytest.mark.parametrize("ending", ["", "-wal", ".lock"])
def test_the_journal_is_no_place_for_its_copy(attached: Machine, ending: str) -> None:
    for command in ("backup", "export"):
        done = attached.run("journal", command, "--force", f"{attached.journal}{ending}")
        assert done.status == 2
    assert attached.run("journal", "verify").status == 0


def test_a_copy_can_be_put_back(attached: Machine, tmp_path: Path) -> None:
    before = attached.listed()
    attached.run("journal", "backup", str(tmp_path / "copy.db"))
    attached.run("down")
    attached.journal.write_bytes((tmp_path / "copy.db").read_bytes())
    attached.brought_up()
    assert [it["addresses"] for it in attached.listed()] == [it["addresses"] for it in before]
    assert attached.node.audit([{"cidr": "10.78.0.0/16"}, {"cidr": "fd78::/64"}]) == []


def test_a_place_that_cannot_be_written_is_told(attached: Machine) -> None:
    for command in ("backup", "export"):
        done = attached.run("journal", command, "/nowhere/at/all")
        assert done.status == 1
        assert "file-unwritable" in done.stderr


# Export and import.


def test_export_import_export_is_the_same(attached: Machine, bare_place: Path, tmp_path: Path) -> None:
    attached.run("down")
    first = exported(attached)
    (tmp_path / "journal.json").write_text(first)
    elsewhere = ("--state-dir", str(bare_place))
    done = attached.run("journal", "import", str(tmp_path / "journal.json"), *elsewhere, "--json")
    assert done.status == 0, done.stderr
    assert (done.document["counts"]["attachments"], done.document["replaced"]) == (2, None)
    assert exported(attached, *elsewhere) == first
    assert stat.S_IMODE((bare_place / "journal.db").stat().st_mode) == 0o600


@pytest.fixture
def bare_place(bare: Machine) -> Path:
    """A state directory without a journal."""
    return bare.node.directory / "elsewhere"


def test_an_export_without_operations_has_the_rest(attached: Machine) -> None:
    document = json.loads(exported(attached, "--no-operations"))
    assert "operation" not in document["tables"]
    assert len(document["tables"]["attachment"]["rows"]) == 2


def test_a_node_goes_on_with_a_journal_that_was_imported(attached: Machine, tmp_path: Path) -> None:
    before = attached.listed()
    assert attached.run("journal", "export", str(tmp_path / "j.json")).status == 0
    attached.run("down")
    attached.journal.unlink()
    assert attached.run("journal", "import", str(tmp_path / "j.json")).status == 0
    attached.brought_up()
    assert [it["addresses"] for it in attached.listed()] == [it["addresses"] for it in before]
    assert attached.node.audit([{"cidr": "10.78.0.0/16"}, {"cidr": "fd78::/64"}]) == []


def test_nothing_is_imported_under_a_running_agent(attached: Machine, tmp_path: Path) -> None:
    attached.run("journal", "export", str(tmp_path / "j.json"))
    done = attached.run("journal", "import", "--force", str(tmp_path / "j.json"), "--json")
    assert (done.status, done.error["code"]) == (1, "journal-in-use")
    assert len(attached.listed()) == 2


def test_a_journal_with_attachments_is_replaced_by_force_only_and_kept(
    attached: Machine, tmp_path: Path
) -> None:
    attached.run("journal", "export", str(tmp_path / "j.json"))
    attached.attach(attached.node.container())
    attached.run("down")
    done = attached.run("journal", "import", str(tmp_path / "j.json"), "--json")
    assert (done.status, done.error["code"]) == (1, "journal-not-empty")
    assert len(attached.listed()) == 3
    done = attached.run("journal", "import", "--force", str(tmp_path / "j.json"), "--json")
    assert done.status == 0
    assert len(attached.listed()) == 2
    kept = attached.run("journal", "verify", done.document["replaced"], "--json").document
    assert kept["counts"]["attachments"] == 3


def test_a_journal_that_is_damaged_is_put_aside_by_force_only(attached: Machine, tmp_path: Path) -> None:
    attached.run("journal", "export", str(tmp_path / "j.json"))
    attached.run("down")
    attached.journal.write_bytes(b"no database" * 1000)
    assert attached.run("journal", "import", str(tmp_path / "j.json")).status == 1
    assert attached.journal.read_bytes() == b"no database" * 1000
    done = attached.run("journal", "import", "--force", str(tmp_path / "j.json"), "--json")
    assert done.status == 0
    assert Path(done.document["replaced"]).read_bytes() == b"no database" * 1000
    assert attached.run("journal", "verify").status == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "netloom-journal", "version": 1}'])
def test_a_document_that_is_none_changes_nothing(attached: Machine, tmp_path: Path, content: str) -> None:
    attached.run("down")
    before = attached.journal.read_bytes()
    (tmp_path / "j.json").write_text(content)
    done = attached.run("journal", "import", "--force", str(tmp_path / "j.json"), "--json")
    assert (done.status, done.error["code"]) == (1, "import-invalid")
    assert attached.journal.read_bytes() == before
    assert not list(attached.node.state_dir.glob("*.replaced-*"))


def test_a_purge_takes_copies_along(attached: Machine, tmp_path: Path) -> None:
    attached.run("journal", "export", str(tmp_path / "j.json"))
    attached.run("down")
    attached.run("journal", "import", "--force", str(tmp_path / "j.json"))
    (attached.node.state_dir / "journal.db.backup-3").write_bytes(b"")
    done = attached.run("down", "--purge", "--yes", "--json")
    assert done.status == 0
    assert not attached.node.state_dir.exists()
