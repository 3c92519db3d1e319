"""Every `netloom` command line that the documentation shows is one that the command takes."""

from __future__ import annotations

import re
import shlex
from importlib import import_module

import pytest

from netloom.cli.arguments import parser_for
from netloom.cli.tree import Command, resolve

from ..lanes import ROOT

pytestmark = pytest.mark.unit

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_SHOWN = re.compile(r"^\s*\$ (netloom .*)$", re.MULTILINE)
# What a shell keeps for itself.
_REST = re.compile(r"\s*(\||;|&&|[0-9]?>).*")

LINES = sorted({_REST.sub("", line) for page in PAGES for line in _SHOWN.findall(page.read_text())})


def test_there_are_such_lines() -> None:
    assert len(LINES) > 10


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_taken(line: str) -> None:
    path, command, rest = resolve(shlex.split(line)[1:])
    assert isinstance(command, Command)
    parser_for(path, import_module(command.module)).parse_args(rest)
