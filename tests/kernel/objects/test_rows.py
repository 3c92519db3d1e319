from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import listed, promises
from .row import Drift, Row
from .rows import KERNEL
from .stage import Stage, staged

pytestmark = pytest.mark.kernel

DRIFTS = [(row, drift) for row in KERNEL for drift in row.drifts]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged(listed.lines) as stage:
        yield stage


@pytest.mark.parametrize("row", KERNEL, ids=[row.name for row in KERNEL])
def test_an_object_is_made_once_and_removed_without_a_trace(stage: Stage, row: Row) -> None:
    promises.is_made_once_and_removed(stage, row)


@pytest.mark.parametrize("row", KERNEL, ids=[row.name for row in KERNEL])
def test_an_apply_is_undone_exactly(stage: Stage, row: Row) -> None:
    promises.undo_restores(stage, row)


@pytest.mark.parametrize(
    ("row", "drift"), DRIFTS, ids=[f"{row.name}: {drift.commands[-1]}" for row, drift in DRIFTS]
)
def test_what_was_changed_by_hand_is_found_and_only_ours_is_removed(
    stage: Stage, row: Row, drift: Drift
) -> None:
    promises.drift_is_found(stage, row, drift)
