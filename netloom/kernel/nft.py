"""nftables in process, through the distribution's libnftables.

Changes are text in nft's own language, and one call is one transaction. Values are quoted, so that no value
can become a part of the language.

This module works around three traits of the library. It keeps the names of links in one list for the whole
process, so calls are serialised. It looks links up in the namespace of the calling thread, not of the
context, so calls are made inside the namespace. And it ends the whole process when it cannot open a socket,
or when the socket's number is too high for select(2), so calls are made only while descriptors are available.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import InvalidObject, KernelError, LibraryMissing, Malformed

if TYPE_CHECKING:
    from .namespace import Namespace

_LIBRARY = "libnftables.so.1"
_QUOTABLE = re.compile(r'[^"\\\0\n\r*]{1,128}')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_TEXT_OR_REMARK = re.compile(r'"[^"]*"|#[^\n]*')
_REFUSED_WORDS = re.compile(r"\b(include|define|redefine|undefine)\b|\bflags\s+owner\b")
_REASON = re.compile(r"Error: (?:Could not process rule: )?(.*)")
_LONGEST_COMPLAINT = 2000
_SPARE_DESCRIPTORS = 4
# FD_SETSIZE: the C library aborts a process that calls select(2) with a higher descriptor.
_HIGHEST = 1024

# Re-entrant: the garbage collector may close a context in the thread that is using another.
_turns = threading.RLock()


class NftError(KernelError):
    """libnftables refused a transaction; nothing was changed."""


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
    return library


_library: ctypes.CDLL | None = None


class Nft:
    """A context of libnftables for one namespace. `inside` moves the calling thread there."""

    def __init__(self, inside: Callable[[], AbstractContextManager[None]]) -> None:
        global _library
        self._inside = inside
        with _turn(inside):
            if _library is None:
                _library = _load()
            self._library = _library
            self._context = self._library.nft_ctx_new(0)
            if not self._context:
                raise KernelError("libnftables could not create a context")
            self._library.nft_ctx_buffer_output(self._context)
            self._library.nft_ctx_buffer_error(self._context)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with _turns:
            context, self._context = getattr(self, "_context", None), None
            if context:
                self._library.nft_ctx_free(context)

    def run(self, commands: str) -> str:
        """Runs one transaction and returns its output."""
        if "\0" in commands:
            raise InvalidObject("the nft command contains a NUL character")
        with _turn(self._inside):
            if self._context is None:
                raise KernelError("this nft context is closed")
            failed = self._library.nft_run_cmd_from_buffer(self._context, commands.encode())
            said: bytes = self._library.nft_ctx_get_output_buffer(self._context)
            complaint: bytes = self._library.nft_ctx_get_error_buffer(self._context)
        if failed:
            raise _error(complaint.decode("utf-8", "replace"))
        return said.decode("utf-8", "replace")


@contextmanager
def _turn(inside: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    with _turns, inside():
        _require_spare_descriptors()
        yield


def _require_spare_descriptors() -> None:
    spare: list[int] = []
    try:
        while len(spare) < _SPARE_DESCRIPTORS:
            spare.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
            if spare[-1] >= _HIGHEST:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    except OSError as cause:
        raise KernelError(f"nft: {cause.strerror}", errno=cause.errno or 0) from None
    finally:
        for descriptor in spare:
            os.close(descriptor)


def _error(complaint: str) -> NftError:
    found = _REASON.search(complaint)
    reason = found.group(1) if found else "failed"
    named = reason.partition("; did you mean ")[0]
    number = next((number for number in errno.errorcode if os.strerror(number) == named), 0)
    words = complaint.strip() or reason
    if len(words) > _LONGEST_COMPLAINT:
        words = f"{words[:_LONGEST_COMPLAINT]}…"
    return NftError(f"nft: {words}", errno=number)


def quoted(value: str) -> str:
    """Quotes a value for nft, whatever characters it has."""
    if not _QUOTABLE.fullmatch(value):
        raise InvalidObject(f"nft cannot represent the value {value[:80]!r}")
    return f'"{value}"'


def require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidObject(f"{name[:80]!r} is not a valid name of a table, chain or set")


def words_of(text: str, what: str) -> str:
    """Returns the text without quoted parts and comments; of a comment, the # remains.

    Refuses text that reaches beyond its place, by an open quote or by `refused` words.
    """
    words = _TEXT_OR_REMARK.sub(lambda found: "#" if found[0][0] == "#" else " ", text)
    if '"' in words:
        raise InvalidObject(f"{what} has unbalanced quotes")
    refused = _REFUSED_WORDS.search(words)
    if refused:
        raise InvalidObject(f"{what} contains {refused[0]!r}, which plans must not use")
    return words


_JSON, _TERSE = 1 << 4, 1 << 11


class _InJson(Nft):
    def __init__(self, namespace: Namespace) -> None:
        super().__init__(namespace.entered)
        set_flags = self._library.nft_ctx_output_set_flags
        set_flags.argtypes = [ctypes.c_void_p, ctypes.c_uint]
        set_flags(self._context, _JSON | _TERSE)


def listed(namespace: Namespace, what: str = "ruleset") -> list[dict[str, Any]]:
    """Returns the output of `nft -j -t list ruleset`, without the first entry, which describes nft itself.

    Elements of named sets are left out: there are as many as containers.

    Raises `KernelError` if nftables cannot be queried, or libnftables was built without JSON.
    """
    nft = _InJson(namespace)
    try:
        said = nft.run(f"list {what}")
    finally:
        nft.close()
    try:
        document = msgspec.json.decode(said, type=dict[str, list[dict[str, Any]]])
    except msgspec.MsgspecError as cause:
        raise Malformed(f"nft printed invalid JSON: {cause}") from None
    if "nftables" not in document:
        raise KernelError("nft printed no ruleset")
    return [it for it in document["nftables"] if "metainfo" not in it]
