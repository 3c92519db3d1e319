"""Every command of `netloom`, with its parser, and the JSON that it prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from netloom.cli.arguments import parser_for
from netloom.cli.tree import TREE, Command

# Commands whose output has no type yet. The list may only get shorter.
UNTYPED: frozenset[str] = frozenset()

# Commands with endless output: every line is a document.
LINES = frozenset({"events"})
# Programs read the exact output of these, which plugins and cnitool also print.
RESULTS = frozenset({"cni add", "cni convert"})


class Described(NamedTuple):
    """`name` is that of its page and schema; `output` is the output type that its module declares."""

    path: tuple[str, ...]
    summary: str
    module: ModuleType

    @property
    def words(self) -> str:
        return " ".join(self.path)

    @property
    def name(self) -> str:
        return "-".join(self.path)

    @property
    def parser(self) -> argparse.ArgumentParser:
        return parser_for(self.path, self.module)

    @property
    def has_output(self) -> bool:
        """Says whether the module declares its output, even if there is none."""
        return hasattr(self.module, "OUTPUT")

    @property
    def output(self) -> Any:
        return getattr(self.module, "OUTPUT", None)


def commands() -> Iterator[Described]:
    for word, node in TREE.items():
        if isinstance(node, Command):
            yield Described((word,), node.summary, import_module(node.module))
        else:
            for verb, command in node.commands.items():
                yield Described((word, verb), command.summary, import_module(command.module))
