"""What may stand in the place of a word that somebody has begun to type.

A person waits for it, so nothing is imported that is not needed: what commands take is in `grammar.json`,
which is made from their parsers. A completion that fails is none, and says nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from . import suggestions
from .output import OutputFailed, ReaderGone, say
from .tree import TREE, Group, resolve

_GRAMMAR = os.path.join(os.path.dirname(__file__), "grammar.json")


def print_candidates(words: Sequence[str]) -> int:
    """What may stand in the place of the last word, one a line; the scripts of `completion` ask for it."""
    *before, last = words or [""]
    try:
        say(*_fitting(candidates(before, last), last))
    except (ReaderGone, OutputFailed):
        raise
    except Exception:
        return 0
    return 0


def _fitting(found: Iterable[str], last: str) -> list[str]:
    """Options only for who begins one."""
    fitting = [it for it in dict.fromkeys(found) if it.startswith(last)]
    return [it for it in fitting if last.startswith("-") or not it.startswith("-")]


def candidates(before: list[str], last: str = "") -> list[str]:
    path, node, rest = resolve(before)
    if node is None:
        return [] if before else [*TREE, "--help", "--version"]
    if isinstance(node, Group):
        waiting_for_value = bool(before) and before[-1] in node.valued
        unknown = bool(rest) and not rest[0].startswith("-")
        return [] if unknown or waiting_for_value else [*node.commands, "--help"]
    with open(_GRAMMAR, "rb") as file:
        grammar = json.load(file)[" ".join(path)]
    return _of_command(" ".join(path), grammar, rest, last)


def _of_command(command: str, grammar: dict[str, Any], rest: list[str], last: str) -> list[str]:
    options: dict[str, dict[str, Any]] = grammar["options"]
    given = _given(options, rest)
    if rest and rest[-1] in options and options[rest[-1]]["value"]:
        return _values(command, options[rest[-1]], given, last)
    count = _positionals(options, rest)
    positionals: list[dict[str, Any]] = grammar["positionals"]
    if positionals and positionals[-1]["repeats"]:
        count = min(count, len(positionals) - 1)
    values = _values(command, positionals[count], given, last) if count < len(positionals) else []
    return [*values, *options]


def _values(command: str, wanted: dict[str, Any], given: dict[str, str], last: str) -> list[str]:
    return wanted["choices"] or suggestions.of(command, wanted["name"], given, last)


def _given(options: dict[str, dict[str, Any]], rest: list[str]) -> dict[str, str]:
    """Values that options have already: another state directory has other attachments."""
    pairs = pairwise(rest)
    return {
        options[word]["name"]: value for word, value in pairs if word in options and options[word]["value"]
    }


def _positionals(options: dict[str, dict[str, Any]], rest: list[str]) -> int:
    count = 0
    for previous, word in zip(["", *rest], rest, strict=False):
        is_value = previous in options and options[previous]["value"]
        count += not word.startswith("-") and not is_value
    return count
