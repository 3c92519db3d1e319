"""Reports errors of `netloom.kernel`."""

from __future__ import annotations

import errno
import os
from typing import Annotated

from msgspec import Meta, Struct

from ..api.text import printable
from ..kernel import (
    Conflict,
    Difference,
    Incomplete,
    InvalidNamespace,
    InvalidObject,
    InvalidPlan,
    KernelError,
    KernelTimeout,
    LibraryMissing,
    Unsupported,
)
from ..ops.advice import as_root
from .exit_status import CONFIGURATION, DEADLINE, FAILED
from .failure import Code, Next, Notes, See, Sentence, Warnings

# The first entry that an error is an instance of: exit status, code, and next step.
_ADVICE: tuple[tuple[type[KernelError], int, str, str], ...] = (
    (
        InvalidPlan,
        CONFIGURATION,
        "plan-invalid",
        "correct the plan, or upgrade netloom; docs/reference/plan.md lists every object",
    ),
    (InvalidObject, CONFIGURATION, "object-invalid", "correct the value that the message names"),
    (
        InvalidNamespace,
        FAILED,
        "namespace-invalid",
        "pass the namespace as a path, such as /run/netns/NAME, or as a name; to remove what a deleted "
        "namespace has left on the host, omit it",
    ),
    (
        Conflict,
        FAILED,
        "kernel-conflict",
        "correct or remove the conflicting object, unless other software needs it; or use another name",
    ),
    (Unsupported, FAILED, "kernel-lacks", "`netloom doctor` lists the features of this kernel"),
    (
        LibraryMissing,
        FAILED,
        "library-missing",
        "`apt install libnftables1` on Debian and Ubuntu, `dnf install nftables` on Fedora",
    ),
    (KernelTimeout, DEADLINE, "kernel-deadline", "try again, or raise the time limit"),
)
_OTHERWISE = "see the kernel's error at the end of the message; `netloom plan check` shows what is missing"


class OfKernel(Struct, frozen=True, kw_only=True):
    """The kernel refused a change, or differs from a plan."""

    code: Code
    error: Sentence
    errno: Annotated[str | None, Meta(description="the kernel's error code, such as `EPERM`")]
    feature: Annotated[str | None, Meta(description="the feature that this kernel lacks")]
    differences: Annotated[tuple[Difference, ...], Meta(description="of the conflicting object")]
    notes: Notes
    next: Next
    see: See = ""
    warnings: Warnings = ()


def explained(error: Exception) -> tuple[int, OfKernel, list[str]] | None:
    """Returns exit status, document and lines for people; None if the error is not of the kernel."""
    if not isinstance(error, KernelError):
        return None
    status, code, advice = _judge(error)
    differences = error.differences if isinstance(error, Conflict) else ()
    notes = list(getattr(error, "__notes__", ()))
    document = OfKernel(
        code=code,
        error=str(error),
        errno=errno.errorcode.get(error.errno),
        feature=error.feature if isinstance(error, Unsupported) else None,
        differences=tuple(differences),
        notes=tuple(notes),
        next=advice,
    )
    errors = error.errors if isinstance(error, Incomplete) else (error,)
    lines = [f"error: {printable(str(one))}" for one in errors]
    lines += [f"also:  {printable(note)}" for note in notes]
    return status, document, [*lines, f"next:  {advice}"]


def _judge(error: KernelError) -> tuple[int, str, str]:
    if isinstance(error, Incomplete):
        return _judge(error.errors[0])
    if error.errno in (errno.EPERM, errno.EACCES):
        root = os.geteuid() == 0
        advice = "run it with CAP_NET_ADMIN and CAP_SYS_ADMIN" if root else as_root()
        return FAILED, "kernel-forbids", advice
    for kind, status, code, advice in _ADVICE:
        if isinstance(error, kind):
            return status, code, advice
    return FAILED, "kernel-refused", _OTHERWISE
