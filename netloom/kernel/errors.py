"""What can go wrong with the kernel, and the differences that `check` finds.

Every error says what was tried, on what, and what the kernel answered. If the kernel sent netlink's extended
acknowledgement (its own explanation), the text includes it.
"""

from __future__ import annotations

import errno as numbers
import os
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct


class Difference(Struct, frozen=True, omit_defaults=True):
    """One difference from the plan. `object` names the object as a plan's listing does.

    >>> print(Difference("veth nl0", "different", "mtu", "1500", "1400"))
    veth nl0: mtu is 1400, not 1500
    """

    object: str
    what: Literal["missing", "different"]
    field: str | None = None
    wanted: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        return f"{self.object}: {self.said}"

    @property
    def is_of_peer(self) -> bool:
        """Says whether the difference is about the other end of a pair."""
        return self.field is not None and self.field.startswith("peer")

    @property
    def said(self) -> str:
        """The difference as text, without the object's name."""
        return "missing" if self.what == "missing" else f"{self.field} is {self.found}, not {self.wanted}"


def missing(name: str) -> list[Difference]:
    return [Difference(name, "missing")]


def compare(name: str, *fields: tuple[str, object, object]) -> list[Difference]:
    """Returns a difference for each field whose wanted and found values differ."""
    return [
        Difference(name, "different", field, _shown(wanted), _shown(found))
        for field, wanted, found in fields
        if wanted != found
    ]


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class KernelError(Exception):
    """The kernel refused a request, or the request is impossible."""

    def __init__(self, text: str, *, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class Refused(KernelError):
    """A request was answered with an error. `explanation` is the kernel's own, or empty."""

    def __init__(self, errno: int, explanation: str = "", *, context: str = "") -> None:
        self.explanation = explanation
        self.context = context
        reason = os.strerror(errno)
        text = f"{reason}: {explanation}" if explanation else reason
        super().__init__(f"{context}: {text}" if context else text, errno=errno)

    def during(self, context: str) -> Refused:
        """Returns the same error with the action that was tried."""
        whole = f"{context}: {self.context}" if self.context and self.context != context else context
        return Refused(self.errno, self.explanation, context=whole)


class OutcomeUnknown(KernelError):
    """The answer to a change was lost, and the change may have happened: read the kernel's state before
    continuing.
    """


class Malformed(KernelError):
    """The bytes are not a netlink message, or an attribute has a size that its type cannot have."""


class Unsupported(KernelError):
    """The running kernel lacks a feature; `feature` names it as `netloom doctor` does."""

    def __init__(self, text: str, *, feature: str, errno: int = numbers.EOPNOTSUPP) -> None:
        super().__init__(text, errno=errno)
        self.feature = feature


class Conflict(KernelError):
    """Something else is in the place of one of our objects, or our object was changed. It was not touched."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        super().__init__(
            "differs from the plan and was not changed: " + "; ".join(map(str, differences)),
            errno=numbers.EEXIST,
        )
        self.differences = tuple(differences)


class InvalidNamespace(KernelError):
    """A path or descriptor is not a network namespace, or is one that must not be used here."""


class InvalidObject(KernelError, ValueError):
    """A value that no kernel object can have."""


class InvalidPlan(KernelError):
    """The plan cannot be read, or needs a namespace that was not given."""


class SysctlError(KernelError):
    """A kernel setting does not exist or does not accept a value."""


class LibraryMissing(KernelError):
    """A required shared library is not installed; the text names its package."""


class QueueFull(KernelError):
    """The dataplane's queue is full. Nothing was done; try again later."""


class KernelTimeout(KernelError):
    """A request did not finish before its deadline. The text says what state it left."""


class Stopped(KernelError):
    """The dataplane is closed and accepts no more requests."""


# Error numbers for something that does not exist, or no longer exists.
ABSENT = frozenset({numbers.ENOENT, numbers.ENODEV, numbers.ESRCH, numbers.EADDRNOTAVAIL, numbers.ENXIO})
