"""Errors with the codes of the CNI specification, as types.

A code, a sentence and details come from the specification's error object. What Go's libcni
only writes into the text is kept as data here: the plugin that failed, the attachment it
failed for, what the plugin said on stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self


class AttachmentKey(NamedTuple):
    """What names an attachment: one interface of one container on one network."""

    network: str
    container_id: str
    ifname: str

    def __str__(self) -> str:
        return f"{self.network}/{self.container_id}/{self.ifname}"

    @property
    def entry_name(self) -> str:
        """The name of its file in libcni's cache. With dashes in a name, not its alone."""
        return "-".join(self)


class CNIError(Exception):
    """Something failed, with a code of the specification. Its text is `msg; details`."""

    code: int = 0
    by_code: ClassVar[dict[int, type[CNIError]]] = {}

    def __init__(
        self, msg: str, details: str = "", *, code: int | None = None, discreet: str | None = None
    ) -> None:
        """`discreet` is the same for logs, if the text quotes a user's value, which may be a secret."""
        super().__init__(msg)
        if code is not None:
            self.code = code
        self.msg = msg
        self.details = details
        self.plugin: str | None = None
        self.attachment: AttachmentKey | None = None
        self.stderr = ""
        self.context = ""
        self._discreet = discreet

    def __init_subclass__(cls) -> None:
        # The first class that declares a code speaks for it; narrower ones inherit.
        if "code" in cls.__dict__:
            CNIError.by_code.setdefault(cls.code, cls)

    def __str__(self) -> str:
        text = f"{self.msg}; {self.details}" if self.details else self.msg
        return f"{self.context}: {text}" if self.context else text

    @property
    def discreet(self) -> str:
        """Its text without values of the request: for whatever is kept, or shown to others."""
        return f"{self.context}: {self.reason}" if self.context else self.reason

    @property
    def reason(self) -> str:
        """The same without where it happened."""
        if self._discreet is not None:
            return self._discreet
        return f"{self.msg}; {self.details}" if self.details else self.msg

    def at(
        self, *, plugin: str | None = None, attachment: AttachmentKey | None = None, context: str = ""
    ) -> Self:
        """The same error, now knowing where it happened. What it knew before, it keeps."""
        self.plugin = self.plugin or plugin
        self.attachment = self.attachment or attachment
        if context:
            self.context = f"{context}: {self.context}" if self.context else context
        return self


class IncompatibleVersion(CNIError):
    code = 1


class UnsupportedField(CNIError):
    code = 2


class UnknownContainer(CNIError):
    """The container is not known; a runtime need not send DEL for it."""

    code = 3


class InvalidEnvironment(CNIError):
    code = 4


class IOFailure(CNIError):
    code = 5


class DecodingFailure(CNIError):
    code = 6


class InvalidConfig(CNIError):
    code = 7


class InvalidNetns(CNIError):
    code = 8


class TryAgainLater(CNIError):
    code = 11


class NotAvailable(CNIError):
    """STATUS: ADD would fail."""

    code = 50


class LimitedConnectivity(CNIError):
    """STATUS: ADD would fail, and containers that are attached may be cut off, too."""

    code = 51


class InternalError(CNIError):
    code = 999


class PluginFailed(CNIError):
    """A plugin failed with a code of its own (100 and above), or without saying why (0)."""


class PluginDied(PluginFailed):
    """A plugin failed, and printed no error. `ending` is how it ended, `stderr` what it left there."""

    def __init__(self, msg: str, ending: str) -> None:
        super().__init__(msg)
        self.ending = ending


class PluginNotFound(InvalidConfig):
    """The config names a plugin that is in none of the plugin directories."""


class NoConfigsFound(InvalidConfig):
    """The directory holds no network configuration at all."""


class NetworkNotFound(InvalidConfig):
    """The directory holds configurations, but none of that name."""


class CheckNotSupported(IncompatibleVersion):
    """The config's version is older than the CHECK verb."""


class DeadlineExceeded(TryAgainLater):
    """The time that the caller gave ran out. A plugin that still ran was killed."""


class AttachmentBusy(DeadlineExceeded):
    """Another operation held the attachment for all of the time that the caller gave."""


class Failures(CNIError):
    """Several independent failures of one operation, each whole in `errors`."""

    def __init__(self, errors: Sequence[CNIError]) -> None:
        super().__init__(
            "\n".join(map(str, errors)),
            code=errors[0].code,
            discreet="\n".join(error.discreet for error in errors),
        )
        self.errors = tuple(errors)


def from_code(code: int, msg: str, details: str = "") -> CNIError:
    """The error type that stands for a code; a plugin's own codes are `PluginFailed`."""
    return CNIError.by_code.get(code, PluginFailed)(msg, details, code=code)
