"""Changes of a schema that break scripts which read the output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def breaks(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Yields what was removed or changed, each as a sentence. Additions break nothing."""
    return list(dict.fromkeys(_breaks(before, after, (before, after), "", frozenset())))


_Documents = tuple[dict[str, Any], dict[str, Any]]


def _breaks(
    old: dict[str, Any], new: dict[str, Any], whole: _Documents, path: str, seen: frozenset[str]
) -> Iterator[str]:
    if "$ref" in old and old["$ref"] in seen:
        return
    seen |= {old["$ref"]} if "$ref" in old else frozenset()
    olds, news = _variants(old, whole[0]), _variants(new, whole[1])
    was, now = _types(olds), _types(news)
    if was != now:
        yield f"{path or 'the document'} was {_shown(was)} and is now {_shown(now)}"
        return
    yield from _lost_values(olds, news, path)
    for variant in olds:
        other = _same(variant, news)
        if other is None:
            yield f"{path or 'the document'} is no longer {_name(variant)}"
            continue
        yield from _lost_fields(variant, other, whole, path, seen)
        if "items" in variant:
            yield from _breaks(variant["items"], other.get("items", {}), whole, f"{path}[]", seen)
        if isinstance(variant.get("additionalProperties"), dict):
            values = other.get("additionalProperties")
            values = values if isinstance(values, dict) else {}
            yield from _breaks(variant["additionalProperties"], values, whole, f"{path}.*", seen)


def _lost_fields(
    old: dict[str, Any], new: dict[str, Any], whole: _Documents, path: str, seen: frozenset[str]
) -> Iterator[str]:
    for name, kind in old.get("properties", {}).items():
        place = f"{path}.{name}".lstrip(".")
        if name not in new.get("properties", {}):
            yield f"the field {place} was removed"
            continue
        if name in old.get("required", ()) and name not in new.get("required", ()):
            yield f"the field {place} was always present and may now be missing"
        yield from _breaks(kind, new["properties"][name], whole, place, seen)


def _lost_values(olds: list[dict[str, Any]], news: list[dict[str, Any]], path: str) -> Iterator[str]:
    """A script that waits for a removed value waits for ever."""
    was = {str(it) for old in olds for it in old.get("enum", ())}
    now = {str(it) for new in news for it in new.get("enum", ())}
    if was and now:
        yield from (f"{path} is no longer {value!r}" for value in sorted(was - now))


def _variants(schema: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in schema:
        return _variants(document["$defs"][schema["$ref"].rpartition("/")[2]], document)
    if "anyOf" in schema:
        return [it for one in schema["anyOf"] for it in _variants(one, document)]
    return [schema]


def _types(variants: list[dict[str, Any]]) -> set[str]:
    return {it.get("type", _type_of_values(it)) for it in variants}


def _type_of_values(schema: dict[str, Any]) -> str:
    """The type of an enumeration's values, which names no type."""
    names = {"str": "string", "int": "integer", "NoneType": "null"}
    kinds = {names.get(type(it).__name__, "anything") for it in schema.get("enum", ())}
    return kinds.pop() if len(kinds) == 1 else "anything"


def _same(variant: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Finds the object of the same name among several."""
    fitting = [it for it in others if _types([it]) == _types([variant])]
    if len(fitting) > 1:
        fitting = [it for it in fitting if _name(it) == _name(variant)]
    return fitting[0] if fitting else None


def _name(schema: dict[str, Any]) -> str:
    """Names an object by its tag, a field with only one value, or by its type."""
    tags = [it["enum"][0] for it in schema.get("properties", {}).values() if len(it.get("enum", ())) == 1]
    return str(tags[0]) if tags else str(schema.get("title") or schema.get("type", "value"))


def _shown(types: set[str]) -> str:
    return " or ".join(sorted(types))
