"""Words of others in commands that are suggested: as a shell takes them, and a terminal shows them."""

from __future__ import annotations


def for_shell(word: str) -> str:
    r"""A word as somebody can copy it to bash; what would steer a terminal is written out.

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
    """Bytes that are no text come from the command line as halves of characters."""
    try:
        return it.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return it.encode("utf-8", "surrogatepass")
