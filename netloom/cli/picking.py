"""Which word picks one of several that a name may mean. Each is tried before it is advised, and advised as
the whole command: whoever is told "give more of the name" may have given all of it already."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..cni import AttachmentKey
from .failure import UsageError
from .quoting import for_shell
from .short_id import short_id

if TYPE_CHECKING:
    from .subjects import Subject

_SHOWN = 10

Keys: TypeAlias = frozenset[AttachmentKey]
# The attachments that a word means; None if it means none, or may mean several.
Means: TypeAlias = Callable[[str], Keys | None]


class Pick(NamedTuple):
    """A word, and what it means."""

    word: str
    what: str


class AmbiguousName(UsageError):
    """`words`: those that mean one of them each."""

    def __init__(self, text: str, advice: str, words: Sequence[str]) -> None:
        super().__init__(text, advice, code="ambiguous-name")
        self.words = words


def ambiguous(
    args: argparse.Namespace, word: str, candidates: Sequence[Subject], means: Means
) -> AmbiguousName:
    listed = ", ".join(f"{it.kind} {it.name}" for it in candidates[:_SHOWN])
    more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
    picks = [pick for it in candidates[:_SHOWN] for pick in _picks(it, means)][:_SHOWN]
    commands = [f"`{_command(args, word, it.word)}` ({it.what})" for it in picks]
    return AmbiguousName(
        f"{word!r} may be any of {len(candidates)}: {listed}{more}",
        f"give the word of the one that is meant: {', '.join(commands)}"
        f"{', or more of its name' if more else ''}",
        [it.word for it in picks],
    )


def _picks(it: Subject, means: Means) -> list[Pick]:
    """One for all of it; or one for each of its containers, the latest first."""
    whole = _word_for(it.keys, (it.name,), means)
    if whole:
        return [Pick(whole, it.kind if whole == it.name else f"{it.kind} {it.name}")]
    return [pick for container in it.containers[::-1] for pick in _of_container(it, container, means)]


def _of_container(it: Subject, container: str, means: Means) -> Iterator[Pick]:
    what = f"{it.kind} {it.name}"
    keys = frozenset(key for key in it.keys if key.container_id == container)
    word = _word_for(keys, (short_id(container), container), means)
    if word:
        yield Pick(word, what)
        return
    for key in sorted(keys):
        if _word_for(frozenset({key}), (str(key),), means):
            yield Pick(str(key), what)


def _word_for(keys: Keys, words: Sequence[str], means: Means) -> str:
    """The first that means these and nothing else; empty if none does."""
    return next((it for it in words if not _means_something_else(it) and means(it) == keys), "")


def _means_something_else(word: str) -> bool:
    """Codes and addresses are words, too, and are looked for first."""
    from ..api.catalogue import entry
    from .subjects import packed_ip

    return entry(word.lower()) is not None or packed_ip(word) is not None


def _command(args: argparse.Namespace, word: str, picked: str) -> str:
    """As it was called, with another word in the place of the one that several have."""
    words = list(getattr(args, "called", ()))
    places = [number for number, it in enumerate(words) if it.strip() == word]
    if places:
        words[places[-1]] = picked
    else:
        words.append(picked)
    return " ".join([args.command, *map(for_shell, words)])
