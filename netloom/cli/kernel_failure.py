"""Errors of `netloom.kernel` for the person at the terminal."""

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

# The first entry that an error is an instance of: its exit status, its page, and what to do next.
_ADVICE: tuple[tuple[type[KernelError], int, str, str], ...] = (
    (
        InvalidPlan,
        CONFIGURATION,
        "plan-invalid",
        "mend the plan, or upgrade netloom; docs/reference/plan.md lists every object",
    ),
    (InvalidObject, CONFIGURATION, "object-invalid", "mend the value that the message names"),
    (
        InvalidNamespace,
        FAILED,
        "namespace-invalid",
        "give the namespace as a path, such as /run/netns/NAME, or as its name; to remove what a namespace "
        "that is gone has left on the host, leave it out",
    ),
    (
        Conflict,
        FAILED,
        "kernel-conflict",
        "set right or remove what is in the way, if nobody else needs it; or use another name",
    ),
    (Unsupported, FAILED, "kernel-lacks", "`netloom doctor` lists what this kernel can do"),
    (
        LibraryMissing,
        FAILED,
        "library-missing",
        "`apt install libnftables1` on Debian and Ubuntu, `dnf install nftables` on Fedora",
    ),
    (KernelTimeout, DEADLINE, "kernel-deadline", "try again, or give more time"),
)
_OTHERWISE = "the message ends with the kernel's own words; `netloom plan check` shows what is missing"


class OfKernel(Struct, frozen=True, kw_only=True):
    """The kernel refused something, or is not as it has to be."""

    code: Code
    error: Sentence
    errno: Annotated[str | None, Meta(description="the kernel's own code, such as `EPERM`")]
    feature: Annotated[str | None, Meta(description="what this kernel would have to be able to do")]
    differences: Annotated[tuple[Difference, ...], Meta(description="of something that is in the way")]
    notes: Notes
    next: Next
    see: See = ""
    warnings: Warnings = ()


def explained(error: Exception) -> tuple[int, OfKernel, list[str]] | None:
    """Exit status, what programs get and lines for people; nothing if it is none of the kernel's errors."""
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
        advice = "give it CAP_NET_ADMIN and CAP_SYS_ADMIN" if root else as_root()
        return FAILED, "kernel-forbids", advice
    for kind, status, code, advice in _ADVICE:
        if isinstance(error, kind):
            return status, code, advice
    return FAILED, "kernel-refused", _OTHERWISE
