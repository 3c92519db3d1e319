"""The fields of a document, from its schema: one row each, nested fields by their path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

# Types that have pages of their own; paths are relative to a command's page.
_ELSEWHERE = {
    "Plan": "a [plan](../plan.md)",
    "Difference": "[differences](../plan.md#differences) from the plan",
    "Result": "a [result](../network.md#the-result) of CNI, in the version of the configuration",
    "LegacyResult": "one of 0.1.0 or 0.2.0",
}


class Field(NamedTuple):
    path: str
    type: str
    meaning: str


def elsewhere(schema: dict[str, Any]) -> list[str]:
    """Describes a type that another page documents."""
    shapes = schema.get("anyOf", [schema.get("items", schema)])
    names = [it.get("$ref", "").rpartition("/")[2] for it in shapes]
    return [_ELSEWHERE[name] for name in names if name in _ELSEWHERE]


def about(schema: dict[str, Any]) -> str:
    """Describes the whole document: the first line of its type's docstring."""
    shape = _resolved(schema.get("items", schema), schema)
    return str(shape.get("description", "")).partition("\n\n")[0]


def fields_of(schema: dict[str, Any]) -> list[Field]:
    shape = schema.get("items", schema) if schema.get("type") == "array" else schema
    return list(_fields(shape, schema, "", frozenset()))


def _fields(
    shape: dict[str, Any], document: dict[str, Any], path: str, seen: frozenset[str]
) -> Iterator[Field]:
    for variant in _variants(shape):
        resolved = _resolved(variant, document)
        name = str(resolved.get("title", ""))
        if name in seen or name in _ELSEWHERE:
            continue
        for key, kind in resolved.get("properties", {}).items():
            place = f"{path}{key}"
            optional = key not in resolved.get("required", ())
            meaning = _meaning(kind, document)
            yield Field(place, _type(kind, document) + (", or left out" if optional else ""), meaning)
            inner, suffix = _inner(kind, document)
            if inner is not None:
                yield from _fields(inner, document, place + suffix, seen | {name})


def _meaning(kind: dict[str, Any], document: dict[str, Any]) -> str:
    if "description" in kind:
        return str(kind["description"])
    found = _ELSEWHERE.get(kind.get("$ref", "").rpartition("/")[2], "")
    return found or str(_resolved(kind, document).get("description", "")).partition("\n\n")[0]


def _inner(kind: dict[str, Any], document: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Returns the objects inside a field, with the path prefix of their fields."""
    for variant in _variants(kind):
        if "$ref" in variant:
            return variant, "."
        if variant.get("type") == "array" and "items" in variant:
            inner, suffix = _inner(variant["items"], document)
            return inner, "[]" + suffix
        if isinstance(variant.get("additionalProperties"), dict):
            inner, suffix = _inner(variant["additionalProperties"], document)
            return inner, ".*" + suffix
    return None, ""


def _variants(kind: dict[str, Any]) -> list[dict[str, Any]]:
    return list(kind.get("anyOf", [kind]))


def _resolved(kind: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in kind:
        return kind
    found: dict[str, Any] = document["$defs"][kind["$ref"].rpartition("/")[2]]
    return found


def _type(kind: dict[str, Any], document: dict[str, Any]) -> str:
    shown = [_simple_type(it, document) for it in _variants(kind)]
    return " or ".join(dict.fromkeys(shown))


def _simple_type(kind: dict[str, Any], document: dict[str, Any]) -> str:
    if "enum" in kind:
        return ", ".join(f"`{it}`" if it is not None else "null" for it in kind["enum"])
    resolved = _resolved(kind, document)
    match resolved.get("type"):
        case "array":
            return f"list of {_plural(resolved.get('items', {}), document)}"
        case "object" if isinstance(resolved.get("additionalProperties"), dict):
            return f"object of {_plural(resolved['additionalProperties'], document)}"
        case str(name):
            return name
    return "anything"


def _plural(kind: dict[str, Any], document: dict[str, Any]) -> str:
    shown = _type(kind, document)
    return f"{shown}s" if shown in ("string", "integer", "number", "boolean", "object") else shown
