"""JSON Schemas of the commands' output, from its types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, inspect
from msgspec.structs import fields

from netloom.cni import result

from .descriptions import DESCRIPTIONS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# They encode themselves as CNI specifies: without empty fields.
_OMITS_WHAT_IS_EMPTY = (
    result.Interface, result.IP, result.Route, result.DNS, result.Result, result.LegacyIP,
    result.LegacyResult,
)  # fmt: skip


def schema_of(output: Any, title: str) -> dict[str, Any]:
    """Returns a schema. Later versions may add fields, but keep the existing ones and their types."""
    kinds = _alternatives(output)
    shapes, named = msgspec.json.schema_components(kinds)
    document: dict[str, Any] = {"$schema": DIALECT, "title": title}
    document |= shapes[0] if len(shapes) == 1 else {"anyOf": list(shapes)}
    for cls in _structs(inspect.multi_type_info(kinds), set()):
        # Two types of the same name get their full names.
        whole = f"{cls.__module__}.{cls.__qualname__}"
        definition = named[cls.__name__] if cls.__name__ in named else named[whole]
        _require(definition, _always_there(cls))
        _describe(definition, DESCRIPTIONS.get(whole, {}))
    if named:
        document["$defs"] = {name: named[name] for name in sorted(named)}
    written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return written


def written(schema: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _alternatives(output: Any) -> tuple[Any, ...]:
    """Handles unions of objects without a tag, which msgspec does not support as a type."""
    if get_origin(output) in (Union, UnionType):
        return get_args(output)
    return (output,)


def _require(definition: dict[str, Any], always: frozenset[str]) -> None:
    """Marks fields with defaults as required: they are always written, and only readers use defaults."""
    properties = definition.get("properties", {})
    required = set(definition.get("required", ())) | always
    definition["required"] = [name for name in properties if name in required]
    for name in required:
        properties.get(name, {}).pop("default", None)


def _describe(definition: dict[str, Any], known: Mapping[str, str]) -> None:
    for name, kind in definition.get("properties", {}).items():
        if name in known and "description" not in kind:
            definition["properties"][name] = {"description": known[name], **kind}


def _always_there(cls: type[Struct]) -> frozenset[str]:
    """Returns the fields that are always written, whatever their value."""
    if cls.__struct_config__.omit_defaults or cls in _OMITS_WHAT_IS_EMPTY:
        return frozenset()
    return frozenset(it.encode_name for it in fields(cls) if it.default is not UNSET)


def _structs(found: Any, seen: set[type]) -> Iterator[type[Struct]]:
    """Yields every object type in it once."""
    if isinstance(found, inspect.StructType):
        if found.cls in seen:
            return
        seen.add(found.cls)
        yield found.cls
    if isinstance(found, tuple | list):
        for it in found:
            yield from _structs(it, seen)
    elif isinstance(found, inspect.Type | inspect.Field):
        for name in found.__struct_fields__:
            yield from _structs(getattr(found, name), seen)
