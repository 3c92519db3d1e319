"""Errors of operations. Each has a code with a page in the documentation, a message, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ..cni import CNIError

# What kind of failure it is; a command turns it into an exit status.
Kind: TypeAlias = Literal["failed", "configuration", "deadline"]


class UsageError(Exception):
    """A request that cannot work: a bad argument or variable."""

    def __init__(self, text: str, advice: str = "", *, code: str = "usage") -> None:
        super().__init__(text)
        self.advice = advice
        self.code = code


class OperationFailed(Exception):
    """`code` names its page in the error catalogue; `said` are more lines to show, such as a log's last."""

    def __init__(
        self, text: str, advice: str, *, code: str, kind: Kind = "failed", said: Sequence[str] = ()
    ) -> None:
        super().__init__(text)
        self.advice = advice
        self.code = code
        self.kind = kind
        self.said = tuple(said)


class Advised(Exception):
    """A CNI error, with better advice than the error's type has."""

    def __init__(self, error: CNIError, advice: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.advice = advice


class Pick(NamedTuple):
    """A word that the user can give, and what it selects."""

    word: str
    what: str


class AmbiguousName(UsageError):
    """A word that matches several things. Each of `picks` selects one; `more` says that there are others."""

    def __init__(self, text: str, word: str, picks: Sequence[Pick], *, more: bool) -> None:
        super().__init__(text, code="ambiguous-name")
        self.word = word
        self.picks = picks
        self.more = more
        self.advice = self.advice_with(lambda it: it)

    def advice_with(self, command_for: Callable[[str], str]) -> str:
        """The advice, with the complete command for each pick."""
        listed = ", ".join(f"`{command_for(it.word)}` ({it.what})" for it in self.picks)
        return f"choose one: {listed}{', or give more of its name' if self.more else ''}"
