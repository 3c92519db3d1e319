from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...fixtures.kernel import NamespacePair, new_pair
from . import listed, promises
from .row import Drift, Row
from .rows import KERNEL

pytestmark = pytest.mark.kernel

DRIFTS = [(row, drift) for row in KERNEL for drift in row.drifts]


@pytest.fixture
def pair() -> Iterator[NamespacePair]:
    with new_pair(listed.lines) as pair:
        yield pair


@pytest.mark.parametrize("row", KERNEL, ids=[row.name for row in KERNEL])
def test_an_object_is_made_once_and_removed_without_a_trace(pair: NamespacePair, row: Row) -> None:
    promises.is_made_once_and_removed(pair, row)


@pytest.mark.parametrize("row", KERNEL, ids=[row.name for row in KERNEL])
def test_an_apply_is_undone_exactly(pair: NamespacePair, row: Row) -> None:
    promises.undo_restores(pair, row)


@pytest.mark.parametrize(
    ("row", "drift"), DRIFTS, ids=[f"{row.name}: {drift.commands[-1]}" for row, drift in DRIFTS]
)
def test_what_was_changed_by_hand_is_found_and_only_ours_is_removed(
    pair: NamespacePair, row: Row, drift: Drift
) -> None:
    promises.drift_is_found(pair, row, drift)
