"""Everything that is tried, one after the other, within the time that there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from ...kernel import KernelError
from .causes import Cause, Causes
from .failed import Failed, Skipped
from .report import AS_ASKED, Check, Outcome
from .trial import Key, Trial
from .trials import Scene, trials

# For each answer. A kernel that has nothing else to do gives one in a tenth of a millisecond.
_PATIENCE, _DOUBTFUL = 2.0, 1.0
# After so many that failed, the next one will hardly come late.
_MANY = 3
_NO_TIME = "no time was left"
_NO_CAUSE = Cause("", "", "")


def try_all(
    scene: Scene, deadline: float, skip: Collection[str], tell: Callable[[Trial], object]
) -> tuple[tuple[Check, ...], bool]:
    """The checks, and whether there was time for all of them."""
    causes = Causes(scene)
    done: dict[Key, Check] = {}
    in_time = True
    for trial in trials(scene):
        tell(trial)
        left = deadline - time.monotonic()
        if trial.what in skip:
            check = _check(trial, "skipped", detail=AS_ASKED)
        elif left <= 0:
            check, in_time = _check(trial, "skipped", detail=_NO_TIME), False
        elif (why := _why_not(trial, done)) is not None:
            check = _check(trial, "skipped", detail=why)
        else:
            check = _tried(trial, min(_patience(trial, done), left), causes)
        done[trial.key] = check
    return tuple(done.values()), in_time


def _why_not(trial: Trial, done: dict[Key, Check]) -> str | None:
    if trial.needs is None or trial.needs not in done or done[trial.needs].result == "passed":
        return None
    what, _, sender, target = trial.needs
    how = "failed" if done[trial.needs].result == "failed" else "was not tried"
    return f"{what} from {sender} to {target} {how}"


def _patience(trial: Trial, done: dict[Key, Check]) -> float:
    failed = [key for key, check in done.items() if check.result == "failed"]
    return _DOUBTFUL if trial.doubts in failed or len(failed) >= _MANY else _PATIENCE


def _tried(trial: Trial, patience: float, causes: Causes) -> Check:
    begun = time.monotonic()
    try:
        milliseconds, detail = trial.attempt(patience)
        return _check(trial, "passed", milliseconds, detail)
    except Skipped as skipped:
        return _check(trial, "skipped", detail=str(skipped))
    except Failed as failed:
        lasted = (time.monotonic() - begun) * 1000
        cause = causes.of(trial, failed)
        return _check(trial, "failed", lasted, str(failed), cause)
    except (KernelError, OSError) as error:
        lasted = (time.monotonic() - begun) * 1000
        cause = causes.of(trial, Failed(str(error)))
        return _check(trial, "failed", lasted, str(error), cause)


def _check(
    trial: Trial,
    result: Outcome,
    milliseconds: float = 0.0,
    detail: str = "",
    cause: Cause = _NO_CAUSE,
) -> Check:
    return Check(
        what=trial.what,
        family=trial.family,
        source=trial.sender.name,
        target=trial.target,
        result=result,
        milliseconds=round(milliseconds, 3),
        detail=detail,
        code=cause.code,
        subject=cause.subject,
        cause=cause.text,
        next=cause.advice,
    )
