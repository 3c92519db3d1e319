"""JSON of CNI: decoded with typed errors, encoded as Go's encoder would.

The encoding matters where bytes are shared with Go's libcni: object keys sorted, no spaces, and `<`, `>`, `&`
and the two line separators escaped. Integers keep their precision (Go would convert them to a float); a float
without a fraction is written as an integer, as Go does, because many plugins decode it to one.

msgspec describes an error only in a sentence. Only this module parses that sentence, and gives the place of
an error by line and column, as an editor counts them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple, TypeVar

import msgspec

from .errors import CNIError, DecodingFailure

T = TypeVar("T")

# The largest document read from a file, a plugin or standard input. Real ones have kilobytes.
DOCUMENT_MAX = 16 * 1024 * 1024

# Far deeper than any configuration, and far from the interpreter's recursion limit.
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
    """Converts mappings that are not dicts."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_sorted = msgspec.json.Encoder(order="deterministic", enc_hook=_as_dict)  # dicts; structs keep their order
_in_order = msgspec.json.Encoder(enc_hook=_as_dict)


def to_builtins(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=_as_dict)


def encode(value: object) -> bytes:
    """Encodes like Go's map: keys sorted."""
    return _go_escaped(_sorted.encode(value))


def encode_in_order(value: object) -> bytes:
    """Encodes like Go's struct: keys in their order."""
    return _go_escaped(_in_order.encode(value))


def _go_escaped(data: bytes) -> bytes:
    for plain, escaped in _GO_ESCAPES:
        if plain in data:
            data = data.replace(plain, escaped)
    return data


def indent(data: bytes) -> bytes:
    """Indents compact JSON as Go prints results and errors: four spaces, no newline at the end."""
    return msgspec.json.format(data, indent=4)


def decode(data: bytes, what: str, *, error: type[CNIError] = DecodingFailure) -> Any:
    """Decodes any JSON value. `what` begins the error's sentence: "… is not JSON: …"."""
    return decode_as(data, Any, what, error=error)


def decode_as(data: bytes, kind: type[T] | Any, what: str, *, error: type[CNIError] = DecodingFailure) -> T:
    if not data.strip():
        raise error(f"{what}: unexpected end of JSON input")
    try:
        return msgspec.json.decode(data, type=thread_safe(kind))
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
    """Rewrites a document's numbers as Go writes them: 1e3 and 1000.0 as 1000.

    ValueError for a value without a JSON number, RecursionError for too deep nesting.
    """
    if depth > DEPTH_MAX:
        raise RecursionError("nested too deeply")
    match value:
        case float():
            if not isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
            return int(value) if value.is_integer() and abs(value) < 1e21 else value
        case Mapping():
            return {key: with_go_numbers(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [with_go_numbers(item, depth + 1) for item in value]
    return value


def json_type(value: object) -> str:
    """Returns the name of a value's JSON type, for error texts."""
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


_prepared: set[Any] = set()
_guard = threading.Lock()


def thread_safe(kind: T) -> T:
    """Returns the same type, made safe for decoding in any thread.

    msgspec (0.22) builds its description of a type on first use, and shares it half built: a second thread
    that decodes to the type meanwhile crashes the interpreter. So one thread alone builds it here.
    """
    if kind not in _prepared:
        with _guard:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)
    return kind


_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_BYTE = re.compile(r" \(byte (\d+)\)$")
_TRUNCATED = "Input data was truncated"
# For data after the end of a document, msgspec reports the second byte.
_TRAILING = "trailing characters"


def placed(said: object, data: bytes) -> str:
    """Returns msgspec's error about a document, with its line and column.

    >>> placed("JSON is malformed: invalid character (byte 9)", b'{\\n  "a": x}')
    'JSON is malformed: invalid character (line 2, column 8)'
    >>> placed("Input data was truncated", b'{\\n')
    'the document ends too early (line 2, column 1)'
    """
    text = str(said)
    if text == _TRUNCATED:
        return f"the document ends too early ({_spot(data, len(data))})"
    found = _BYTE.search(text)
    if found is None:
        return text
    offset = int(found[1]) - (1 if _TRAILING in text else 0)
    return f"{text[: found.start()]} ({_spot(data, offset)})"


def _spot(data: bytes, offset: int) -> str:
    before = data[:offset]
    line = before.rpartition(b"\n")[2].decode("utf-8", "replace")
    number = before.count(b"\n") + 1
    return f"line {number}, column {len(line) + 1}"


class Complaint(NamedTuple):
    """What is wrong with a value at a place such as `pools[0].cidr`. The place of the document itself is
    empty.

    `missing` is the missing key, `unknown` a key that is not allowed.
    """

    place: str
    missing: str = ""
    unknown: str = ""


def complaint(said: object) -> Complaint:
    """
    >>> complaint("Expected `int | null`, got `str` - at `$.pools[0].cidr`")
    Complaint(place='pools[0].cidr', missing='', unknown='')
    >>> complaint("Object missing required field `cidr` - at `$.pools[0]`")
    Complaint(place='pools[0]', missing='cidr', unknown='')
    """
    about, _, place = str(said).rpartition(" - at ")
    missing, unknown = _MISSING.match(about), _UNKNOWN.match(about)
    return Complaint(
        place.strip("`").removeprefix("$").removeprefix(".").removesuffix("[...]"),  # of any key of an object
        missing[1] if missing else "",
        unknown[1] if unknown else "",
    )
