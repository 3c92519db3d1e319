"""Values as text for people, safe for a terminal and for JSON."""

from __future__ import annotations

import re
import socket

# How many characters of a container ID tables show, and the pattern of IDs that runtimes generate.
_SHOWN = 12
_MADE = re.compile(r"[0-9a-f]{32,}")


def printable(text: str) -> str:
    """Escapes characters of untrusted text that would control a terminal, except line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() or it in "\n\t" else ascii(it)[1:-1] for it in text)


def printable_line(text: str) -> str:
    """The same on one line: a file name may contain line breaks."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def encodable(value: object) -> object:
    """Makes a document's strings valid for JSON: file names may have bytes that are not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    return value


def shown_ip(packed: bytes) -> str:
    """Formats a packed address. `kernel.values.shown_ip` would import the whole kernel package."""
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def age(seconds: float) -> str:
    """Formats an age, rounded down; from a day on in days and hours.

    >>> age(59.9), age(3600), age(86399), age(273600), age(172800)
    ('59s', '60m', '23h', '3d 4h', '2d')
    """
    for size, unit, limit in ((1, "s", 120), (60, "m", 7200), (3600, "h", 86400)):
        if seconds < limit:
            return f"{max(int(seconds), 0) // size}{unit}"
    days, hours = divmod(int(seconds) // 3600, 24)
    return f"{days}d {hours}h" if hours else f"{days}d"


def short_id(container_id: str) -> str:
    """Shortens a container ID that a runtime generated. An ID that a user chose stays whole.

    >>> short_id("3f2a9c" * 11), short_id("netloom-kept-7-client")
    ('3f2a9c3f2a9c', 'netloom-kept-7-client')
    """
    return container_id[:_SHOWN] if _MADE.fullmatch(container_id) else container_id


def for_shell(word: str) -> str:
    r"""Quotes a word for bash. Characters that would control a terminal are escaped.

    >>> for_shell("shop/api-0"), for_shell("two words"), for_shell("\x1b[31m")
    ('shop/api-0', "'two words'", "$'\\x1b[31m'")
    """
    from shlex import quote

    if word.isprintable():
        return quote(word)
    return f"$'{''.join(map(_written, word))}'"


def _written(it: str) -> str:
    if it in "\\'":
        return f"\\{it}"
    return it if it.isprintable() else "".join(f"\\x{byte:02x}" for byte in _bytes(it))


def _bytes(it: str) -> bytes:
    """Bytes of the command line that are not UTF-8 arrive as surrogates."""
    try:
        return it.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return it.encode("utf-8", "surrogatepass")
