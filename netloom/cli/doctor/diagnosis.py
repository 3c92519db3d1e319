"""What `netloom doctor` says: every look that was taken, and all that was found."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ...api.findings import Finding
from ...cni import CNIError
from ...kernel import KernelError, Namespace
from ...kernel.features import Availability
from ..failure import CommandFailed
from ..journal import reading
from ..node_findings import of_journal
from ..patience import MOMENTS, Marks, is_same, marks
from .fixes import Fix
from .ground import Ground
from .look import DAMAGED, FAILED, Look


class Taken(Struct, frozen=True, kw_only=True):
    """A look that was taken."""

    look: Annotated[str, Meta(description="its name, as --only takes it")]
    about: Annotated[str, Meta(description="what it is about")]
    findings: Annotated[int, Meta(description="how many it gave")]
    took: Annotated[float, Meta(description="milliseconds")]


class Diagnosis(Struct, frozen=True, kw_only=True):
    """How the machine is."""

    kernel: Annotated[str, Meta(description="the release of the running kernel")]
    features: Annotated[
        tuple[Availability, ...], Meta(description="what the kernel can do; empty if nobody looked")
    ]
    findings: Annotated[tuple[Finding, ...], Meta(description="all that is wrong; errors come first")]
    looks: Annotated[tuple[Taken, ...], Meta(description="what was looked at")]
    fixed: Annotated[tuple[Fix, ...], Meta(description="with --fix, what was done about findings")] = ()


def examine(args: argparse.Namespace, looks: Sequence[Look], tell: Callable[[str], None]) -> Diagnosis:
    with Namespace.own() as host:
        ground = Ground(args, host, tell)
        taken, found = _take(looks, ground)
        doubtful = _doubtful(looks, found)
        before = _marks(ground) if doubtful else {}
        for moment in MOMENTS if doubtful else ():
            tell("looking again at what may have been over by now")
            time.sleep(moment)
            later = Ground(args, host, tell)
            again = _take(doubtful, later)[1]
            now = _marks(later)
            for name, seen in again.items():
                found[name] = _both(found[name], [it for it in seen if is_same(it.subject, before, now)])
            before, doubtful = now, _doubtful(doubtful, found)
            if not doubtful:
                break
    _tell_once(looks, found)
    every = [it for look in looks for it in found[look.name]]
    return Diagnosis(
        kernel=platform.release(),
        features=tuple(ground.features),
        findings=tuple(sorted(every, key=lambda it: it.severity != "error")),
        looks=tuple(
            Taken(look=look.name, about=look.about, findings=len(found[look.name]), took=round(took, 1))
            for look, took in taken
        ),
    )


def _take(looks: Sequence[Look], ground: Ground) -> tuple[list[tuple[Look, float]], dict[str, list[Finding]]]:
    taken, found = [], {}
    for look in looks:
        ground.tell(look.about)
        began = time.perf_counter()
        try:
            with reading(ground.args):
                found[look.name] = look.take(ground)
        except (KernelError, CNIError, CommandFailed, OSError) as error:
            found[look.name] = [_failed(look, error, ground.args.state_dir)]
        taken.append((look, (time.perf_counter() - began) * 1000))
    return taken, found


def _doubtful(looks: Sequence[Look], found: dict[str, list[Finding]]) -> list[Look]:
    return [look for look in looks if look.passes and found[look.name]]


def _marks(ground: Ground) -> Marks:
    try:
        with reading(ground.args):
            return marks(ground.attachments, ground.host)
    except (KernelError, CommandFailed, OSError):  # of which a look tells
        return {}


def _failed(look: Look, error: Exception, state_dir: str) -> Finding:
    if isinstance(error, CommandFailed) and error.code == DAMAGED:  # which shows when its pages are read
        return of_journal(error, state_dir)
    return Finding(
        code=FAILED,
        severity="warning",
        subject=look.name,
        text=f"nobody could look at {look.about}: {error}",
        next="mend what the message names, and run `netloom doctor` again",
    )


def _both(one: Sequence[Finding], other: Sequence[Finding]) -> list[Finding]:
    """What was seen twice, as it was seen last: in words, it may have changed."""
    known = {(it.code, it.subject) for it in one}
    return [it for it in other if (it.code, it.subject) in known]


def _tell_once(looks: Sequence[Look], found: dict[str, list[Finding]]) -> None:
    """What a look before has found already is left to that one."""
    told: set[tuple[str, str]] = set()
    for look in looks:
        found[look.name] = [it for it in found[look.name] if (it.code, it.subject) not in told]
        told |= {(it.code, it.subject) for it in found[look.name]}
