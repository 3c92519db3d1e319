"""A change of what commands print that would break a script does not pass by unseen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tools.reference.breaking import breaks
from tools.reference.files import schemas

from ..lanes import ROOT

pytestmark = pytest.mark.unit

KEPT = {
    path.name: json.loads(path.read_text()) for path in sorted((ROOT / "docs" / "schemas").glob("*.json"))
}
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_schemas_are_those_of_the_types() -> None:
    for path, schema in schemas(ROOT).items():
        kept = KEPT.get(path.name)
        broken = breaks(kept, schema) if kept else []
        assert not broken, f"{path.stem} would break scripts: {'; '.join(broken)}"
        assert kept == schema, f"{path.name} is out of date, and nothing breaks: run `make docs`"


def committed() -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas of the last commit; none in an archive of the sources."""
    for name in KEPT:
        shown = subprocess.run(
            ["git", "show", f"HEAD:docs/schemas/{name}"], cwd=ROOT, capture_output=True, text=True
        )
        if shown.returncode == 0:
            yield name, json.loads(shown.stdout)


def test_a_break_with_the_last_commit_is_told_in_the_changelog() -> None:
    for name, before in committed():
        command = name.removesuffix(".json").replace("-", " ")
        for broken in breaks(before, KEPT[name]):
            assert f"breaks `netloom {command}`" in CHANGELOG, (
                f"netloom {command} --json: {broken}. Scripts rely on it. If it has to be, the changelog "
                f"says that it breaks `netloom {command}`"
            )


DOCUMENT: dict[str, Any] = {
    "type": "array",
    "items": {"$ref": "#/$defs/Row"},
    "$defs": {
        "Row": {
            "type": "object",
            "title": "Row",
            "properties": {
                "name": {"type": "string"},
                "mtu": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "state": {"enum": ["on", "off"]},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
                "inner": {"$ref": "#/$defs/Row"},
                "counters": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "required": ["name", "mtu", "state"],
        },
        "Part": {"type": "object", "title": "Part", "properties": {"size": {"type": "integer"}}},
    },
}


def changed(*path: str, to: Any) -> dict[str, Any]:
    document = deepcopy(DOCUMENT)
    place: Any = document["$defs"]
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return document


ROW = ("Row", "properties")


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (changed(*ROW, "name", to=None), "the field [].name was removed"),
        (changed(*ROW, "name", to={"type": "integer"}), "[].name was string and is now integer"),
        (changed(*ROW, "mtu", to={"type": "integer"}), "[].mtu was integer or null and is now integer"),
        (
            changed(*ROW, "name", to={"anyOf": [{"type": "string"}, {"type": "null"}]}),
            "[].name was string and is now null or string",
        ),
        (
            changed("Row", "required", to=["name", "mtu"]),
            "the field [].state was always present and may now be missing",
        ),
        (changed(*ROW, "state", to={"enum": ["on"]}), "[].state is no longer 'off'"),
        (changed("Part", "properties", "size", to=None), "the field [].parts[].size was removed"),
        (
            changed(*ROW, "counters", to={"type": "object", "additionalProperties": {"type": "string"}}),
            "[].counters.* was integer and is now string",
        ),
        ({**DOCUMENT, "type": "object"}, "the document was array and is now object"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_what_breaks_scripts_is_said_in_a_sentence(after: dict[str, Any], sentence: str) -> None:
    assert breaks(DOCUMENT, after) == [sentence]


@pytest.mark.parametrize(
    "after",
    [
        DOCUMENT,
        changed(*ROW, "more", to={"type": "string"}),
        changed(*ROW, "state", to={"enum": ["on", "off", "broken"]}),
        changed("Row", "required", to=["name", "mtu", "state", "parts"]),
        changed("Row", "title", to="Line"),
    ],
    ids=["same", "a field more", "a value more", "always there", "another title"],
)
def test_what_is_added_breaks_nothing(after: dict[str, Any]) -> None:
    assert breaks(DOCUMENT, after) == []


def test_a_kind_of_object_that_is_gone_breaks_scripts() -> None:
    def union(*tags: str) -> dict[str, Any]:
        return {
            "anyOf": [
                {"type": "object", "title": tag, "properties": {"type": {"enum": [tag]}}} for tag in tags
            ]
        }

    assert breaks(union("veth", "up", "rule"), union("veth", "up")) == ["the document is no longer rule"]
    assert breaks(union("veth", "up"), union("veth", "up", "rule")) == []
