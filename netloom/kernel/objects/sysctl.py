"""Settings of a namespace, and of its links, under /proc/sys/net."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache

from ...cni.names import shortened
from ..errors import Difference, InvalidObject, KernelError, SysctlError, compare, missing
from ..namespace import Namespace
from ..values import is_passable
from .base import LinkName, Object, Scope, Undo

_LONGEST = 255  # a path that the kernel has; the longest contain two link names
_PART = re.compile(r"[^/\s\0]+")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]{1,16}|[0-9]{1,20})")
_OF_LINK = re.compile(r"net/(?:ipv4|ipv6)/(?:conf|neigh)/([^/]+)/")


@lru_cache(maxsize=1024)
def _require_key(key: str) -> None:
    parts = key.split("/")
    if parts[0] != "net" or len(parts) < 3 or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidObject(f"{key[:80]!r} is not a setting of a namespace, such as net/ipv4/ip_forward")
    if ".." in parts or "." in parts or not is_passable(key) or len(key) > _LONGEST:
        raise InvalidObject(f"{key[:80]!r} is not a setting of a namespace")


class Sysctl(Object, frozen=True, tag="sysctl"):
    """`key` has slashes, since link names may contain dots: net/ipv4/conf/eth0.7/proxy_arp.

    Removal writes `otherwise`, if that is given and the value is still ours. Otherwise it changes nothing.
    """

    key: str
    value: str
    otherwise: str | None = None

    def __post_init__(self) -> None:
        _require_key(self.key)
        for value in (self.value, self.otherwise):
            if value is not None and (not value.strip() or "\n" in value or not is_passable(value)):
                raise InvalidObject(f"{self.key}: {value[:40]!r} is not a valid value")

    @property
    def title(self) -> str:
        return f"sysctl {self.key}"

    def rests_on(self) -> Iterable[LinkName]:
        link = _OF_LINK.match(self.key)
        return () if link is None or link[1] in ("all", "default") else ((self.on, link[1]),)

    def apply(self, scope: Scope) -> Undo | None:
        namespace = scope.at(self.on)
        with namespace.entered():
            before = self._replaced()
        if before is None:
            return None

        def undo() -> None:
            with namespace.entered():
                _write(self.key, before)

        return undo

    def _replaced(self) -> str | None:
        """Writes the value and returns the one before; None if it was already set."""
        with _opened(self.key) as fd:
            before = None if fd is None else _content(self.key, fd)
            if fd is None or before is None:
                raise SysctlError(f"cannot set {self.label}: the setting does not exist", errno=errno.ENOENT)
            if _same(before, self.value):
                return None
            try:
                _put(self.key, fd, self.value)
                found = _content(self.key, fd)
                if not _same(found, self.value):
                    raise SysctlError(
                        f"cannot set {self.label}: of {shortened(self.value, 80)!r}, the kernel made "
                        f"{shortened(found, 80)!r}"
                    )
            except KernelError as error:
                try:
                    _put(self.key, fd, before)  # of a list, the kernel may have accepted a part
                except KernelError as failure:
                    error.add_note(f"could not be undone: {failure}")
                raise
            return before

    def check(self, scope: Scope) -> list[Difference]:
        with scope.at(self.on).entered():
            found = _read(self.key)
        if found is None:
            return missing(self.label)
        return (
            []
            if _same(found, self.value)
            else compare(self.label, ("value", shortened(self.value, 80), shortened(found, 80)))
        )

    def remove(self, scope: Scope) -> None:
        if self.otherwise is None:
            return
        with scope.at(self.on).entered():
            found = _read(self.key)
            if found is not None and _same(found, self.value):
                _write(self.key, self.otherwise)


@contextmanager
def written(namespace: Namespace, key: str, value: str) -> Iterator[None]:
    """Holds a setting for a block, if the kernel knows it."""
    with namespace.entered():
        before = _read(key)
        kept = before is None or _same(before, value)
        if not kept:
            _write(key, value)
    try:
        yield
    finally:
        if before is not None and not kept:
            with suppress(KernelError), namespace.entered():  # it may have been deleted with its link
                _write(key, before)


# The kernel looks the path up in the namespace of the thread that opens it, so callers enter it once for all
# their settings. Finding a setting of a new link costs more than reading it, so it is opened once.

_LARGEST = 1 << 16


@contextmanager
def _opened(key: str) -> Iterator[int | None]:
    """Opens the setting for reading and writing, or for reading only if writing is forbidden. None if it is
    missing.
    """
    try:
        try:
            fd = os.open(f"/proc/sys/{key}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as cause:
            if cause.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            fd = os.open(f"/proc/sys/{key}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as cause:
        raise SysctlError(f"cannot open sysctl {key}: {cause.strerror}", errno=cause.errno or 0) from None
    try:
        yield fd
    finally:
        os.close(fd)


def _content(key: str, fd: int) -> str:
    try:
        return os.pread(fd, _LARGEST, 0).decode("utf-8", "replace").strip()
    except OSError as cause:
        raise SysctlError(f"cannot read sysctl {key}: {cause.strerror}", errno=cause.errno or 0) from None


def _put(key: str, fd: int, value: str) -> None:
    try:
        os.pwrite(fd, f"{value}\n".encode(), 0)  # an empty write still counts as a write
    except OSError as cause:
        number = errno.EACCES if cause.errno == errno.EBADF else cause.errno or 0
        said = f"cannot set sysctl {key} to {shortened(value, 80)}: {os.strerror(number)}"
        raise SysctlError(said, errno=number) from None


def _read(key: str) -> str | None:
    try:
        with open(f"/proc/sys/{key}", "rb", buffering=0) as file:
            return file.read().decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise SysctlError(f"cannot read sysctl {key}: {cause.strerror}", errno=cause.errno or 0) from None


def _write(key: str, value: str) -> None:
    with _opened(key) as fd:
        if fd is None:
            raise SysctlError(
                f"cannot set sysctl {key} to {shortened(value, 80)}: {os.strerror(errno.ENOENT)}",
                errno=errno.ENOENT,
            )
        _put(key, fd, value)


def _same(one: str, other: str) -> bool:
    """Compares values: the kernel shows lists with tabs, however they were written; 01 and 0x1 are 1."""
    return [_number(word) for word in one.split()] == [_number(word) for word in other.split()]


def _number(word: str) -> int | str:
    return int(word, 16 if "x" in word else 10) if _NUMBER.fullmatch(word) else word
