"""The power is cut at any moment: what the journal acknowledged is there, and nothing is half there.

One process changes a journal, and all that it does to its files is recorded. Then the power is cut at one
record after the other, with the disk in any state that is allowed there, and the journal is opened.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from netloom.journal import Journal, JournalError, Ledger

from ..lanes import ROOT
from .powerloss.disk import Disk, Record, records
from .powerloss.writer import JOURNAL, SCOPE, STAGES, TOLD, addresses

pytestmark = pytest.mark.crash

RECORDER = Path(__file__).parent / "powerloss" / "recorder.c"
# Enough for the journal to fold its WAL into the file several times.
CHANGES = 800
CUTS = 400
# How much of what was not made durable is on the disk all the same.
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)


class Moment(NamedTuple):
    """What a disk may have when the power is cut, and what was asked and told of each attachment by then."""

    files: dict[str, bytes]
    asked: dict[int, int]
    told: dict[int, int]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, RECORDER], check=True
    )
    return library


def recorded(recorder: Path, directory: Path, synchronous: str, seed: int) -> list[Record]:
    """All that the writer did."""
    record = directory / "record"
    # In memory: what matters is what the writer asks of a disk, and a real one takes its time for it.
    with tempfile.TemporaryDirectory(prefix="powerloss-", dir="/dev/shm") as state:
        _write(recorder, Path(state).resolve(), record, synchronous, seed)
    return list(records(record))


def _write(recorder: Path, state: Path, record: Path, synchronous: str, seed: int) -> None:
    words: list[str] = [
        *(sys.executable, "-m", "tests.crash.powerloss.writer"),
        *(str(state), str(CHANGES), str(seed), synchronous),
    ]
    preload = {
        "LD_PRELOAD": str(recorder),
        "POWERLOSS_DIRECTORY": str(state),
        "POWERLOSS_RECORD": str(record),
    }
    subprocess.run(words, check=True, cwd=ROOT, env={**os.environ, **preload}, timeout=120)


def moments(done: list[Record], chance: random.Random) -> Iterator[Moment]:
    disk = Disk()
    asked: dict[int, int] = {}
    told: dict[int, int] = {}
    cuts = _cuts(done, chance)
    for number, record in enumerate(done):
        if record.name == TOLD:
            _note(record.data.decode(), asked, told)
        elif not record.name.endswith(("-shm", ".lock")):  # nobody reads these after a restart
            disk.take(record)
        if number in cuts:
            yield Moment(disk.cut(chance, chance.choice(SHARES)), dict(asked), dict(told))


def _cuts(done: list[Record], chance: random.Random) -> set[int]:
    """Anywhere; and more often than that, where the WAL becomes part of the file, or the file gets a name."""
    rare = [at for at, record in enumerate(done) if record.is_sync and not record.name.endswith("-wal")]
    near = {at + step for at in rare for step in range(-40, 40)} & set(range(len(done)))
    few = chance.sample(sorted(near), min(CUTS // 4, len(near)))
    others = sorted(set(range(len(done))) - set(few))
    return {*few, *chance.sample(others, CUTS - len(few))}


def _note(line: str, asked: dict[int, int], told: dict[int, int]) -> None:
    what, number, stage = line.split()
    (asked if what == "asked" else told)[int(number)] = int(stage)


def losses(moment: Moment) -> list[str]:
    """What was told and is not so, after a restart."""
    with restarted(moment) as journal:
        assert journal.ask(_integrity).result() == "ok"
        stages = journal.ask(lambda ledger: {it: _stage(ledger, it) for it in moment.asked}).result()
        # The machine has booted: every address rests, and none is held.
        journal.change(lambda ledger: ledger.begin_boot("another", 2.0)).result()
        assert journal.ask(lambda ledger: list(ledger.held())).result() == []
    return [
        f"attachment {number} is {STAGES[stages[number]]}; told: {STAGES[told]}"
        for number, told in moment.told.items()
        if not told <= stages[number] <= moment.asked[number]
    ]


@contextmanager
def restarted(moment: Moment) -> Iterator[Journal]:
    """In memory: what becomes of this disk does not matter."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for name, content in moment.files.items():
            Path(directory, name).write_bytes(content)
        with Journal(os.path.join(directory, JOURNAL)) as journal:
            yield journal


def _integrity(ledger: Ledger) -> str:
    assert ledger.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return str(ledger.connection.execute("PRAGMA integrity_check").fetchone()[0])


def _stage(ledger: Ledger, number: int) -> int:
    """Of an attachment whose row and addresses agree."""
    found = next(iter(ledger.of_container(f"c{number}")), None)
    if found is not None:
        assert [ip for _, ip in ledger.addresses_of(found.id)] == addresses(number)
        return STAGES.index(found.state)
    query = "SELECT attachment, released FROM address WHERE scope = ? AND ip = ?"
    rests = [ledger.connection.execute(query, (SCOPE, ip)).fetchone() for ip in addresses(number)]
    assert rests in ([None, None], [(None, 1.0), (None, 1.0)])
    return STAGES.index("none" if rests[0] is None else "gone")


def test_what_was_acknowledged_survives_a_cut_at_any_moment(recorder: Path, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    done = recorded(recorder, tmp_path, "FULL", seed)
    cuts = 0
    for moment in moments(done, random.Random(seed)):
        assert losses(moment) == []
        cuts += 1
    assert cuts == CUTS


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_the_simulation_shows_the_loss_of_a_journal_that_is_not_synchronous(
    recorder: Path, tmp_path: Path, synchronous: str
) -> None:
    done = recorded(recorder, tmp_path, synchronous, 7)
    assert any(map(_is_lost, moments(done, random.Random(7))))


def _is_lost(moment: Moment) -> bool:
    try:
        return losses(moment) != []
    except (AssertionError, sqlite3.Error, JournalError):
        return True
