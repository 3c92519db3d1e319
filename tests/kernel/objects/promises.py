"""What is true of every kernel object, whatever it is."""

from __future__ import annotations

import pytest

from netloom.kernel import AnyObject, Change, Conflict, Plan, apply, check, remove
from netloom.kernel.plan import depart

from .conflicts import Foreign
from .row import Drift, Row
from .stage import Stage, changed


def prepare(stage: Stage, row: Row) -> None:
    stage.by_hand(row.by_hand)
    stage.set(row.setup)


def changes(stage: Stage, item: AnyObject) -> list[Change]:
    return apply(Plan((item,)), stage.scope)


def differing(stage: Stage, item: AnyObject) -> list[tuple[str, str, str | None]]:
    """What `check` finds, without its values."""
    return [(found.object, found.what, found.field) for found in check(Plan((item,)), stage.scope)]


def expected(item: AnyObject, fields: tuple[str, ...]) -> list[tuple[str, str, str | None]]:
    if not fields:
        return [(item.label, "missing", None)]
    return [(item.label, "different", field) for field in fields]


def is_made_once_and_removed(stage: Stage, row: Row) -> None:
    item = row.object
    prepare(stage, row)
    before = stage.snapshot(item)

    assert [change.change for change in changes(stage, item)] == ["made"]
    made = stage.snapshot(item)
    assert changed(before, made) != []
    assert differing(stage, item) == []

    assert [change.change for change in changes(stage, item)] == ["kept"]
    assert changed(made, stage.snapshot(item)) == []

    remove(Plan((item,)), stage.scope)
    after = stage.snapshot(item)
    assert changed(made if row.stays else before, after) == []

    remove(Plan((item,)), stage.scope)
    assert changed(after, stage.snapshot(item)) == []


def undo_restores(stage: Stage, row: Row) -> None:
    item = row.object
    prepare(stage, row)
    before = stage.snapshot(item)

    undo = item.apply(stage.scope)
    assert undo is not None
    departure = undo()
    if departure is not None:
        depart([departure])

    assert changed(before, stage.snapshot(item)) == []


def drift_is_found(stage: Stage, row: Row, drift: Drift) -> None:
    item = row.object
    prepare(stage, row)
    before = stage.snapshot(item)
    changes(stage, item)

    stage.by_hand(drift.commands, drift.where)

    drifted = stage.snapshot(item)
    assert differing(stage, item) == expected(item, drift.fields)
    if drift.removal == "conflict":
        with pytest.raises(Conflict):
            remove(Plan((item,)), stage.scope)
        assert changed(drifted, stage.snapshot(item)) == []
        return
    remove(Plan((item,)), stage.scope)
    if drift.removal == "left":
        assert changed(drifted, stage.snapshot(item)) == []
        return
    assert changed(before, stage.snapshot(item)) == []
    assert [change.change for change in changes(stage, item)] == ["made"]
    assert differing(stage, item) == []


def foreign_is_left_alone(stage: Stage, foreign: Foreign) -> None:
    item = foreign.object
    stage.set(foreign.setup)
    stage.by_hand(foreign.by_hand)
    before = stage.snapshot(item)

    with pytest.raises(Conflict) as refused:
        item.apply(stage.scope)
    assert [found.field for found in refused.value.differences][:1] == [foreign.field]
    assert changed(before, stage.snapshot(item)) == []

    if foreign.removal == "conflict":
        with pytest.raises(Conflict):
            remove(Plan((item,)), stage.scope)
    else:
        remove(Plan((item,)), stage.scope)
    assert changed(before, stage.snapshot(item)) == []
