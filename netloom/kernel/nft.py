"""nftables in process, through the distribution's libnftables.

Changes are text in nft's own language, and one call is one transaction: all of it or nothing.
Values are quoted, so that none of them can become a part of the language.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import msgspec

from .errors import InvalidObject, KernelError, LibraryMissing

_LIBRARY = "libnftables.so.1"
_JSON, _TERSE = 1 << 4, 1 << 11
_QUOTABLE = re.compile(r'[^"\\\0\n\r*]{1,128}')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./\\-]{0,127}")
_ERRNO = re.compile(r"Error: (?:Could not process rule: )?(.*)")


class NftError(KernelError):
    """libnftables refused a transaction; nothing of it happened."""


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as cause:
        raise LibraryMissing(
            f"{_LIBRARY} is missing: install the package libnftables1 (Debian, Ubuntu) or nftables ({cause})"
        ) from None
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    for name in ("nft_ctx_free", "nft_ctx_buffer_output", "nft_ctx_buffer_error"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
        getattr(library, name).restype = ctypes.c_char_p
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.nft_ctx_output_set_flags.argtypes = [ctypes.c_void_p, ctypes.c_uint]
    return library


_library: ctypes.CDLL | None = None


class Nft:
    """A context of libnftables, bound to the namespace in which it was opened. One thread at a time."""

    def __init__(self) -> None:
        global _library
        if _library is None:
            _library = _load()
        self._library = _library
        self._context = self._library.nft_ctx_new(0)
        if not self._context:
            raise KernelError("libnftables gave no context")
        self._library.nft_ctx_buffer_output(self._context)
        self._library.nft_ctx_buffer_error(self._context)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        context, self._context = getattr(self, "_context", None), None
        if context:
            self._library.nft_ctx_free(context)

    def run(self, commands: str) -> str:
        """One transaction. What it prints is returned."""
        return self._run(commands, 0)

    def listing(self, what: str) -> list[dict[str, Any]]:
        """What `list` says, as data; without the elements of named sets."""
        answer = msgspec.json.decode(self._run(f"list {what}", _JSON | _TERSE))
        return [item for item in answer["nftables"] if "metainfo" not in item]

    def _run(self, commands: str, flags: int) -> str:
        if self._context is None:
            raise KernelError("this nft context was closed")
        if "\0" in commands:
            raise InvalidObject("an nft command with a NUL in it")
        library = self._library
        library.nft_ctx_output_set_flags(self._context, flags)
        failed = library.nft_run_cmd_from_buffer(self._context, commands.encode())
        said: bytes = library.nft_ctx_get_output_buffer(self._context)
        complaint: bytes = library.nft_ctx_get_error_buffer(self._context)
        if failed:
            raise _error(complaint.decode("utf-8", "replace"))
        return said.decode("utf-8", "replace")


def _error(complaint: str) -> NftError:
    import errno
    import os

    found = _ERRNO.search(complaint)
    reason = found.group(1) if found else "failed"
    number = next((number for number in errno.errorcode if os.strerror(number) == reason), 0)
    return NftError(f"nft: {complaint.strip() or reason}", errno=number)


def quoted(value: str) -> str:
    """A value as nft takes it, whatever is in it."""
    if not _QUOTABLE.fullmatch(value):
        raise InvalidObject(f"nft cannot have the value {value[:80]!r}")
    return f'"{value}"'


def require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidObject(f"{name[:80]!r} is no name for a table, chain or set")
