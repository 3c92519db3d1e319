"""Other names for addresses, MACs, pods and networks: the same for the same within one archive, and of no use
to anybody outside it.

They follow from a number that is thrown away, so that nobody can try out all addresses there are.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from ...kernel.values import shown_ip
from ...networks.modes.routed import GATEWAY4, GATEWAY6
from ...networks.names import HOST_MAC
from ...networks.table import HOST6

_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?![\w:])"
)

# Those that every machine has, or every node of netloom: they tell nothing, and a reader needs them.
_EVERYBODYS = frozenset({"0.0.0.0", "255.255.255.255", "::", "::1", GATEWAY4, GATEWAY6, HOST6})
_EVERYBODYS_NAMES = frozenset({
    "netloom", "default", "kube-system", "lo", "eth0", "localhost", "net", "netns", "inet", "ip", "ip6",
    "ipv4", "ipv6", "node", "host", "pod", "container", "network", "proc", "run", "var",
})  # fmt: skip
_EVERYBODYS_MACS = frozenset({HOST_MAC, "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})
# A name that is shorter is found in too much that is none.
_TELLING = 3
_DIGITS = 8


class Pseudonyms:
    def __init__(self) -> None:
        self._salt = os.urandom(16)
        self._names: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, kind: str, name: str) -> None:
        """A name that is to have another one, such as `pod-…`. One of two letters, where it stands alone or
        between slashes or quotes."""
        if not name or name in _EVERYBODYS_NAMES:
            return
        names = self._names if len(name) >= _TELLING else self._short
        if names.setdefault(name, made := self._made(kind, name)) is made:
            self._pattern = None

    def document(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.document(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(item) for item in value]
        if not isinstance(value, str):
            return value
        return self._short[value] if value in self._short else self.text(value)

    def text(self, text: str) -> str:
        text = self._without_names(text)
        text = _MAC.sub(lambda found: self._mac(found[0]), text)
        text = _IPV6.sub(lambda found: self._ip(found[0]), text)
        return _IPV4.sub(lambda found: self._ip(found[0]), text)

    def _without_names(self, text: str) -> str:
        if not self._names and not self._short:
            return text
        if self._pattern is None:
            self._pattern = re.compile(
                rf"(?<![A-Za-z0-9])(?:{_any_of(self._names)})(?![A-Za-z0-9])"
                rf"|(?<=[/\"'=])(?:{_any_of(self._short)})(?=[/\"';])"
                rf"|(?<![\w./-])(?:{_any_of(self._short)})(?=/[\w.-]+/)"
            )
        return self._pattern.sub(lambda found: self._names.get(found[0]) or self._short[found[0]], text)

    def _mac(self, text: str) -> str:
        return text if text.lower() in _EVERYBODYS_MACS else self._made("mac", text.lower())

    def _ip(self, text: str) -> str:
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        try:
            packed = socket.inet_pton(family, text)
        except OSError:
            return text
        if shown_ip(packed) in _EVERYBODYS or _is_everybodys(packed):
            return text
        return self._made("ip4" if family == socket.AF_INET else "ip6", shown_ip(packed))

    def _made(self, kind: str, value: str) -> str:
        digest = hmac.new(self._salt, f"{kind}\0{value}".encode(errors="surrogateescape"), hashlib.sha256)
        return f"{kind}-{digest.hexdigest()[:_DIGITS]}"


def _any_of(names: Iterable[str]) -> str:
    """The longest first; without any, what matches nothing."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return "|".join(map(re.escape, longest_first)) or r"(?!)"


def _is_everybodys(packed: bytes) -> bool:
    """The loopback's, and groups."""
    return packed[0] in (127, *range(224, 240)) if len(packed) == 4 else packed[0] == 0xFF
