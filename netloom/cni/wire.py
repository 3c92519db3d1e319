"""JSON as CNI speaks it: decoded with typed errors only, encoded as Go's encoder would.

The encoding matters where bytes are shared with Go's libcni: keys of objects sorted, no
spaces, and `<`, `>`, `&` and the two line separators escaped. Integers keep the precision that
they came with (Go would pass them through a float); a float without a fraction is written as an
integer, as Go does, because many a plugin reads it into one.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, TypeVar

import msgspec

from .errors import CNIError, DecodingFailure
from .learning import learned
from .spot import placed

T = TypeVar("T")

# The largest document read from a file, a plugin or standard input. Real ones have kilobytes.
DOCUMENT_MAX = 16 * 1024 * 1024

# Far deeper than any configuration, and far from the end of the interpreter's stack.
DEPTH_MAX = 200

# These bytes occur in JSON only inside strings, so that replacing them everywhere is safe.
_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def _as_dict(value: object) -> object:
    """For mappings that are no dicts."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_sorted = msgspec.json.Encoder(order="deterministic", enc_hook=_as_dict)  # dicts; structs keep their order
_in_order = msgspec.json.Encoder(enc_hook=_as_dict)


def to_builtins(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=_as_dict)


def encode(value: object) -> bytes:
    """Go's encoding of a map: keys sorted."""
    return _go_escaped(_sorted.encode(value))


def encode_in_order(value: object) -> bytes:
    """Go's encoding of a struct: keys in the order that they have."""
    return _go_escaped(_in_order.encode(value))


def _go_escaped(data: bytes) -> bytes:
    for plain, escaped in _GO_ESCAPES:
        if plain in data:
            data = data.replace(plain, escaped)
    return data


def indent(data: bytes) -> bytes:
    """Compact JSON as Go prints results and errors: four spaces, no newline at the end."""
    return msgspec.json.format(data, indent=4)


def decode(data: bytes, what: str, *, error: type[CNIError] = DecodingFailure) -> Any:
    """Any JSON value. `what` opens the error's sentence: "… is not JSON: …"."""
    return decode_as(data, Any, what, error=error)


def decode_as(data: bytes, kind: type[T] | Any, what: str, *, error: type[CNIError] = DecodingFailure) -> T:
    if not data.strip():
        raise error(f"{what}: unexpected end of JSON input")
    try:
        return msgspec.json.decode(data, type=learned(kind))
    except RecursionError:
        raise error(f"{what}: nested too deeply") from None
    except UnicodeDecodeError:
        raise error(f"{what}: not UTF-8") from None
    except (msgspec.MsgspecError, ValueError) as cause:
        raise error(f"{what}: {placed(cause, data)}") from None


def decode_object(data: bytes, what: str, *, error: type[CNIError] = DecodingFailure) -> dict[str, Any]:
    value = decode(data, what, error=error)
    if not isinstance(value, dict):
        raise error(f"{what}: expected an object, got {json_type(value)}")
    return value


def with_go_numbers(value: Any, depth: int = 0) -> Any:
    """A document whose numbers are written as Go writes them: 1e3 and 1000.0 as 1000.

    ValueError for what JSON has no number for, RecursionError for what is nested too deeply.
    """
    if depth > DEPTH_MAX:
        raise RecursionError("nested too deeply")
    match value:
        case float():
            if not isfinite(value):
                raise ValueError(f"{value} is no JSON number")
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        case Mapping():
            return {key: with_go_numbers(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [with_go_numbers(item, depth + 1) for item in value]
    return value


def json_type(value: object) -> str:
    """The name of a value's JSON type, for error texts."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
    return "an object"
