"""WireGuard devices and their peers.

Keys are in separate files: a plan, which is stored and shown, only names these files.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
import stat
from collections.abc import Iterable
from typing import ClassVar

from ...cni.names import shortened
from ..errors import Conflict, Difference, InvalidObject, KernelError, Refused, compare, missing
from ..netlink import link, wireguard
from ..values import (
    family_of,
    is_passable,
    packed_ip,
    packed_network,
    require_link_name,
    require_range,
    shown_ip,
)
from .base import LinkDeletion, LinkName, Object, Scope, Undo
from .link import LinkObject, find

_PATH_MAX = 4096


class WireguardDevice(LinkObject, frozen=True, tag="wireguard-device"):
    """A device with its key. A device with another key is not ours."""

    name: str
    private_key_file: str
    listen_port: int | None = None
    fwmark: int | None = None

    kind: ClassVar[str] = "wireguard"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("listen_port", self.listen_port, 1, 65535)
        require_range("fwmark", self.fwmark, 0, 0xFFFFFFFF)
        _require_path(self.private_key_file)
        if self.mac is not None:
            raise InvalidObject(f"{self.label}: WireGuard devices have no MAC")

    def apply(self, scope: Scope) -> Undo | None:
        key = _key_of(self.private_key_file)
        undo = super().apply(scope)
        if undo is None:
            return None
        namespace = scope.at(self.on)
        try:
            wireguard.configure(
                namespace.generic,
                namespace.route.index(self.name),
                private_key=key,
                listen_port=self.listen_port,
                fwmark=self.fwmark,
            )
        except BaseException:
            self._delete(scope, link.DELETE, lambda connection: link.by_index(connection.index(self.name)))
            raise
        return undo

    def check(self, scope: Scope) -> list[Difference]:
        differences = super().check(scope)
        if differences and (differences[0].what == "missing" or differences[0].field == "kind"):
            return differences
        namespace = scope.at(self.on)
        try:
            device = wireguard.read_device(namespace.generic, namespace.route.index(self.name))
        except Refused as refused:
            if refused.errno == errno.ENODEV:
                return missing(self.label)
            raise
        ours = device.private_key == _key_of(self.private_key_file)
        fields: tuple[tuple[str, object, object], ...] = (
            ("listen_port", self.listen_port, device.listen_port),
            ("fwmark", self.fwmark, device.fwmark),
        )
        return [
            *differences,
            *compare(self.label, ("private key", "ours", "ours" if ours else "another")),
            *compare(self.label, *(field for field in fields if field[1] is not None)),
        ]

    def remove(self, scope: Scope) -> LinkDeletion | None:
        """Removes the device if netloom made it, which is known without reading a key."""
        departure = super().remove(scope)
        if departure is None:
            return None
        try:
            wanted = _key_of(self.private_key_file)
        except KernelError:
            return departure
        try:
            device = wireguard.read_device(departure.namespace.generic, departure.index)
        except Refused as refused:
            if refused.errno == errno.ENODEV:
                return None
            raise
        if device.private_key is not None and any(device.private_key) and device.private_key != wanted:
            raise Conflict(compare(self.label, ("private key", "ours", "another")))
        return departure


class WireguardPeer(Object, frozen=True, tag="wireguard-peer"):
    """Another node. It may roam: its endpoint is only where to try first, and `check` ignores a change of it.

    A network of another peer is not moved to this one, which the kernel would do silently.
    """

    device: str
    public_key: str
    allowed: tuple[str, ...]
    endpoint: str | None = None
    keepalive: int = 0
    preshared_key_file: str | None = None

    feature: ClassVar[str] = "wireguard"

    def __post_init__(self) -> None:
        require_link_name(self.device)
        _decoded(self.public_key, "public_key")
        for network in self.allowed:
            packed_network(network)
        require_range("keepalive", self.keepalive, 0, 65535)
        _require_path(self.preshared_key_file)
        if self.endpoint is not None:
            _endpoint(self.endpoint)

    @property
    def title(self) -> str:
        return f"wireguard peer {self.public_key[:8]}… of {self.device}"

    def rests_on(self) -> Iterable[LinkName]:
        return ((self.on, self.device),)

    def _wire(self) -> wireguard.Peer:
        psk = None if self.preshared_key_file is None else _key_of(self.preshared_key_file)
        return wireguard.Peer(
            public_key=_decoded(self.public_key, "public_key"),
            preshared_key=psk,
            endpoint=None if self.endpoint is None else _endpoint(self.endpoint),
            keepalive=self.keepalive,
            allowed=tuple(map(_allowed, self.allowed)),
        )

    def _device(self, scope: Scope) -> wireguard.Device | None:
        namespace = scope.at(self.on)
        found = find(namespace, self.device)
        if found is None or found.kind != "wireguard":
            return None
        return wireguard.read_device(namespace.generic, found.index)

    def apply(self, scope: Scope) -> Undo | None:
        device = self._device(scope)
        if device is None:
            raise KernelError(f"cannot add {self.label}: the device does not exist", errno=errno.ENODEV)
        peer = self._wire()
        others = {network: other for other in device.peers for network in other.allowed}
        if any(other.public_key == peer.public_key for other in device.peers):
            return self._keep(scope)
        taken = [network for network in peer.allowed if network in others]
        if taken:
            network = f"{shown_ip(taken[0].packed)}/{taken[0].prefix}"
            holder = base64.b64encode(others[taken[0]].public_key).decode()
            raise Conflict(compare(self.label, (f"holder of {network}", "this peer", f"peer {holder[:8]}…")))
        wireguard.configure(scope.at(self.on).generic, device.index, peers=[wireguard.put_peer(peer)])
        return lambda: self.remove(scope)

    def check(self, scope: Scope) -> list[Difference]:
        device = self._device(scope)
        wanted = self._wire()
        found = device and next((one for one in device.peers if one.public_key == wanted.public_key), None)
        if not found:
            return missing(self.label)
        same_psk = found.preshared_key == wanted.preshared_key
        return compare(
            self.label,
            ("allowed", _shown(wanted.allowed), _shown(found.allowed)),
            ("keepalive", self.keepalive, found.keepalive),
            ("preshared key", "ours", "ours" if same_psk else "another"),
        )

    def remove(self, scope: Scope) -> None:
        device = self._device(scope)
        key = _decoded(self.public_key, "public_key")
        if device is None or all(peer.public_key != key for peer in device.peers):
            return
        change = wireguard.remove_peer(key)
        wireguard.configure(scope.at(self.on).generic, device.index, peers=[change])


def _key_of(path: str) -> bytes:
    shown = shortened(path, 100)
    try:
        # Non-blocking: a FIFO in the place of a key is refused without waiting.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise KernelError(f"cannot read the key file {shown}: it is not a regular file")
            return _decoded(file.read(1024).decode("ascii", "replace").strip(), shown)
    except OSError as cause:
        raise KernelError(f"cannot read the key file {shown}: {cause.strerror}") from None


def _require_path(path: str | None) -> None:
    if path is not None and not (0 < len(path) < _PATH_MAX and is_passable(path)):
        raise InvalidObject(f"{path[:80]!r} is not a path of a key file")


def _decoded(text: str, what: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise InvalidObject(f"{what} is not a WireGuard key: 32 bytes in base64")
    return key


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    packed_ip(host)
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536):
        raise InvalidObject(f"{text[:80]!r} is not an endpoint (address and port), such as [fd00::1]:51820")
    return host, int(port)


def _allowed(text: str) -> wireguard.Allowed:
    packed, prefix = packed_network(text)
    return wireguard.Allowed(family_of(packed), packed, prefix)


def _shown(networks: Iterable[wireguard.Allowed]) -> str:
    return ", ".join(sorted(f"{shown_ip(one.packed)}/{one.prefix}" for one in networks)) or "none"
