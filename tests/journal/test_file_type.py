"""What is no file is opened by none of those who use a journal, and waited for by nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netloom.journal import Journal
from netloom.journal.errors import NotAFile
from netloom.journal.file import as_it_is, opened
from netloom.journal.rollback import roll_back

pytestmark = pytest.mark.unit


def test_a_fifo_is_not_taken_back(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal.db")
    with pytest.raises(NotAFile, match="a FIFO"):
        roll_back(str(tmp_path / "journal.db"), 1)


def test_where_there_is_no_journal_none_is_taken_back(tmp_path: Path) -> None:
    roll_back(str(tmp_path / "journal.db"), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_leads_nowhere_is_named_and_gets_no_empty_journal(tmp_path: Path) -> None:
    """As of a disk that is not mounted."""
    path = tmp_path / "journal.db"
    path.symlink_to("elsewhere.db")
    for use in (opened, as_it_is, Journal):
        with pytest.raises(NotAFile, match="that does not exist"):
            use(str(path))
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_link_to_a_journal_is_followed(tmp_path: Path) -> None:
    Journal(str(tmp_path / "elsewhere.db")).close()
    (tmp_path / "journal.db").symlink_to("elsewhere.db")
    Journal(str(tmp_path / "journal.db")).close()
    as_it_is(str(tmp_path / "journal.db"))[0].close()
