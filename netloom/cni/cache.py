"""The result cache: the results of ADD, kept for CHECK, DEL and GC.

The place and the format are those of Go's libcni, so that its tools and netloom share one cache:
`<cache>/results/<network>-<container>-<interface>`, a JSON object of kind `cniCacheV1`. Entries of an older
libcni, bare results, are read. Only writing differs: an entry is written whole and durable, or not at all.

A file name may stand for several attachments (network `a-b` and container `c`, network `a` and container
`b-c`). libcni lets them overwrite each other; here an entry belongs only to the attachment that is written in
it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from . import wire
from .errors import AttachmentKey, CNIError, DecodingFailure, InvalidEnvironment
from .files import Replacement, make_directories, read_document, spare_name, sync_directory
from .names import shortened
from .request import Endpoint
from .result import AnyResult, decode_result, result_from_wire

DEFAULT_CACHE_DIR = "/var/lib/cni"
KIND = "cniCacheV1"

# Besides configuration and arguments, an entry holds a result and names: a few kilobytes.
_ENTRY_RESERVE = 64 * 1024
_NAME_MAX = 254  # of a file name, less the dot of its spare name


class CachedAttachment(Struct, frozen=True):
    """An attachment in the cache, with what is needed to undo it."""

    network: str
    container_id: str
    ifname: str
    netns: str = ""
    config: bytes = b""
    args: tuple[tuple[str, str], ...] = ()
    capability_args: Mapping[str, Any] = {}

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.container_id, self.netns, self.ifname, self.args, self.capability_args)


class _Entry(Struct, frozen=True, rename="camel"):
    """The fields in the order in which Go writes them."""

    kind: str = ""
    container_id: str = ""
    config: bytes | None = None
    if_name: str = ""
    network_name: str = ""
    netns: str | UnsetType | None = UNSET
    cni_args: tuple[tuple[str, str], ...] | UnsetType | None = UNSET
    capability_args: Mapping[str, Any] | UnsetType | None = UNSET
    result: Any = UNSET


class Cache(Struct, frozen=True):
    directory: str = DEFAULT_CACHE_DIR

    @property
    def results(self) -> str:
        return os.path.join(self.directory, "results")

    def path(self, key: AttachmentKey) -> str:
        return os.path.join(self.results, _file_name(key))

    def entry(self, key: AttachmentKey) -> PendingEntry:
        """Returns an entry to be written."""
        return PendingEntry(self, key)

    def remove(self, key: AttachmentKey) -> None:
        """Deletes an entry; a missing one is success. OSError says why it still exists."""
        if self.owner(key) not in (None, key):
            return
        path = self.path(key)
        removed = False
        for name in (path, os.path.join(self.results, spare_name(_file_name(key)))):
            try:
                os.unlink(name)
                removed = True
            except (FileNotFoundError, NotADirectoryError):
                continue
        if removed:
            sync_directory(self.results)

    def result(self, key: AttachmentKey, cni_version: str) -> AnyResult | None:
        """Returns the result of ADD in the configuration's version; None without an entry."""
        found = self._find(key)
        if found is None:
            return None
        data, entry = found
        what = "cached result"
        if entry is None:
            result = decode_result(data, what)
        else:
            result = result_from_wire(entry.result if isinstance(entry.result, dict) else {}, what)
        try:
            return result.as_version(cni_version)
        except CNIError as error:
            raise error.at(
                context=f'failed to convert cached result to config version "{cni_version}"'
            ) from None

    def config(self, key: AttachmentKey) -> CachedAttachment | None:
        """Returns the configuration and arguments that ADD was given; None without an entry."""
        found = self._find(key)
        if found is None:
            return None
        data, entry = found
        if entry is None:
            what = f'failed to read cached network "{key.network}" config'
            wire.decode_as(data, _Entry, what)
            raise DecodingFailure(f"{what}: wrong kind")
        return _attachment(entry)

    def attachments(self, container_id: str = "") -> list[CachedAttachment]:
        """Returns all attachments, or a container's, by file name. Unreadable entries are skipped."""
        try:
            names = sorted(os.listdir(self.results))
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            if name.startswith("."):
                continue
            # The name only preselects: if it contains dashes, it may stand for several attachments.
            marker = f"-{container_id}-"
            if container_id and not 0 < name.find(marker) < len(name) - len(marker):
                continue
            try:
                entry = _entry(read_document(os.path.join(self.results, name)))
            except OSError:
                continue
            if entry is None or not entry.if_name or not entry.network_name:
                continue
            if container_id and entry.container_id != container_id:
                continue
            found.append(_attachment(entry))
        return found

    def _find(self, key: AttachmentKey) -> tuple[bytes, _Entry | None] | None:
        """Returns the file's content, also as an entry if it is one; nothing if it belongs to another
        attachment.
        """
        data = self._read(key)
        if data is None:
            return None
        entry = _entry(data)
        return None if entry is not None and _stated_owner(entry) not in (key, None) else (data, entry)

    def owner(self, key: AttachmentKey) -> AttachmentKey | None:
        """Returns the attachment whose entry is in this attachment's place.

        An entry that names another place belongs to no attachment: its file was moved.
        """
        data = self._read(key)
        entry = None if data is None else _entry(data)
        owner = None if entry is None else _stated_owner(entry)
        return owner if owner is not None and _file_name(owner) == _file_name(key) else None

    def _read(self, key: AttachmentKey) -> bytes | None:
        try:
            return read_document(self.path(key))
        except (OSError, ValueError):
            return None


