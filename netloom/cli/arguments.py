"""Parsers for commands, made from their modules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from textwrap import dedent
from types import ModuleType
from typing import NoReturn

from .output import write

# Seconds. poll(2) counts milliseconds in an int, which ends at 24 days.
_LONGEST = 1_000_000


class Parser(argparse.ArgumentParser):
    """Says what is wrong as commands do: with a code, and what to do next."""

    words: Sequence[str] = ()

    def parsed(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises `UsageError`. Whoever reports that needs no more than is there by then."""
        self.words = words
        return self.parse_args(words)

    def format_help(self) -> str:
        from .help import Help

        self.formatter_class = Help
        return super().format_help()

    def print_help(self, file: object = None) -> None:
        del file
        write(self.format_help())

    def error(self, message: str) -> NoReturn:
        from .failure import UsageError
        from .misspelt import meant

        known = self._option_string_actions
        given = [word.partition("=")[0] for word in self.words if word.startswith("--")]
        raise UsageError(message, meant([word for word in given if word not in known], known, self.prog))


def _as_wide_as_any(prog: str) -> argparse.HelpFormatter:
    """For options that are declared, each of which argparse tries to format.

    To ask the terminal how wide it is takes a module, and some milliseconds; only help needs to know.
    """
    return argparse.RawDescriptionHelpFormatter(prog, width=80)


def parser_for(path: Sequence[str], module: ModuleType) -> Parser:
    """A command's parser. Its help is the module's docstring: the first paragraph, then examples."""
    about, _, examples = dedent(module.__doc__ or "").strip().partition("\n\n")
    parser = Parser(
        prog=" ".join(["netloom", *path]),
        description=about,
        epilog=examples,
        formatter_class=_as_wide_as_any,
        allow_abbrev=False,
    )
    module.arguments(parser)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs; errors too")


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of seconds, such as 30 or 0.5")
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, and is {text[:20]}")
    if value > _LONGEST:
        raise argparse.ArgumentTypeError(
            f"must be at most {_LONGEST}, which is eleven days, and is {text[:20]}"
        )
    return value
