"""What completion needs to know of every command, as data that is readable without loading the command."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from netloom.ops.doctor.checks import CHECKS

from .commands import Described


def grammar(commands: Sequence[Described]) -> str:
    found = {it.words: _of(it.parser) for it in commands}
    found["doctor"]["options"]["--only"]["choices"] = _checks()
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _checks() -> list[str]:
    """The parser accepts any word, so that its error can say more than argparse's for a choice."""
    codes = {code for check in CHECKS for code in check.codes}
    return [*(check.name for check in CHECKS), *sorted(codes)]


def _of(parser: argparse.ArgumentParser) -> dict[str, Any]:
    shown = [it for it in parser._actions if it.help != argparse.SUPPRESS]
    return {
        "positionals": [
            {"name": it.dest, "choices": _choices(it), "repeats": it.nargs in ("*", "+")}
            for it in shown
            if not it.option_strings
        ],
        "options": {
            name: {"name": it.dest, "choices": _choices(it), "value": it.nargs != 0}
            for it in shown
            for name in it.option_strings
        },
    }


def _choices(it: argparse.Action) -> list[str]:
    return [str(choice) for choice in it.choices or ()]
