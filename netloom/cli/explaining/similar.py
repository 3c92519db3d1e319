"""Names that are known, and look like one that is not: somebody may have meant them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable

from ...api.catalogue import ENTRIES
from ...journal import Ledger, search
from ..picking import AmbiguousName
from ..subjects import subject_of

_SIMILAR = 5
# Of names that are compared letter by letter: the latest.
_MOST = 500
_ALIKE = 0.6
# What may be a code that was misspelt; and how much of it must be right, since pods have such names, too.
_CODE = re.compile(r"\d{1,3}|[a-z]+(?:-[a-z]+)+")
_ALIKE_CODE = 0.75
# A beginning that both have, of which somebody may have copied the rest wrong.
_COMMON = 4


def similar_to(args: argparse.Namespace, word: str, ledger: Ledger | None) -> list[str]:
    """Of a name that several have, the words that mean one of them: nobody is sent in circles."""
    found: dict[str, None] = {}
    for it in _alike(word, ledger):
        try:
            if ledger is not None:
                subject_of(args, ledger, it)
            found[it] = None
        except AmbiguousName as several:
            found |= dict.fromkeys(several.words)
    return list(found)[:_SIMILAR]


def _alike(word: str, ledger: Ledger | None) -> list[str]:
    """Names of what is or was attached, and codes, that look like the word."""
    from difflib import get_close_matches

    containers: dict[str, None] = {}
    names: dict[str, None] = {}
    # Of a namespace that has this very name somewhere else, the path tells which.
    elsewhere: dict[str, None] = {}
    for it in [] if ledger is None else search.alike(ledger, word):
        containers[it.container_id] = None
        if it.pod:
            names["/".join(filter(None, (it.namespace, it.pod)))] = names[it.pod] = None
        name = os.path.basename(it.netns)
        (elsewhere if name == word else names)[it.netns if name == word else name] = None
    near = [it for it in names if it and abs(len(it) - len(word)) <= len(word) // 2 + 1]
    found = [*elsewhere, *get_close_matches(word, near[:_MOST], _SIMILAR, _ALIKE)]
    if _CODE.fullmatch(word.lower()):
        found += get_close_matches(word.lower(), ENTRIES, _SIMILAR, _ALIKE_CODE)
    if len(word) >= _COMMON:
        found += _with_common_beginning(word, containers)
    return [it for it in dict.fromkeys(found) if it != word][:_SIMILAR]


def _with_common_beginning(word: str, names: Iterable[str]) -> list[str]:
    """Those that have most of it."""
    lengths = {it: _common(word, it) for it in names}
    longest = max(lengths.values(), default=0)
    return [it for it, length in lengths.items() if length == longest] if longest >= _COMMON else []


def _common(one: str, other: str) -> int:
    """How many letters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
