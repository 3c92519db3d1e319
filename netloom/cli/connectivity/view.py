"""What a person sees of it: a line while it runs, a table, and below it what failed, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ..output import complain, printable, say
from ..views import table
from .report import AS_ASKED, Check, Connectivity
from .trial import Trial

_HEADER = ("WHAT", "FAMILY", "FROM", "TO", "RESULT", "MS", "DETAIL")


@contextmanager
def progress(*, shown: bool) -> Iterator[Callable[[str], None]]:
    """A line on the terminal, which is gone when all is over."""
    on_terminal = shown and sys.stderr is not None and sys.stderr.isatty()

    def tell(text: str) -> None:
        if on_terminal:
            sys.stderr.write(f"\r\x1b[K{printable(text)}")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        tell("")


def trying(trial: Trial) -> str:
    return f"trying {trial.what} {trial.family} from {trial.sender.name} to {trial.target}"


def show(found: Connectivity) -> None:
    shown = [check for check in found.checks if check.detail != AS_ASKED]
    say(*table([_row(check) for check in shown], _HEADER), "")
    for checks in _by_cause(found):
        say(*map(printable, _explained(checks)))
    say(_summary(found))
    if found.removal:
        say("", "the containers are kept; this removes them:", *(f"  {line}" for line in found.removal))


def tell_what_is_left(found: Connectivity) -> None:
    for warning in found.warnings:
        complain(f"warning: {printable(warning)}")
    for it in found.left:
        complain(printable(f"left:  {it.what}: {it.why}"), f"next:  {it.next}")


def _row(check: Check) -> tuple[str, ...]:
    shown = "" if check.result == "skipped" else f"{check.milliseconds:.1f}"
    return check.what, check.family, check.source, check.target, check.result, shown, check.detail


def _by_cause(found: Connectivity) -> Iterable[list[Check]]:
    """What has failed for the same reason stands together, and the reason once."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for check in found.checks:
        if check.result == "failed":
            groups.setdefault((check.code, check.cause, check.next), []).append(check)
    return groups.values()


def _explained(checks: list[Check]) -> list[str]:
    lines = [f"{it.what} {it.family} from {it.source} to {it.target}: {it.detail}" for it in checks]
    first = checks[0]
    lines += [f"  cause: {first.cause}"] if first.cause else []
    return [*lines, f"  next:  {first.next}", f"  more:  netloom explain {first.code}", ""]


def _summary(found: Connectivity) -> str:
    text = f"{found.network}: {found.passed} passed, {found.failed} failed, {found.skipped} skipped"
    return text if found.in_time else f"{text}; the time was over before all was tried"
