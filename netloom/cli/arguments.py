"""Parsers for commands, made from their modules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from textwrap import dedent
from types import ModuleType

from .output import write


class Parser(argparse.ArgumentParser):
    def print_help(self, file: object = None) -> None:
        del file
        write(self.format_help())


def parser_for(path: Sequence[str], module: ModuleType) -> argparse.ArgumentParser:
    """A command's parser. Its help is the module's docstring: the first paragraph, then examples."""
    about, _, examples = dedent(module.__doc__ or "").strip().partition("\n\n")
    parser = Parser(
        prog=" ".join(["netloom", *path]),
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(parser)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON, also on a terminal")


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value
