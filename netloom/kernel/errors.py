"""What can go wrong between us and the kernel, and the differences that `check` finds.

Every error says what was tried, on what, and what the kernel answered; netlink's extended
acknowledgement (the kernel's own explanation) is part of the text where there is one.
"""

from __future__ import annotations

import errno as numbers
import os
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct


class Difference(Struct, frozen=True, omit_defaults=True):
    """One thing that is not as planned. `object` names it as a plan's listing does.

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
        """Whether it is about the other end of a pair."""
        return self.field is not None and self.field.startswith("peer")

    @property
    def said(self) -> str:
        """Without the object's name."""
        return "missing" if self.what == "missing" else f"{self.field} is {self.found}, not {self.wanted}"


def missing(name: str) -> list[Difference]:
    return [Difference(name, "missing")]


def compare(name: str, *fields: tuple[str, object, object]) -> list[Difference]:
    """The fields, each with what is wanted and what was found, that differ."""
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
    """The kernel refused, or what we were asked cannot be done with it."""

    def __init__(self, text: str, *, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class Refused(KernelError):
    """A request came back with an error. `explanation` is the kernel's own, or empty."""

    def __init__(self, errno: int, explanation: str = "", *, context: str = "") -> None:
        self.explanation = explanation
        self.context = context
        reason = os.strerror(errno)
        text = f"{reason}: {explanation}" if explanation else reason
        super().__init__(f"{context}: {text}" if context else text, errno=errno)

    def during(self, context: str) -> Refused:
        """The same answer, with what was tried."""
        whole = f"{context}: {self.context}" if self.context and self.context != context else context
        return Refused(self.errno, self.explanation, context=whole)


class OutcomeUnknown(KernelError):
    """The answer to a change was lost. It may have happened: ask the kernel before going on."""


class Malformed(KernelError):
    """Bytes that are no netlink message, or an attribute of a size that its kind cannot have."""


class Unsupported(KernelError):
    """The running kernel lacks a feature; `feature` names it as `netloom doctor` lists it."""

    def __init__(self, text: str, *, feature: str, errno: int = numbers.EOPNOTSUPP) -> None:
        super().__init__(text, errno=errno)
        self.feature = feature


class Conflict(KernelError):
    """Something is in the place of one of our objects and is not as it should be. It was left untouched."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        super().__init__(
            "not as planned, and left alone: " + "; ".join(map(str, differences)),
            errno=numbers.EEXIST,
        )
        self.differences = tuple(differences)


class InvalidNamespace(KernelError):
    """A path or descriptor that is no network namespace, or one that must not be used here."""


class InvalidObject(KernelError, ValueError):
    """A value that no kernel object can have."""


class InvalidPlan(KernelError):
    """A plan that cannot be read, or that needs a namespace it was not given."""


class SysctlError(KernelError):
    """A setting of the kernel is not there, or does not take a value."""


class LibraryMissing(KernelError):
    """A shared library that we need is not installed; the text names its package."""


class QueueFull(KernelError):
    """The dataplane has more requests waiting than it accepts. Nothing was done; try again later."""


class KernelTimeout(KernelError):
    """A request was not done in its time. The text says what state it left."""


class Stopped(KernelError):
    """The dataplane no longer takes requests."""


# What the kernel says when something is not there, or is there no longer.
ABSENT = frozenset({numbers.ENOENT, numbers.ENODEV, numbers.ESRCH, numbers.EADDRNOTAVAIL, numbers.ENXIO})
