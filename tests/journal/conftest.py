from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netloom.journal import Journal, Ledger, empty


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "journal.db")


@pytest.fixture
def journal(path: str) -> Iterator[Journal]:
    with Journal(path) as opened:
        yield opened


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A journal in memory, in which nothing stands yet."""
    made = empty()
    yield made
    made.connection.close()
