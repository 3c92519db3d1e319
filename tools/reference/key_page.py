"""The page of a key of a network's configuration, and which keys there are."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import fields

from netloom import __version__
from netloom.networks import config as network

from .markdown import code, table
from .page import Page, Part, merged

# Every plugin of CNI may have it; which ones ours knows is part of its reference.
_OF_CNI = {"capabilities": ('an object of booleans, such as {"portMappings": true}', "`{}`")}
# What the type of the field does not tell.
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
    """`valid` is what may stand there, in the words of the error that somebody gets who writes another."""

    name: str
    valid: str
    default: str


def keys() -> list[Key]:
    found = [Key(it.encode_name, _valid(it.encode_name), _default(it)) for it in fields(network._Keys)]
    found += [Key(name, *rest) for name, rest in _OF_CNI.items()]
    return sorted(found, key=lambda it: it.name.lower())


def _valid(name: str) -> str:
    return network.valid_value(name) or "nothing: it is refused"


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
    """An example in it is JSON."""
    words, such_as, example = valid.partition("such as ")
    return f"{words}{such_as}{code(example)}" if such_as else valid


def _since(before: Page | None) -> str:
    """A page that is there knows the version that brought the key."""
    value = next((it.body for it in before.sections if it.heading == "Value"), "") if before else ""
    return value.split("|")[-2].strip() if "|" in value else __version__
