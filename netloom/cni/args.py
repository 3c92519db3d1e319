"""`CNI_ARGS`: the arguments of the user at invocation, as `KEY=VALUE;KEY=VALUE`."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from .errors import InvalidEnvironment
from .names import shortened
from .wire import thread_safe

S = TypeVar("S", bound=Struct)

_TRUE = ("1", "true")
_FALSE = ("0", "false")


def parse_args(text: str) -> dict[str, str]:
    """
    >>> parse_args("IgnoreUnknown=1;IP=10.1.2.3")
    {'IgnoreUnknown': '1', 'IP': '10.1.2.3'}
    """
    return dict(split_pairs(text))


def split_pairs(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for pair in text.split(";") if text else ():
        key, *values = pair.split("=")
        if len(values) != 1:
            raise InvalidEnvironment(
                f'ARGS: invalid pair "{shortened(pair)}"',
                discreet=f"ARGS: pair {len(pairs) + 1} is not KEY=VALUE",
            )
        pairs.append((key, values[0]))
    return pairs


def load_args(text: str, kind: type[S]) -> S:
    """Returns the arguments that a struct has fields for. Others are an error without `IgnoreUnknown`."""
    pairs = parse_args(text)
    ignore_unknown = _boolean("IgnoreUnknown", pairs.pop("IgnoreUnknown", "0"))
    names = _names(kind)
    unknown = {key: value for key, value in pairs.items() if key not in names}
    try:
        loaded = convert({key: pairs[key] for key in pairs if key in names}, thread_safe(kind), strict=False)
    except ValidationError as cause:
        raise InvalidEnvironment(f"ARGS: {cause}") from None
    if unknown and not ignore_unknown:
        listed = " ".join(f'"{shortened(f"{key}={value}")}"' for key, value in unknown.items())
        raise InvalidEnvironment(
            f"ARGS: unknown args [{listed}]",
            discreet=f"ARGS: unknown args {', '.join(map(shortened, unknown))}",
        )
    return loaded


@cache
def _names(kind: type[Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in fields(kind))


def _boolean(key: str, value: str) -> bool:
    if value.lower() not in _TRUE + _FALSE:
        raise InvalidEnvironment(
            f'ARGS: error parsing value of pair "{key}={shortened(value)}": not a boolean',
            discreet=f"ARGS: {key} is not a boolean",
        )
    return value.lower() in _TRUE
