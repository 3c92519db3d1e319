"""A command's synopsis, from its parser. argparse's own text differs between versions of Python."""

from __future__ import annotations

import argparse
import re
from textwrap import wrap
from typing import NamedTuple

_WIDTH = 80
_DEFAULT = re.compile(r"\s*\(default:? (.*)\)$")
# What is formatted as code: paths and variables.
_LITERAL = re.compile(r"(?<![\w`:.])(\$\w+|/[\w./-]+|--[\w-]+)")


class Option(NamedTuple):
    """An option as a table row: its form, its meaning, its default."""

    written: str
    meaning: str
    default: str


def usage(parser: argparse.ArgumentParser) -> str:
    words = [_positional(it) for it in _shown(parser) if not it.option_strings]
    for it in _shown(parser):
        if it.option_strings and "--help" not in it.option_strings:
            text = (
                f"{it.option_strings[0]}{_value(it)}" if not _is_switch(it) else " | ".join(it.option_strings)
            )
            repeated = f"{text} …" if isinstance(it, argparse._AppendAction) else text
            words.append(repeated if it.required else f"[{repeated}]")
    # Words with spaces inside must not be split.
    joined = " ".join(word.replace(" ", "\0") for word in words)
    indent = " " * (len(parser.prog) + 1)
    lines = wrap(f"{parser.prog} {joined}", _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def options(parser: argparse.ArgumentParser) -> list[Option]:
    found = []
    for it in _shown(parser):
        if "--help" in it.option_strings:
            continue
        written = ", ".join(f"`{name}{_value(it)}`" for name in it.option_strings) or f"`{_metavar(it)}`"
        help_text = (it.help or "") % {"default": it.default, "prog": parser.prog}
        match = _DEFAULT.search(help_text)
        meaning = _DEFAULT.sub("", help_text)
        if not it.option_strings and it.choices is not None and not meaning:
            meaning = f"one of {', '.join(map(str, it.choices))}"
        default = _LITERAL.sub(r"`\1`", match[1]) if match else ""
        found.append(
            Option(written, _LITERAL.sub(r"`\1`", meaning) if "`" not in meaning else meaning, default)
        )
    return found


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [it for it in parser._actions if it.help != argparse.SUPPRESS]


def _is_switch(it: argparse.Action) -> bool:
    return isinstance(it, argparse.BooleanOptionalAction)


def _value(it: argparse.Action) -> str:
    return "" if it.nargs == 0 else f" {_metavar(it)}"


def _metavar(it: argparse.Action) -> str:
    return str(it.metavar or it.dest.upper())


def _positional(it: argparse.Action) -> str:
    name = _metavar(it)
    match it.nargs:
        case "?":
            return f"[{name}]"
        case "*":
            return f"[{name} …]"
        case "+":
            return f"{name} …"
    return name
