"""Why an operation could not be done. Each has a code with a page, a sentence, and the next step."""

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
    """`code` is that of its page in the catalogue; `said` are lines that tell more, such as a log's last."""

    def __init__(
        self, text: str, advice: str, *, code: str, kind: Kind = "failed", said: Sequence[str] = ()
    ) -> None:
        super().__init__(text)
        self.advice = advice
        self.code = code
        self.kind = kind
        self.said = tuple(said)


class Advised(Exception):
    """An error of CNI for which the operation knows better advice than its type has."""

    def __init__(self, error: CNIError, advice: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.advice = advice


class Pick(NamedTuple):
    """A word, and what it means."""

    word: str
    what: str


class AmbiguousName(UsageError):
    """A word that several have. `picks` mean one of them each; with `more` there are others."""

    def __init__(self, text: str, word: str, picks: Sequence[Pick], *, more: bool) -> None:
        super().__init__(text, code="ambiguous-name")
        self.word = word
        self.picks = picks
        self.more = more
        self.advice = self.advice_with(lambda it: it)

    def advice_with(self, command_for: Callable[[str], str]) -> str:
        """What to do, with the whole command for each word."""
        listed = ", ".join(f"`{command_for(it.word)}` ({it.what})" for it in self.picks)
        return (
            f"give the word of the one that is meant: {listed}{', or more of its name' if self.more else ''}"
        )
