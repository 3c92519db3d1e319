"""Errors with the codes of the CNI specification, as types.

A code, a message and details come from the specification's error object. What Go's libcni only puts into the
text is data here: the plugin that failed, the attachment it failed for, and what the plugin wrote to stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self


class AttachmentKey(NamedTuple):
    """The key of an attachment: one interface of one container on one network."""

    network: str
    container_id: str
    ifname: str

    def __str__(self) -> str:
        return f"{self.network}/{self.container_id}/{self.ifname}"

    @property
    def entry_name(self) -> str:
        """The name of its file in libcni's cache. With dashes in a name, other attachments may share it."""
        return "-".join(self)


class CNIError(Exception):
    """An operation failed with a code of the specification. Its text is `msg; details`."""

    code: int = 0
    by_code: ClassVar[dict[int, type[CNIError]]] = {}

    def __init__(
        self, msg: str, details: str = "", *, code: int | None = None, discreet: str | None = None
    ) -> None:
        """`discreet` is a text for logs, for a message that quotes a user's value, which may be a secret."""
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
        # The first class that declares a code represents it; narrower classes inherit it.
        if "code" in cls.__dict__:
            CNIError.by_code.setdefault(cls.code, cls)

    def __str__(self) -> str:
        text = f"{self.msg}; {self.details}" if self.details else self.msg
        return f"{self.context}: {text}" if self.context else text

    @property
    def discreet(self) -> str:
        """The text without values of the request, for texts that are stored or shown to others."""
        return f"{self.context}: {self.reason}" if self.context else self.reason

    @property
    def reason(self) -> str:
        """The text without the place of the error."""
        if self._discreet is not None:
            return self._discreet
        return f"{self.msg}; {self.details}" if self.details else self.msg

    def at(
        self, *, plugin: str | None = None, attachment: AttachmentKey | None = None, context: str = ""
    ) -> Self:
        """Returns the same error with the place where it happened. Known places are kept."""
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
    """STATUS: an ADD would fail."""

    code = 50


class LimitedConnectivity(CNIError):
    """STATUS: an ADD would fail, and attached containers may have lost connectivity, too."""

    code = 51


class InternalError(CNIError):
    code = 999


class PluginFailed(CNIError):
    """A plugin failed with a code of its own (100 and above), or without saying why (0)."""


class PluginDied(PluginFailed):
    """A plugin failed and printed no error. `ending` is how it ended, `stderr` its output there."""

    def __init__(self, msg: str, ending: str) -> None:
        super().__init__(msg)
        self.ending = ending


class PluginNotFound(InvalidConfig):
    """None of the plugin directories has the plugin that the configuration names."""


class NoConfigsFound(InvalidConfig):
    """The directory contains no network configuration."""


class NetworkNotFound(InvalidConfig):
    """The directory contains configurations, but none with that name."""


class CheckNotSupported(IncompatibleVersion):
    """The configuration's version is older than the CHECK verb."""


class DeadlineExceeded(TryAgainLater):
    """The caller's time limit passed. A plugin that still ran was killed."""


class AttachmentBusy(DeadlineExceeded):
    """Another operation held the attachment until the caller's time limit passed."""


class Failures(CNIError):
    """Several independent failures of one operation; `errors` has each of them."""

    def __init__(self, errors: Sequence[CNIError]) -> None:
        super().__init__(
            "\n".join(map(str, errors)),
            code=errors[0].code,
            discreet="\n".join(error.discreet for error in errors),
        )
        self.errors = tuple(errors)


def from_code(code: int, msg: str, details: str = "") -> CNIError:
    """Returns the error type of a code; a plugin's own codes are `PluginFailed`."""
    return CNIError.by_code.get(code, PluginFailed)(msg, details, code=code)
