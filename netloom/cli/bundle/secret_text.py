"""Secrets in a text: `name=value`, `"name": {…}`, `--name value`, `Name: value`, and values by their looks.

Where a value ends is known only if it has quotes or brackets. One that has none may have any sign in it, and
goes to the end of its line: what is lost there is missed less than what would be left.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .secret_looks import LOOKS, REMOVED
from .secret_names import NAMING, VALUES, is_known_argument, is_secret_name

Learn = Callable[[str], object]

# A quote, which may be escaped itself: as in a JSON document that is a string of another.
_Q = r"\\{0,64}[\"'`]"
_QUOTE = re.compile(r"(\\{0,64})([\"'`])")
_NAME = r"[^\W\d][\w.-]{0,60}"
# A name, whether it stands in quotes or behind one, and what is between it and its value.
_ASSIGNED = re.compile(
    rf"(?P<open>{_Q})?(?<![A-Za-z0-9_])(?P<name>{_NAME})(?:\[[^\]\n]{{0,40}}\])?(?P<close>{_Q})?"
    r"\s*(?:=>|:=|==?|:)\s*"
)
_OPTION = re.compile(rf"(?<![^\s\"'`=\[(,])(?P<name>--?{_NAME})\s+(?=\S)")
_TAGGED = re.compile(rf"<(?P<name>{_NAME})>(?=[^\s<])")
# An element of a list, and the one behind it, as in `["x", "--password", "…"]`.
_LISTED = re.compile(rf"(?:(?<=[\[(,])|(?<=[\[(,]\s)){_Q}(?P<name>-{{0,2}}{_NAME}){_Q}\s*,\s*(?=\S)")
# A name that is a value itself, and in the same braces what it is the name of.
_NAMED = re.compile(rf"{_Q}(?:{'|'.join(NAMING)}){_Q}\s*:\s*{_Q}(?P<name>-{{0,2}}{_NAME}){_Q}")
_VALUE_KEY = re.compile(rf"{_Q}(?:{'|'.join(VALUES)}){_Q}\s*:\s*")
_BETWEEN_BRACES = re.compile(r"[^{}]+")
_ARGS = re.compile(rf"CNI_ARGS(?:{_Q})?\s*[:=]\s*")
_SCALAR = re.compile(r"(?P<bare>true|false|null)\b|-?[0-9][0-9.eE+-]*(?=[\s,}\]]|\Z)")
_BRACKETS = re.compile(r"[\[\]{}]|\\{0,64}[\"']")
_CUT_END = re.compile(r"-{4,5} ?END [A-Za-z0-9 ]+-{4,5}")
_LINES = re.compile(r"(\r?\n|\\r|\\n)")
_OF_A_KEY = re.compile(r"[A-Za-z0-9+/=]*")
_LINE_OF_A_KEY = 16
_AFTER_A_VALUE = frozenset(" \t\r\n,;&}])\\\"'`<")

# What cannot be a secret, nor have one in it, by its signs and length.
_PLAIN = re.compile(r"(?!xox)[a-z0-9._/%-]{0,15}|[0-9a-f:/]+|[0-9./]+")


def cleaned(text: str, learn: Learn | None = None) -> str:
    """Without secrets. Each goes to `learn`, so that it is known wherever else it stands."""
    if _PLAIN.fullmatch(text):
        return text
    text = _without_arguments(text)
    for look in LOOKS:
        text = look.sub(lambda found: _without_group(found, learn), text)
    text = _without_cut_key(text)
    text = _replaced(text, _LISTED, learn)
    text = _replaced(text, _OPTION, learn)
    text = _replaced(text, _TAGGED, learn)
    text = _without_named(text, learn)
    return _replaced(text, _ASSIGNED, learn)


def _without_group(found: re.Match[str], learn: Learn | None) -> str:
    if found["secret"] == REMOVED:
        return found[0]
    if learn is not None:
        learn(found["secret"])
    start, end = found.start("secret") - found.start(), found.end("secret") - found.start()
    return f"{found[0][:start]}{REMOVED}{found[0][end:]}"


def _without_cut_key(text: str) -> str:
    """The end of a private key, whose beginning is not there: a log was cut, or begins anew."""
    shown, done = [], 0
    for found in _CUT_END.finditer(text):
        before = _LINES.split(text[done : found.start()])
        is_last = True
        while before and _OF_A_KEY.fullmatch(before[-1]) and (is_last or len(before[-1]) >= _LINE_OF_A_KEY):
            is_last = not before.pop()
            if before:
                before.pop()  # what separates the lines
        shown += [*before, REMOVED]
        done = found.end()
    return "".join([*shown, text[done:]])


def _replaced(text: str, pattern: re.Pattern[str], learn: Learn | None) -> str:
    """What stands behind a name of a secret, as the pattern finds it."""
    shown, done = [], 0
    for found in pattern.finditer(text):
        if found.start("name") < done or not is_secret_name(found["name"]):
            continue
        start, end = _value(text, found, at_most_a_word=pattern is _OPTION)
        if start == end:
            continue
        if learn is not None:
            learn(text[start:end])
        shown += [text[done:start], REMOVED]
        done = end
    return "".join([*shown, text[done:]])


def _value(text: str, found: re.Match[str], *, at_most_a_word: bool) -> tuple[int, int]:
    start = found.end()
    groups = found.groupdict()
    quoted_name = bool(groups.get("close"))
    quote = _QUOTE.match(text, start)
    if quote:
        end = _closing(text, quote.end(), quote)
        if end == len(text) or text[end] in _AFTER_A_VALUE:
            return start, end
        return start, _end_of_line(text, end)
    opened = groups.get("open")
    if opened and not quoted_name:
        behind = _QUOTE.match(opened)
        assert behind is not None
        return start, _closing(text, start, behind, whole=False)
    if quoted_name or groups.get("open"):
        scalar = _SCALAR.match(text, start)
        if scalar:
            return (start, start) if scalar["bare"] else (start, scalar.end())
        if text[start : start + 1] in ("{", "["):
            return start, _balanced(text, start)
    if at_most_a_word:
        end = start
        while end < len(text) and not text[end].isspace():
            end += 1
        return start, end
    return start, _end_of_line(text, start)


def _closing(text: str, start: int, opening: re.Match[str], *, whole: bool = True) -> int:
    """Where the quote ends that was opened; it may be escaped itself, as in a JSON document in another.

    Behind the closing one, or before it unless `whole`.
    """
    depth = len(opening[1])
    for found in _QUOTE.finditer(text, start):
        if found[2] == opening[2] and len(found[1]) % (2 * (depth + 1)) == depth:
            return found.end() if whole else found.end() - depth - 1
    return len(text)


def _balanced(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`; the text's end, if none does."""
    depth, position = 0, start
    while found := _BRACKETS.search(text, position):
        position = found.end()
        if found[0] in "{[":
            depth += 1
        elif found[0] in "}]":
            depth -= 1
            if depth == 0:
                return position
        else:
            quote = _QUOTE.match(found[0])
            assert quote is not None
            position = _closing(text, position, quote)
    return len(text)


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _without_named(text: str, learn: Learn | None) -> str:
    """`"name": "PASSWORD", "value": …`, in whatever order the two stand between braces."""
    shown, done = [], 0
    for piece in _BETWEEN_BRACES.finditer(text):
        if not any(is_secret_name(found["name"]) for found in _NAMED.finditer(piece[0])):
            continue
        for key in _VALUE_KEY.finditer(text, piece.start(), piece.end()):
            start = key.end()
            if start < done:
                continue
            quote = _QUOTE.match(text, start)
            end = _closing(text, quote.end(), quote) if quote else _balanced_or_scalar(text, start)
            if learn is not None:
                learn(text[start:end])
            shown += [text[done:start], REMOVED]
            done = end
    return "".join([*shown, text[done:]])


def _balanced_or_scalar(text: str, start: int) -> int:
    if text[start : start + 1] in ("{", "["):
        return _balanced(text, start)
    scalar = _SCALAR.match(text, start)
    return scalar.end() if scalar else _end_of_line(text, start)


def _without_arguments(text: str) -> str:
    """`CNI_ARGS=KEY=VALUE;KEY=VALUE` with those values alone that everybody knows."""
    shown, done = [], 0
    for found in _ARGS.finditer(text):
        if found.start() < done:
            continue
        quote = _QUOTE.match(text, found.end())
        start = quote.end() if quote else found.end()
        end = _closing(text, start, quote, whole=False) if quote else _end_of_line(text, start)
        shown += [text[done:start], without_values(text[start:end])]
        done = end
    return "".join([*shown, text[done:]])


def without_values(pairs: str) -> str:
    shown = []
    for pair in pairs.split(";"):
        name, equals, _ = pair.partition("=")
        shown.append(pair if not equals or is_known_argument(name.strip()) else f"{name}={REMOVED}")
    return ";".join(shown)
