"""The reference is as the code has it: every command, key and code has one page, and all have one shape."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from netloom.cli import exit_status as status
from netloom.cli.tree import Command, resolve
from netloom.ops.node.networks import check_network
from tools.reference.__main__ import _made
from tools.reference.command_page import help_parts
from tools.reference.commands import UNTYPED, Described, commands
from tools.reference.descriptions import DESCRIPTIONS
from tools.reference.files import current
from tools.reference.indexes import exit_rows
from tools.reference.key_page import keys
from tools.reference.output_fields import fields_of
from tools.reference.page import Page, Part, merged, read
from tools.reference.schemas import schema_of

from ..lanes import ROOT

pytestmark = pytest.mark.unit

REFERENCE = ROOT / "docs" / "reference"
WANTED = current(ROOT)
COMMANDS = list(commands())
TYPED = [it for it in COMMANDS if it.output is not None]
_RUN = "run `make docs`"


def page(*path: str) -> Page:
    return read(REFERENCE.joinpath(*path).read_text())


def body(found: Page, heading: str) -> str:
    return next((it.body for it in found.sections if it.heading == heading), "")


@pytest.mark.parametrize("path", sorted(WANTED), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_as_the_code_has_it(path: Path) -> None:
    assert path.exists(), f"{path.relative_to(ROOT)} is missing: {_RUN}"
    assert path.read_text() == WANTED[path], f"{path.relative_to(ROOT)} is out of date: {_RUN}"


def test_no_page_is_about_something_that_is_gone() -> None:
    assert _made(ROOT) - WANTED.keys() == set(), _RUN


def words(command: Described) -> str:
    return command.words


@pytest.mark.parametrize("command", COMMANDS, ids=words)
def test_a_command_says_what_it_prints(command: Described) -> None:
    if command.words in UNTYPED:
        assert not command.has_output, f"`{command.words}` has OUTPUT now: take it off the list UNTYPED"
    else:
        assert command.has_output, f"`{command.words}` has no OUTPUT: name its type, or None"


@pytest.mark.parametrize("command", TYPED, ids=words)
def test_every_field_of_an_output_is_explained(command: Described) -> None:
    lacking = [it.path for it in fields_of(schema_of(command.output, "")) if not it.meaning]
    assert lacking == [], "give them a Meta(description=…)"


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_field_is_explained_in_one_place_only(name: str) -> None:
    module, _, type_name = name.rpartition(".")
    kind = getattr(import_module(module), type_name)
    schema = msgspec.json.schema_components([kind])[1][type_name]["properties"]
    assert DESCRIPTIONS[name].keys() <= schema.keys(), "there is no such field"
    assert [it for it in DESCRIPTIONS[name] if "description" in schema[it]] == [], "its type says it"


@pytest.mark.parametrize("command", COMMANDS, ids=words)
def test_the_exit_statuses_of_a_command_are_ones_that_there_are(command: Described) -> None:
    known = {value for name, value in vars(status).items() if name.isupper()} | {0}
    rows = exit_rows(body(page("commands", f"{command.name}.md"), "Exit status"))
    assert {int(number) for number, _ in rows} <= known
    assert all(when for _, when in rows)
    assert rows[0][0] == "0"


def test_all_exit_statuses_are_in_one_table() -> None:
    rows = exit_rows(body(page("exit-status.md"), "All of them"))
    listed = {int(number) for numbers, _ in rows for number in numbers.split(",")}
    known = {value for name, value in vars(status).items() if name.isupper() and name != "SIGNALLED"}
    assert known | {0} == {number for number in listed if number < status.SIGNALLED}
    assert {number for number in listed if number > status.SIGNALLED} == {129, 130, 143}


EXAMPLES = sorted(
    {
        (command.words, line)
        for command in COMMANDS
        for line in re.findall(
            r"^(?:\w+=\S+ )*(netloom .*?)(?:  .*| *[|;>&].*)?$",
            help_parts(command).get("examples", "").replace("\\\n", ""),
            re.MULTILINE,
        )
    }
)


@pytest.mark.parametrize(("command", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_an_example_of_the_help_is_one_that_the_command_takes(command: str, line: str) -> None:
    path, node, rest = resolve(shlex.split(line)[1:])
    assert isinstance(node, Command), f"{line}, in the help of {command}"
    found = next(it for it in COMMANDS if list(it.path) == path)
    found.parser.parse_args(rest)


@pytest.mark.parametrize("command", COMMANDS, ids=words)
def test_a_command_has_an_example_on_its_page(command: Described) -> None:
    assert f"netloom {command.words}" in body(page("commands", f"{command.name}.md"), "Examples")


@pytest.mark.parametrize("name", [key.name for key in keys()])
def test_a_key_is_explained_with_an_example_that_works(name: str) -> None:
    found = page("keys", f"{name}.md")
    assert found.lead
    for heading in ("What it does", "Example", "Errors"):
        assert body(found, heading), heading
    for source in re.findall(r"```json\n(.*?)```", body(found, "Example"), re.DOTALL):
        assert f'"{name}"' in source
        check_network(source.encode())


def test_what_is_written_by_hand_stays() -> None:
    before = read("# t\n\nlead\n\n## Made\n\nold\n\n## Mine\n\n```\n## no heading\n```\n\n## Notes\n\nkept\n")
    after = read(
        merged(before, "t", before.lead, [Part("Made", "new"), Part("Notes", "stub", is_made=False)])
    )
    assert [(it.heading, it.body) for it in after.sections] == [
        ("Made", "new"),
        ("Mine", "```\n## no heading\n```"),
        ("Notes", "kept"),
    ]
    assert after.lead == "lead"
