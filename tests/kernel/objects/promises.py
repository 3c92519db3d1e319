"""What is true of every kernel object, whatever it is."""

from __future__ import annotations

import pytest

from netloom.kernel import AnyObject, Change, Conflict, Plan, apply, check, remove
from netloom.kernel.plan import depart

from ...fixtures.kernel import NamespacePair, changed
from .conflicts import Foreign
from .row import Drift, Row


def prepare(pair: NamespacePair, row: Row) -> None:
    pair.by_hand(row.by_hand)
    pair.set(row.setup)


def changes(pair: NamespacePair, item: AnyObject) -> list[Change]:
    return apply(Plan((item,)), pair.scope)


def differing(pair: NamespacePair, item: AnyObject) -> list[tuple[str, str, str | None]]:
    """What `check` finds, without its values."""
    return [(found.object, found.what, found.field) for found in check(Plan((item,)), pair.scope)]


def expected(item: AnyObject, fields: tuple[str, ...]) -> list[tuple[str, str, str | None]]:
    if not fields:
        return [(item.label, "missing", None)]
    return [(item.label, "different", field) for field in fields]


def is_made_once_and_removed(pair: NamespacePair, row: Row) -> None:
    item = row.object
    prepare(pair, row)
    before = pair.snapshot(item)

    assert [change.change for change in changes(pair, item)] == ["made"]
    made = pair.snapshot(item)
    assert changed(before, made) != []
    assert differing(pair, item) == []

    assert [change.change for change in changes(pair, item)] == ["kept"]
    assert changed(made, pair.snapshot(item)) == []

    remove(Plan((item,)), pair.scope)
    after = pair.snapshot(item)
    assert changed(made if row.stays else before, after) == []

    remove(Plan((item,)), pair.scope)
    assert changed(after, pair.snapshot(item)) == []


def undo_restores(pair: NamespacePair, row: Row) -> None:
    item = row.object
    prepare(pair, row)
    before = pair.snapshot(item)

    undo = item.apply(pair.scope)
    assert undo is not None
    departure = undo()
    if departure is not None:
        depart([departure])

    assert changed(before, pair.snapshot(item)) == []


def drift_is_found(pair: NamespacePair, row: Row, drift: Drift) -> None:
    item = row.object
    prepare(pair, row)
    before = pair.snapshot(item)
    changes(pair, item)

    pair.by_hand(drift.commands, drift.where)

    drifted = pair.snapshot(item)
    assert differing(pair, item) == expected(item, drift.fields)
    if drift.removal == "conflict":
        with pytest.raises(Conflict):
            remove(Plan((item,)), pair.scope)
        assert changed(drifted, pair.snapshot(item)) == []
        return
    remove(Plan((item,)), pair.scope)
    if drift.removal == "left":
        assert changed(drifted, pair.snapshot(item)) == []
        return
    assert changed(before, pair.snapshot(item)) == []
    assert [change.change for change in changes(pair, item)] == ["made"]
    assert differing(pair, item) == []


def foreign_is_left_alone(pair: NamespacePair, foreign: Foreign) -> None:
    item = foreign.object
    pair.set(foreign.setup)
    pair.by_hand(foreign.by_hand)
    before = pair.snapshot(item)

    with pytest.raises(Conflict) as refused:
        item.apply(pair.scope)
    assert [found.field for found in refused.value.differences][:1] == [foreign.field]
    assert changed(before, pair.snapshot(item)) == []

    if foreign.removal == "conflict":
        with pytest.raises(Conflict):
            remove(Plan((item,)), pair.scope)
    else:
        remove(Plan((item,)), pair.scope)
    assert changed(before, pair.snapshot(item)) == []
