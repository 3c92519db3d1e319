"""What an allocation can fail with, beyond a bad config or a bad request."""

from __future__ import annotations

from ..cni import CNIError, TryAgainLater


class Exhausted(TryAgainLater):
    """Every address of a family is held, or has not rested long enough."""


class Taken(CNIError):
    """An address that was asked for by name is held by another attachment.

    The code is given to each error and not to the class: a class that declares a code speaks for it
    in `from_code`, and 101 may mean anything in another plugin.
    """

    CODE = 101

    def __init__(self, msg: str, details: str = "") -> None:
        super().__init__(msg, details, code=self.CODE)
