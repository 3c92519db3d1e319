"""What `netloom doctor` reports: every check that ran, and its findings."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ...api.findings import Finding
from ...api.paths import Place
from ...cni import CNIError
from ...kernel import KernelError, Namespace
from ...kernel.features import Availability
from ..errors import OperationFailed
from ..inspect.checking import RECHECK_AFTER, Identities, identities, is_same
from ..journals.reading import reading
from ..status.findings import of_journal
from .checks import DAMAGED, FAILED, Context, NodeCheck, Selection, silently
from .fixes import Fix, fix, judged


class CheckRun(Struct, frozen=True, kw_only=True, rename={"check": "look"}):
    """A check that ran."""

    check: Annotated[str, Meta(description="its name, as --only takes it")]
    about: Annotated[str, Meta(description="what it checks")]
    findings: Annotated[int, Meta(description="number of its findings")]
    took: Annotated[float, Meta(description="duration in milliseconds")]


class Diagnosis(Struct, frozen=True, kw_only=True, rename={"checks": "looks"}):
    """The state of the machine."""

    kernel: Annotated[str, Meta(description="the release of the running kernel")]
    features: Annotated[
        tuple[Availability, ...],
        Meta(description="what the kernel can do; empty if the check `features` did not run"),
    ]
    findings: Annotated[tuple[Finding, ...], Meta(description="everything that is wrong; errors come first")]
    checks: Annotated[tuple[CheckRun, ...], Meta(description="the checks that ran")]
    fixed: Annotated[tuple[Fix, ...], Meta(description="with --fix, what was done about findings")] = ()


def diagnose(place: Place, selection: Selection, notify: Callable[[str], None] = silently) -> Diagnosis:
    """Runs checks. A finding that may pass is reported only if later runs of its check repeat it."""
    checks = selection.checks
    with Namespace.own() as host:
        context = Context(place, host, notify)
        ran, found = _run(checks, context)
        doubtful = _doubtful(checks, found)
        before = _marks(context) if doubtful else {}
        for moment in RECHECK_AFTER if doubtful else ():
            notify("checking whether the findings persist")
            time.sleep(moment)
            later = Context(place, host, notify)
            again = _run(doubtful, later)[1]
            now = _marks(later)
            for name, seen in again.items():
                found[name] = _both(found[name], [it for it in seen if is_same(it.subject, before, now)])
            before, doubtful = now, _doubtful(doubtful, found)
            if not doubtful:
                break
    _deduplicate(checks, found)
    every = [it for check in checks for it in found[check.name]]
    reported = [it for it in every if not selection.codes or it.code in selection.codes]
    return Diagnosis(
        kernel=platform.release(),
        features=tuple(context.features),
        findings=tuple(sorted(reported, key=lambda it: it.severity != "error")),
        checks=tuple(
            CheckRun(
                check=check.name, about=check.about, findings=len(found[check.name]), took=round(took, 1)
            )
            for check, took in ran
        ),
    )


def diagnose_and_fix(
    place: Place, selection: Selection, notify: Callable[[str], None] = silently, *, dry_run: bool
) -> Diagnosis:
    """Runs checks and fixes, then checks again. A finding that remains was not fixed."""
    found = diagnose(place, selection, notify)
    fixed = fix(place, found.findings, dry_run=dry_run)
    left = diagnose(place, selection, notify) if any(it.done for it in fixed) else found
    return replace(left, fixed=tuple(judged(fixed, left.findings)))


def _run(
    checks: Sequence[NodeCheck], context: Context
) -> tuple[list[tuple[NodeCheck, float]], dict[str, list[Finding]]]:
    ran, found = [], {}
    for check in checks:
        context.notify(check.about)
        began = time.perf_counter()
        try:
            with reading(context.place):
                found[check.name] = check.run(context)
        except (KernelError, CNIError, OperationFailed, OSError) as error:
            found[check.name] = [_failed(check, error, context.place.state_dir)]
        ran.append((check, (time.perf_counter() - began) * 1000))
    return ran, found


def _doubtful(checks: Sequence[NodeCheck], found: dict[str, list[Finding]]) -> list[NodeCheck]:
    return [check for check in checks if check.passes and found[check.name]]


def _marks(context: Context) -> Identities:
    try:
        with reading(context.place):
            return identities(context.attachments, context.host)
    except (KernelError, OperationFailed, OSError):  # which a check reports
        return {}


def _failed(check: NodeCheck, error: Exception, state_dir: str) -> Finding:
    if isinstance(error, OperationFailed) and error.code == DAMAGED:  # noticed only when a page is read
        return of_journal(error, state_dir)
    return Finding(
        code=FAILED,
        severity="warning",
        subject=check.name,
        text=f"could not check {check.about}: {error}",
        next="fix the cause that the message names, and run `netloom doctor` again",
    )


def _both(one: Sequence[Finding], other: Sequence[Finding]) -> list[Finding]:
    """Returns findings that both runs have, with the text of the later run, which may differ."""
    known = {(it.code, it.subject) for it in one}
    return [it for it in other if (it.code, it.subject) in known]


def _deduplicate(checks: Sequence[NodeCheck], found: dict[str, list[Finding]]) -> None:
    """Leaves a finding of several checks with the first of them."""
    seen: set[tuple[str, str]] = set()
    for check in checks:
        found[check.name] = [it for it in found[check.name] if (it.code, it.subject) not in seen]
        seen |= {(it.code, it.subject) for it in found[check.name]}
