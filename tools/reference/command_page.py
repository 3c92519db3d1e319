"""The page of a command."""

from __future__ import annotations

import inspect as sources
import re
from textwrap import dedent

from .commands import LINES, RESULTS, UNTYPED, Described
from .markdown import block, code, paragraphs, sentence, table
from .output_fields import about, elsewhere, fields_of
from .page import Page, Part, merged
from .schemas import schema_of
from .synopsis import options, usage

_EXITS = table(
    ["status", "when"], [("0", "done"), ("1", "it failed; standard error says why"), ("2", "invalid call")]
)
_NOTHING = (
    "Nothing on standard output. An error is JSON with `--json`: [errors](../errors.md#errors-as-json)."
)
_NO_JSON = "Nothing on standard output that is JSON."


def command_page(command: Described, siblings: list[Described], before: Page | None) -> str:
    return merged(
        before,
        f"netloom {command.words}",
        sentence(command.summary),
        [
            Part("Synopsis", block(usage(command.parser))),
            Part("Description", _description(command)),
            Part("Notes", "", is_made=False),
            Part("Options", _options(command)),
            Part("Environment", _environment(command)),
            Part("Output", _output(command)),
            Part("Exit status", _EXITS, is_made=False),
            Part("Examples", _examples(command)),
            Part("See also", _see_also(command, siblings), is_made=False),
        ],
    )


def help_parts(command: Described) -> dict[str, str]:
    """Splits a docstring: the text before the first block, and the blocks by name."""
    text = dedent(sources.getdoc(command.module) or "").strip()
    parts = re.split(r"^([a-z]+):\n", text, flags=re.MULTILINE)
    return {"": parts[0].strip()} | {
        name: dedent(body).strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def _description(command: Described) -> str:
    return paragraphs(help_parts(command)[""])


def _options(command: Described) -> str:
    found = options(command.parser)
    rows = [(it.written, it.meaning, it.default) for it in found]
    return table(["option", "meaning", "default"], rows) if rows else ""


def _environment(command: Described) -> str:
    rows = []
    for line in help_parts(command).get("environment", "").splitlines():
        name, _, meaning = line.strip().partition(" ")
        rows.append((code(name), meaning.strip()))
    return table(["variable", "meaning"], rows) if rows else ""


def _output(command: Described) -> str:
    has_json = any("--json" in it.option_strings for it in command.parser._actions)
    if not command.has_output and command.words in UNTYPED:
        return "JSON with `--json`." if has_json else _NO_JSON
    if command.output is None:
        return _NOTHING if has_json else _NO_JSON
    schema = schema_of(command.output, f"netloom {command.words}")
    when = "JSON"
    if has_json:
        when += " with `--json`" if command.words not in RESULTS else " off a terminal, and with `--json`"
    when += f", by [this schema](../../schemas/{command.name}.json)"
    if told := elsewhere(schema):
        return f"{when}: {', or '.join(told)}."
    what = "a list of objects" if schema.get("type") == "array" else "an object"
    what = "JSON Lines, an object a line" if command.words in LINES else what
    rows = [(code(it.path), it.type, it.meaning) for it in fields_of(schema)]
    return f"{when}: {what}.\n\n{about(schema)}\n\n{table(['field', 'type', 'meaning'], rows)}"


def _examples(command: Described) -> str:
    found = help_parts(command).get("examples", "")
    return block(found) if found else ""


def _see_also(command: Described, siblings: list[Described]) -> str:
    others = [f"[{it.words}]({it.name}.md)" for it in siblings if it.path != command.path]
    return ", ".join([*others, "[exit statuses](../exit-status.md)", "[all commands](../cli.md)"])
