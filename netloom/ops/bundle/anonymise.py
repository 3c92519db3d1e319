"""`--anonymous`: pseudonyms for addresses, MACs, pods, containers and networks.

A name has the same pseudonym everywhere in one archive. Pseudonyms are derived from a random number that is
not stored, so that trying all addresses reveals nothing. Names are taken from the members, after all sources
were asked, and from the journal before and after that: a log also names the latest attachments.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from ...cni.load import LISTS, SINGLE_PLUGINS
from ...kernel.values import shown_ip
from ...networks.modes import next_hops
from ...networks.names import HOST6, HOST_MAC
from .archive import Gathered, Member

# Fields of documents, columns of the journal, labels of metrics, and arguments of CNI.
_KINDS = {
    "network": "net", "networks": "net", "pod": "pod", "namespace": "ns", "uid": "uid", "container_id": "ctr",
    "containerID": "ctr", "container": "ctr", "netns": "netns", "K8S_POD_NAME": "pod",
    "K8S_POD_NAMESPACE": "ns", "K8S_POD_UID": "uid", "K8S_POD_INFRA_CONTAINER_ID": "ctr",
}  # fmt: skip
_LABELLED = re.compile(
    rf"(?<![A-Za-z0-9])({'|'.join(_KINDS)})(?:=\\*[\"']?|\\*[\"']\s*:\s*\\*[\"'])([^\s\"'\\;,}}\]]+)"
)
# An attachment as messages write it: network, container, interface.
_ATTACHMENT = re.compile(r"(?<![\w./-])([\w.-]{1,200})/([\w.-]{1,200})/([\w.@-]{1,15})(?![\w/])")
_NETNS = re.compile(r"/netns/([\w.-]+)")
_NETWORK_NAME = re.compile(r"\"name\"\s*:\s*\"([^\"\\]+)\"")
_NETWORKS = "networks/"
# These members name no containers, and `github.com/x/y` must not be taken for an attachment.
_WITHOUT = ("versions.json", "kernel/")
_NUMBER = re.compile(r"^\d+[-_]")
# The namespaces of processes are here, and all have the same name.
_PROC = "/proc/"


class Name(NamedTuple):
    kind: str
    name: str


def names_of_host() -> Iterator[Name]:
    name = socket.gethostname()
    yield Name("host", name)
    yield Name("host", name.partition(".")[0])


def names_of_field(field: str, value: str) -> Iterator[Name]:
    """The name in a field, if the field is one that has names."""
    kind = _KINDS.get(field)
    if kind == "netns":
        if not value.startswith(_PROC):
            yield Name(kind, os.path.basename(value))
    elif kind is not None and not value.isdecimal():
        yield Name(kind, value)


def names_in(it: Gathered) -> Iterator[Name]:
    found = it.found
    if found.name.startswith(_WITHOUT):
        return
    yield from _in_file_name(found.name)
    yield from _in_text(found.error)
    if not isinstance(found, Member):
        return
    if found.text is not None:
        yield from _in_lines(found.text)
    yield from _in_document(found.rows if found.rows is not None else found.document)
    if found.name.startswith(_NETWORKS) and not found.is_ours:
        if isinstance(found.document, Mapping) and isinstance(found.document.get("name"), str):
            yield Name("net", found.document["name"])
        for name in _NETWORK_NAME.findall(found.text or ""):
            yield Name("net", name)


def _in_file_name(path: str) -> Iterator[Name]:
    """Names of networks, after which their files are usually named."""
    if path.startswith(_NETWORKS) and path.endswith(LISTS + SINGLE_PLUGINS):
        stem = os.path.splitext(path.removeprefix(_NETWORKS))[0]
        if stem != "listing":
            yield Name("net", _NUMBER.sub("", stem))


def _in_document(value: Any, path: tuple[str, ...] = ()) -> Iterator[Name]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _in_document(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _in_document(item, path)
    elif isinstance(value, str):
        field = path[-1] if path else ""
        # In a pool, `networks` has names; in a status, it has objects with a name.
        is_network = path[-2:] == ("networks", "name")
        yield from names_of_field("network" if is_network else field, value)
        yield from _in_text(value)


def _in_lines(text: str) -> Iterator[Name]:
    for line in text.split("\n"):
        document: Any = None
        if line.startswith("{"):
            try:
                document = msgspec.json.decode(line)
            except (ValueError, RecursionError):
                document = None
        yield from _in_document(document) if document is not None else _in_text(line)


def _in_text(text: str) -> Iterator[Name]:
    for field, value in _LABELLED.findall(text):
        yield from names_of_field(field, value)
    for network, container, interface in _ATTACHMENT.findall(text):
        if (network + container + interface).isdecimal():
            continue  # a date
        yield Name("net", network)
        yield Name("ctr", container)
    for name in _NETNS.findall(text):
        yield Name("netns", name)


_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?![\w:])"
)

# Every machine or every node of netloom has these: they identify nothing, and a reader needs them.
_EVERYBODYS = frozenset({"0.0.0.0", "255.255.255.255", "::", "::1", HOST6}) | next_hops()
_EVERYBODYS_NAMES = frozenset({
    "netloom", "default", "kube-system", "lo", "eth0", "localhost", "net", "netns", "inet", "ip", "ip6",
    "ipv4", "ipv6", "node", "host", "pod", "container", "network", "proc", "run", "var",
})  # fmt: skip
_EVERYBODYS_MACS = frozenset({HOST_MAC, "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"})
# Shorter names match too much other text.
_TELLING = 3
_DIGITS = 8


class Pseudonyms:
    def __init__(self) -> None:
        self._salt = os.urandom(16)
        self._names: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, kind: str, name: str) -> None:
        """Adds a name that gets a pseudonym, such as `pod-…`. One of two letters is only replaced where it
        stands alone, or between slashes or quotes."""
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
    """A pattern for any of the names, the longest first; without names, it matches nothing."""
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return "|".join(map(re.escape, longest_first)) or r"(?!)"


def _is_everybodys(packed: bytes) -> bool:
    """Whether it is a loopback or multicast address."""
    return packed[0] in (127, *range(224, 240)) if len(packed) == 4 else packed[0] == 0xFF
