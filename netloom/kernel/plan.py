"""Plans: ordered kernel objects that are applied, checked and removed as one.

A plan is safe to run at any time, any number of times: objects keep what already matches, never change what
is not ours, and count a missing object as removed. A plan that fails to apply rolls back only what it made
itself, in reverse.

Removing a link costs the caller 15 to 25 ms if it waits for the acknowledgement, so the steps below do not
wait: they hand the links over (`yield`) and continue when these are deleted. `run` deletes them in place; the
dataplane has reapers for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ..cni.wire import placed, thread_safe
from ..failpoints import failpoint
from .errors import ABSENT, Difference, InvalidPlan, KernelError, KernelTimeout, OutcomeUnknown, Refused
from .netlink import link
from .objects import (
    AnyObject,
    LinkDeletion,
    LinkName,
    Neighbour,
    NftElement,
    Object,
    Scope,
    Sysctl,
    Undo,
    Up,
    Where,
)

VERSION = 1

T = TypeVar("T")
# Yields links that must be deleted before it continues.
Steps: TypeAlias = Generator[list[LinkDeletion], None, T]
# Why to stop now, or empty.
Impatience: TypeAlias = Callable[[], str]


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """Kernel objects in the order of their creation."""

    objects: tuple[AnyObject, ...]
    version: int = VERSION

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """Decodes a plan. Raises `InvalidPlan`, which says what is wrong and where."""
        try:
            version = msgspec.json.decode(data, type=thread_safe(_Versioned)).version
            if version > VERSION:
                raise InvalidPlan(
                    f"the plan has version {version}, and this netloom reads up to {VERSION}: upgrade netloom"
                )
            if version < 1:
                raise InvalidPlan(f"{version} is not a version of plans")
            return msgspec.json.decode(data, type=thread_safe(cls))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as cause:
            raise InvalidPlan(f"not a plan: {placed(cause, data)}") from None

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class _Versioned(Struct):
    version: int = VERSION


class Change(Struct, frozen=True):
    """What `apply` did with one object."""

    object: str
    change: Literal["made", "kept"]


class Incomplete(KernelError):
    """Some objects could not be removed; all others were. `errors` has one for each."""

    def __init__(self, errors: Sequence[KernelError]) -> None:
        super().__init__("; ".join(map(str, errors)), errno=errors[0].errno)
        self.errors = tuple(errors)


class Repair(Struct, frozen=True):
    """The labels of what `repair` put back, and the differences that it did not change."""

    put_back: list[str]
    left: list[Difference]


class AppliedPlan(Struct, frozen=True):
    """What `applying` did, with its rollback."""

    changes: list[Change]
    made: list[tuple[AnyObject, Undo]]

    @property
    def answer(self) -> object:
        """The answer for the caller."""
        return self.changes

    def undoing(self) -> Steps[None]:
        """Rolls back only what was made."""
        failures = yield from _taking(_in_reverse(self.made))
        if failures:
            raise failures[0] if len(failures) == 1 else Incomplete(failures)


class Repaired(AppliedPlan, frozen=True):
    """What `repairing` did, with its rollback."""

    left: list[Difference]

    @property
    def answer(self) -> Repair:
        return Repair([change.object for change in self.changes if change.change == "made"], self.left)


def apply(plan: Plan, scope: Scope) -> list[Change]:
    return run(applying(plan, scope)).changes


def check(plan: Plan, scope: Scope) -> list[Difference]:
    """Returns what is missing or different; empty if all is as planned."""
    found: list[Difference] = []
    for item in plan.objects:
        absent = _absent_place(item, scope)
        found += [Difference(item.label, "missing")] if absent else item.check(scope)
    return found


def repair(plan: Plan, scope: Scope) -> Repair:
    """Puts back what is missing; reports differences without changing them."""
    return run(repairing(plan, scope)).answer


def remove(plan: Plan, scope: Scope) -> None:
    run(removing(plan, scope))


def run(steps: Steps[T]) -> T:
    """Runs all steps in place, waiting for the acknowledgement of every removal."""
    try:
        departures = next(steps)
        while True:
            try:
                depart(departures)
            except KernelError as error:
                departures = steps.throw(error)
            else:
                departures = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def depart(departures: Sequence[LinkDeletion]) -> None:
    for departure in departures:
        try:
            departure.namespace.route.change(link.DELETE, 0, link.by_index(departure.index))
        except Refused as refused:
            if refused.errno not in ABSENT:
                raise refused.during(f"cannot remove {departure.label}") from None


def patient() -> str:
    return ""


def applying(plan: Plan, scope: Scope, impatience: Impatience = patient) -> Steps[AppliedPlan]:
    """Creates all objects, or changes nothing."""
    _require_places(plan, scope)
    return (yield from _making(plan.objects, scope, impatience))


def repairing(plan: Plan, scope: Scope, impatience: Impatience = patient) -> Steps[Repaired]:
    """Puts back what an applied plan has lost, or changes nothing.

    Other differences stay: a later plugin or the operator may have made them on purpose.
    """
    _require_places(plan, scope)
    lost, left = _losses(plan, scope)
    applied = yield from _making(lost, scope, impatience)
    return Repaired(applied.changes, applied.made, left)


def _is_missing(item: AnyObject, difference: Difference) -> bool:
    """A neighbour that the kernel learned is there because ours was missing."""
    return difference.what == "missing" or (isinstance(item, Neighbour) and difference.found == "learned")


def _losses(plan: Plan, scope: Scope) -> tuple[list[AnyObject], list[Difference]]:
    """Returns what can be put back, and every other difference.

    A link that is down counts as lost: the kernel deletes its routes with it. So do its settings: the process
    that made it may have ended before it set them, and they matter once it is up. What depends on a link that
    will not exist cannot be put back, and must not stop the rest.
    """
    lost: list[AnyObject] = []
    left: list[Difference] = []
    coming: set[LinkName] = set()
    found = [(item, item.check(scope)) for item in plan.objects]
    down = {(item.on, item.link) for item, differences in found if isinstance(item, Up) and differences}
    for item, differences in found:
        if not differences:
            continue
        unset = isinstance(item, Sysctl) and not down.isdisjoint(item.rests_on())
        missing = all(_is_missing(item, difference) for difference in differences)
        gone = missing or unset or isinstance(item, Up)
        if gone and all(name in coming or _has_link(scope, name) for name in item.rests_on()):
            lost.append(item)
            coming.update(item.makes())
        else:
            left += differences
    return lost, left


def _has_link(scope: Scope, name: LinkName) -> bool:
    try:
        return scope.at(name[0]).route.index(name[1]) > 0
    except Refused:
        return False


def _require_places(plan: Plan, scope: Scope) -> None:
    if scope.attachment is not None:
        return  # there are only two places
    for item in plan.objects:
        absent = _absent_place(item, scope)
        if absent:
            raise InvalidPlan(f"{item.label} needs the {absent}'s namespace, but none was given")


def _making(objects: Sequence[AnyObject], scope: Scope, impatience: Impatience) -> Steps[AppliedPlan]:
    made: list[tuple[AnyObject, Undo]] = []
    changes: list[Change] = []
    try:
        for items in _runs(objects):
            _require_patience(impatience, items[0])
            undos = list(zip(items, _applied(items, scope), strict=True))
            changes += [Change(item.label, "kept" if undo is None else "made") for item, undo in undos]
            made += _together([(item, undo) for item, undo in undos if undo is not None], scope)
            failpoint("kernel.made")
        for item, _ in made:
            item.settle(scope)
        _require_patience(impatience)
    except BaseException as error:
        for failure in (yield from _taking(_in_reverse(made))):
            error.add_note(f"could not be undone: {failure}")
        raise
    return AppliedPlan(changes, made)


def _require_patience(impatience: Impatience, before: AnyObject | None = None) -> None:
    why = impatience()
    if why:
        where = "the end" if before is None else before.label
        raise KernelTimeout(f"stopped before {where}: {why}; rolled back")


def _applied(items: Sequence[AnyObject], scope: Scope) -> Sequence[Undo | None]:
    try:
        if isinstance(items[0], NftElement):
            return NftElement.apply_all([item for item in items if isinstance(item, NftElement)], scope)
        return [items[0].apply(scope)]
    except OutcomeUnknown:
        # The answer was lost. An object that is now as planned counts as ours; otherwise it was not made.
        if any(item.check(scope) for item in items):
            raise
        return [_removal(item, scope) for item in items]


def _removal(item: Object, scope: Scope) -> Undo:
    return lambda: item.remove(scope)


def _in_reverse(made: Sequence[tuple[AnyObject, Undo]]) -> list[tuple[AnyObject, Undo]]:
    """Yields the objects in reverse, without those that are deleted with their link."""
    leaving = {name for item, _ in made for name in item.makes()}
    return [(item, undo) for item, undo in reversed(made) if not _goes_along(item, leaving)]


def removing(plan: Plan, scope: Scope) -> Steps[None]:
    """Removes everything, in reverse; a failure does not stop the rest.

    What depends on a link of the plan is deleted with it. What was in a deleted namespace no longer exists.
    """
    leaving = {name for item in plan.objects for name in item.makes()}
    undos: list[tuple[AnyObject, Undo]] = []
    for items in reversed(list(_runs(plan.objects))):
        if not scope.has(items[0].on) or _goes_along(items[0], leaving):
            continue
        if isinstance(items[0], NftElement):
            elements = [item for item in items if isinstance(item, NftElement)]
            undos.append((items[0], _removal_of_all(elements, scope)))
        else:
            undos.append((items[0], _removal(items[0], scope)))
    failures = yield from _taking(undos)
    if failures:
        raise failures[0] if len(failures) == 1 else Incomplete(failures)


def _together(made: list[tuple[AnyObject, Undo]], scope: Scope) -> list[tuple[AnyObject, Undo]]:
    """Removes elements that were added in one transaction in one as well."""
    elements = [item for item, _ in made if isinstance(item, NftElement)]
    return [(elements[0], _removal_of_all(elements, scope))] if elements else made


def _removal_of_all(elements: list[NftElement], scope: Scope) -> Undo:
    return lambda: NftElement.remove_all(elements, scope)


def _taking(undos: Iterable[tuple[AnyObject, Undo]]) -> Steps[list[KernelError]]:
    """Removes one object after the other; consecutive links together."""
    failures: list[KernelError] = []
    waiting: list[LinkDeletion] = []
    for item, undo in undos:
        try:
            if waiting and not list(item.makes()):
                yield from _parting(waiting, failures)
                waiting = []
            departure = undo()
            failpoint("kernel.taken")
        except KernelError as failure:
            failures.append(failure)
        except OSError as failure:
            failures.append(KernelError(f"{item.label}: {failure.strerror}", errno=failure.errno or 0))
        else:
            if departure is not None:
                waiting.append(departure)
    if waiting:
        yield from _parting(waiting, failures)
    return failures


def _parting(waiting: list[LinkDeletion], failures: list[KernelError]) -> Steps[None]:
    try:
        yield waiting
    except KernelError as failure:
        failures.append(failure)


def _goes_along(item: Object, leaving: set[LinkName]) -> bool:
    rests = list(item.rests_on())
    return bool(rests) and all(name in leaving for name in rests)


def _runs(objects: Sequence[AnyObject]) -> list[list[AnyObject]]:
    """Yields objects one by one, but nft elements of one namespace together: they are one transaction."""
    runs: list[list[AnyObject]] = []
    for item in objects:
        last = runs[-1][-1] if runs else None
        if isinstance(item, NftElement) and isinstance(last, NftElement) and last.on == item.on:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _absent_place(item: Object, scope: Scope) -> Where | None:
    return next((place for place in item.places() if not scope.has(place)), None)
