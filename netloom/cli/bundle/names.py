"""Names that `--anonymous` replaces: found where all members have them, after all was asked.

Whatever arrives while the archive is made is in some of its members. So names are taken from the members
themselves; and from the journal before and after, since a log tells also of those that came last.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from ...cni.load import LISTS, SINGLE_PLUGINS
from .gather import Gathered
from .member import Member

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
# Nothing there is called after a container; and `github.com/x/y` is none.
_WITHOUT = ("versions.json", "kernel/")
_NUMBER = re.compile(r"^\d+[-_]")
# Namespaces of processes are called so, all of them.
_PROC = "/proc/"


class Name(NamedTuple):
    kind: str
    name: str


def of_host() -> Iterator[Name]:
    name = socket.gethostname()
    yield Name("host", name)
    yield Name("host", name.partition(".")[0])


def of_field(field: str, value: str) -> Iterator[Name]:
    """What stands in a field, if it is one that has names."""
    kind = _KINDS.get(field)
    if kind == "netns":
        if not value.startswith(_PROC):
            yield Name(kind, os.path.basename(value))
    elif kind is not None and not value.isdecimal():
        yield Name(kind, value)


def in_gathered(it: Gathered) -> Iterator[Name]:
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
    """Networks' files are called after them, more or less."""
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
        # `networks` of pools are names; those of a status have them.
        is_network = path[-2:] == ("networks", "name")
        yield from of_field("network" if is_network else field, value)
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
        yield from of_field(field, value)
    for network, container, interface in _ATTACHMENT.findall(text):
        if (network + container + interface).isdecimal():
            continue  # a day
        yield Name("net", network)
        yield Name("ctr", container)
    for name in _NETNS.findall(text):
        yield Name("netns", name)
