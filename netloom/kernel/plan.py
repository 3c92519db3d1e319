"""Plans: ordered kernel objects that are applied, checked and removed as one.

What makes a plan safe to run at any time, any number of times: objects keep what is already so,
leave alone what is not ours, and count what is gone already as removed. A plan that fails to apply
takes back what it made itself, in reverse, and nothing else.

Removing a link costs the caller 15 to 25 ms if it waits for the acknowledgement, so the steps
below do not: they hand the links over (`yield`) and go on when these are gone. `run` does it the
simple way, on the spot; the dataplane has reapers for it.
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
# Yields links that have to be gone before it goes on.
Steps: TypeAlias = Generator[list[LinkDeletion], None, T]
# Why to stop now, or nothing.
Impatience: TypeAlias = Callable[[], str]


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """Kernel objects in the order in which they are made."""

    objects: tuple[AnyObject, ...]
    version: int = VERSION

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """Raises `InvalidPlan`, which says where and what is wrong."""
        try:
            version = msgspec.json.decode(data, type=thread_safe(_Versioned)).version
            if version > VERSION:
                raise InvalidPlan(
                    f"the plan is of version {version}, and this netloom reads up to {VERSION}: upgrade it"
                )
            if version < 1:
                raise InvalidPlan(f"there is no version {version} of plans")
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
    """What `repair` put back, by label, and what is not as planned and was left alone."""

    put_back: list[str]
    left: list[Difference]


class AppliedPlan(Struct, frozen=True):
    """What `applying` did, and how to take it back."""

    changes: list[Change]
    made: list[tuple[AnyObject, Undo]]

    @property
    def answer(self) -> object:
        """The answer for the caller."""
        return self.changes

    def undoing(self) -> Steps[None]:
        """Takes back what was made, and nothing else."""
        failures = yield from _taking(_in_reverse(self.made))
        if failures:
            raise failures[0] if len(failures) == 1 else Incomplete(failures)


class Repaired(AppliedPlan, frozen=True):
    """What `repairing` did, and how to take it back."""

    left: list[Difference]

    @property
    def answer(self) -> Repair:
        return Repair([change.object for change in self.changes if change.change == "made"], self.left)


def apply(plan: Plan, scope: Scope) -> list[Change]:
    return run(applying(plan, scope)).changes


def check(plan: Plan, scope: Scope) -> list[Difference]:
    """What is missing or different; nothing if all is as planned."""
    found: list[Difference] = []
    for item in plan.objects:
        absent = _absent_place(item, scope)
        found += [Difference(item.label, "missing")] if absent else item.check(scope)
    return found


def repair(plan: Plan, scope: Scope) -> Repair:
    """Puts back what is missing; what is there and different is told, and left alone."""
    return run(repairing(plan, scope)).answer


def remove(plan: Plan, scope: Scope) -> None:
    run(removing(plan, scope))


def run(steps: Steps[T]) -> T:
    """Takes all steps on the spot, waiting for the acknowledgement of every removal."""
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
    """Makes everything so, or leaves everything as it was."""
    _require_places(plan, scope)
    return (yield from _making(plan.objects, scope, impatience))


def repairing(plan: Plan, scope: Scope, impatience: Impatience = patient) -> Steps[Repaired]:
    """Puts back what a plan that was applied has lost, or leaves everything as it was.

    A plugin after us or the operator may have changed the rest on purpose: it stays.
    """
    _require_places(plan, scope)
    lost, left = _losses(plan, scope)
    applied = yield from _making(lost, scope, impatience)
    return Repaired(applied.changes, applied.made, left)


def _is_missing(item: AnyObject, difference: Difference) -> bool:
    """A neighbour that the kernel has thread_safe is there because ours was not."""
    return difference.what == "missing" or (isinstance(item, Neighbour) and difference.found == "learned")


def _losses(plan: Plan, scope: Scope) -> tuple[list[AnyObject], list[Difference]]:
    """What can be put back, and every other difference.

    A link that is down counts as a loss: the kernel removes its routes with it. So do its
    settings: the process that made it may have ended before it set them, and they matter once it is up.
    What rests on a link that will not be there cannot come back, and must not keep the rest from it.
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
        return  # there is no third place
    for item in plan.objects:
        absent = _absent_place(item, scope)
        if absent:
            raise InvalidPlan(f"{item.label} needs the {absent}'s namespace, and none was given")


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
        raise KernelTimeout(f"gave up before {where}: {why}; what was made is taken back")


def _applied(items: Sequence[AnyObject], scope: Scope) -> Sequence[Undo | None]:
    try:
        if isinstance(items[0], NftElement):
            return NftElement.apply_all([item for item in items if isinstance(item, NftElement)], scope)
        return [items[0].apply(scope)]
    except OutcomeUnknown:
        # The answer was lost. What is as we want it now is ours; what is not was not made.
        if any(item.check(scope) for item in items):
            raise
        return [_removal(item, scope) for item in items]


def _removal(item: Object, scope: Scope) -> Undo:
    return lambda: item.remove(scope)


def _in_reverse(made: Sequence[tuple[AnyObject, Undo]]) -> list[tuple[AnyObject, Undo]]:
    """Without what goes with its link anyway."""
    leaving = {name for item, _ in made for name in item.makes()}
    return [(item, undo) for item, undo in reversed(made) if not _goes_along(item, leaving)]


def removing(plan: Plan, scope: Scope) -> Steps[None]:
    """Removes everything, in reverse; what fails does not keep the rest from going.

    What rests on a link of the plan goes with it. What was in a namespace that is gone is gone.
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
    """Elements that came in one transaction go in one."""
    elements = [item for item, _ in made if isinstance(item, NftElement)]
    return [(elements[0], _removal_of_all(elements, scope))] if elements else made


def _removal_of_all(elements: list[NftElement], scope: Scope) -> Undo:
    return lambda: NftElement.remove_all(elements, scope)


def _taking(undos: Iterable[tuple[AnyObject, Undo]]) -> Steps[list[KernelError]]:
    """Takes away one after the other; links that follow each other go together."""
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
    """Each object for itself, but nft elements of one namespace together: they are one transaction."""
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