class PendingEntry:
    """An entry that is being written. Its disk space is reserved before the first plugin runs.

    So an ADD on a full or read-only disk fails while there is nothing to undo.
    """

    def __init__(self, cache: Cache, key: AttachmentKey) -> None:
        self.key = key
        self.known = False  # whether an earlier ADD completed one
        self._cache = cache
        self._file = Replacement(cache.results, _file_name(key))

    def reserve(self, size: int) -> None:
        name = _file_name(self.key)
        if len(os.fsencode(name)) > _NAME_MAX:
            raise InvalidEnvironment(
                "network, container ID and interface name are too long together",
                f"{shortened(name)} is more than {_NAME_MAX} bytes",
            )
        make_directories(self._cache.results, 0o700)
        owner = self._cache.owner(self.key)
        if owner not in (None, self.key):
            raise InvalidEnvironment(f"the cache entry {name} belongs to another attachment", f"to {owner}")
        self.known = owner is not None
        self._file.reserve(size + _ENTRY_RESERVE)

    def commit(self, content: bytes) -> None:
        self._file.commit(content)

    def close(self) -> None:
        self._file.close()


def encode_entry(network: str, endpoint: Endpoint, source: bytes, result: AnyResult) -> bytes:
    return wire.encode(
        _Entry(
            kind=KIND,
            container_id=endpoint.container_id,
            config=source,
            if_name=endpoint.ifname,
            network_name=network,
            netns=endpoint.netns or UNSET,
            cni_args=endpoint.args or UNSET,
            capability_args=wire.with_go_numbers(dict(endpoint.capability_args)) or UNSET,
            result=wire.decode(result.encode(), "result"),
        )
    )


def _entry(data: bytes) -> _Entry | None:
    """Returns an entry of the current format, or None."""
    try:
        entry: _Entry = wire.decode_as(data, _Entry, "cache entry")
    except DecodingFailure:
        return None
    return entry if entry.kind == KIND else None


def _stated_owner(entry: _Entry) -> AttachmentKey | None:
    owner = AttachmentKey(entry.network_name, entry.container_id, entry.if_name)
    return owner if all(owner) else None


def _attachment(entry: _Entry) -> CachedAttachment:
    return CachedAttachment(
        network=entry.network_name,
        container_id=entry.container_id,
        ifname=entry.if_name,
        netns=entry.netns or "",
        config=entry.config or b"",
        args=entry.cni_args or (),
        capability_args=entry.capability_args or {},
    )


def _file_name(key: AttachmentKey) -> str:
    if not all(key):
        raise InvalidEnvironment(
            f'cache file path requires network name ("{key.network}"), '
            f'container ID ("{key.container_id}"), and interface name ("{key.ifname}")'
        )
    return key.entry_name
