"""Errors of `netloom.kernel` for the person at the terminal."""

from __future__ import annotations

import errno
import os

from msgspec import to_builtins

from ..kernel import (
    Conflict,
    DeadlineExceeded,
    Incomplete,
    InvalidNamespace,
    InvalidObject,
    InvalidPlan,
    KernelError,
    LibraryMissing,
    Unsupported,
)
from .output import printable
from .status import CONFIGURATION, DEADLINE, FAILED

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
    (LibraryMissing, FAILED, "library-missing", "install the package that the message names"),
    (DeadlineExceeded, DEADLINE, "kernel-deadline", "try again, or give more time"),
)
_OTHERWISE = "the message ends with the kernel's own words; `netloom plan check` shows what is missing"


def explained(error: Exception) -> tuple[int, dict[str, object], list[str]] | None:
    """Exit status, fields for programs and lines for people; nothing if it is none of the kernel's errors."""
    if not isinstance(error, KernelError):
        return None
    status, code, advice = _judge(error)
    differences = error.differences if isinstance(error, Conflict) else ()
    notes = list(getattr(error, "__notes__", ()))
    fields: dict[str, object] = {
        "code": code,
        "error": str(error),
        "errno": errno.errorcode.get(error.errno),
        "feature": error.feature if isinstance(error, Unsupported) else None,
        "differences": [to_builtins(difference) for difference in differences],
        "notes": notes,
        "next": advice,
    }
    errors = error.errors if isinstance(error, Incomplete) else (error,)
    lines = [f"error: {printable(str(one))}" for one in errors]
    lines += [f"also:  {printable(note)}" for note in notes]
    return status, fields, [*lines, f"next:  {advice}"]


def _judge(error: KernelError) -> tuple[int, str, str]:
    if isinstance(error, Incomplete):
        return _judge(error.errors[0])
    if error.errno in (errno.EPERM, errno.EACCES):
        root = os.geteuid() == 0
        advice = "give it CAP_NET_ADMIN and CAP_SYS_ADMIN" if root else "run it as root"
        return FAILED, "kernel-forbids", advice
    for kind, status, code, advice in _ADVICE:
        if isinstance(error, kind):
            return status, code, advice
    return FAILED, "kernel-refused", _OTHERWISE
