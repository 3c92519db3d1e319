"""The page of a configuration key of a network, and the list of keys."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import fields

from netloom import __version__
from netloom.networks import config as network

from .markdown import code, table
from .page import Page, Part, merged

# Every CNI plugin may have it; the reference says which ones netloom knows.
_OF_CNI = {"capabilities": ('an object of booleans, such as {"portMappings": true}', "`{}`")}
# What the field's type does not say.
_DEFAULTS = {
    "pools": "none: it is required",
    "mtu": "0",
    "defaultRoute": "see [below](#several-interfaces)",
    "interface": "`CNI_IFNAME`",
    "mac": "follows from the names",
    "txQLen": "the kernel's",
    "ipam": "none",
    "portMappings": "none",
    "runtimeConfig": "none",
}


class Key(NamedTuple):
    """`valid` is the allowed values, in the words of the error for any other value."""

    name: str
    valid: str
    default: str


def keys() -> list[Key]:
    found = [Key(it.encode_name, _valid(it.encode_name), _default(it)) for it in fields(network._Keys)]
    found += [Key(name, *rest) for name, rest in _OF_CNI.items()]
    return sorted(found, key=lambda it: it.name.lower())


def _valid(name: str) -> str:
    return network.valid_value(name) or "nothing: the key is refused"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.encode_name in _DEFAULTS:
        return _DEFAULTS[field.encode_name]
    value: Any = msgspec.to_builtins(
        field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    )
    if isinstance(value, dict):
        value = {}
    if isinstance(value, float):
        value = int(value)
    return code(json.dumps(value))


def key_page(key: Key, before: Page | None) -> str:
    facts = (_as_code(key.valid), key.default, _since(before))
    return merged(
        before,
        key.name,
        before.lead if before else "",
        [
            Part("Value", table(["may be", "default", "since"], [facts])),
            Part("What it does", "", is_made=False),
            Part("Example", "", is_made=False),
            Part("Errors", "", is_made=False),
            Part("See also", "[All keys](../network.md#keys)", is_made=False),
        ],
    )


def _as_code(valid: str) -> str:
    """Formats JSON examples as code."""
    words, such_as, example = valid.partition("such as ")
    return f"{words}{such_as}{code(example)}" if such_as else valid


def _since(before: Page | None) -> str:
    """Keeps the version that introduced the key, which an existing page knows."""
    value = next((it.body for it in before.sections if it.heading == "Value"), "") if before else ""
    return value.split("|")[-2].strip() if "|" in value else __version__
