"""Why something that was tried did not work, as far as whoever tried it can tell."""

from __future__ import annotations

import errno
import os


class Failed(Exception):
    """`errno` is the kernel's, if it refused or brought a refusal; 0 if nothing came back.

    `code` and `cause` are set by whoever knows the cause already.
    """

    def __init__(
        self, text: str, *, errno: int = 0, code: str = "", cause: str = "", advice: str = ""
    ) -> None:
        super().__init__(text)
        self.errno = errno
        self.code = code
        self.cause = cause
        self.advice = advice


class Skipped(Exception):
    """It cannot be tried here, and why."""


_WORDS = {
    errno.ENETUNREACH: "there is no route",
    errno.EHOSTUNREACH: "answered by: no way to that host",
    errno.ECONNREFUSED: "refused",
    errno.EACCES: "answered by: prohibited",
    errno.EPERM: "a firewall of the sender does not let it out",
    errno.EMSGSIZE: "too large for the way",
    errno.ECONNRESET: "the connection was reset",
}


def refused(cause: OSError) -> Failed:
    number = cause.errno or 0
    return Failed(_WORDS.get(number) or os.strerror(number) if number else str(cause), errno=number)


def lost(patience: float) -> Failed:
    return Failed(f"no answer within {patience:.1f} s")
