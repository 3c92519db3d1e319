"""Names on this machine that a command may be given. What cannot be read has none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from .place import CONF_DIR, STATE_DIR

_NETNS = "/run/netns"
_ENDINGS = (".conflist", ".conf", ".json")
_LARGEST = 1 << 20

Given = Mapping[str, str]


def of(command: str, name: str, given: Given, last: str) -> list[str]:
    """For the argument of that name; `given` are values that other options have already."""
    known = _OF_COMMAND.get((command, name)) or _KNOWN.get(name)
    return list(dict.fromkeys(known(given, last))) if known else []


def _networks(given: Given, _: str) -> Iterator[str]:
    for document in _configured(given):
        if isinstance(document.get("name"), str):
            yield document["name"]


def _pools(given: Given, _: str) -> Iterator[str]:
    """Those that networks have already, for who wants to keep them."""
    for document in _configured(given):
        for plugin in document.get("plugins", ()):
            yield from (pool["cidr"] for pool in plugin.get("pools", ()))


def _configured(given: Given) -> Iterator[dict[str, Any]]:
    directory = given.get("conf_dir") or os.environ.get("NETCONFPATH") or CONF_DIR
    # Lists go before single plugins, each by name, as runtimes take them.
    files = [name for name in _listed(directory) if name.endswith(_ENDINGS)]
    for name in sorted(files, key=lambda it: (not it.endswith(_ENDINGS[0]), it)):
        with suppress(OSError, ValueError, RecursionError):
            with open(os.path.join(directory, name), "rb") as file:
                document = json.loads(file.read(_LARGEST))
            if isinstance(document, dict):
                yield document


def _namespaces(_: Given, last: str) -> Iterator[str]:
    """By name, as `ip netns` has them; by path for who begins one."""
    for name in _listed(_NETNS):
        yield os.path.join(_NETNS, name) if last.startswith("/") else name


def _plugins(_: Given, __: str) -> Iterator[str]:
    from .cni.target import plugin_dirs

    for directory in plugin_dirs():
        yield from _listed(directory)


def _cached(given: Given, _: str) -> Iterator[str]:
    from ..cni import Runtime

    for it in Runtime([], cache_dir=given.get("cache_dir") or "/var/lib/cni").attachments():
        yield it.container_id


def _cached_interfaces(given: Given, _: str) -> Iterator[str]:
    from ..cni import Runtime

    for it in Runtime([], cache_dir=given.get("cache_dir") or "/var/lib/cni").attachments():
        yield f"{it.container_id}:{it.ifname}"


def _containers(given: Given, last: str) -> Iterator[str]:
    for (container,) in _rows(given, "SELECT DISTINCT container_id FROM attachment ORDER BY id"):
        yield container
    with suppress(Exception):
        yield from _cached(given, last)


def _attached(given: Given, last: str) -> Iterator[str]:
    """Containers and pods; attachments themselves for who has begun one, since they are long."""
    query = "SELECT network, container_id, ifname, namespace, pod FROM attachment ORDER BY id"
    for network, container, ifname, namespace, pod in _rows(given, query):
        yield container
        if pod:
            yield f"{namespace}/{pod}" if namespace else pod
        if "/" in last:
            yield f"{network}/{container}/{ifname}"


def _addresses(given: Given, _: str) -> Iterator[str]:
    from .views import shown_ip

    for (ip,) in _rows(given, "SELECT ip FROM address ORDER BY length(ip), ip"):
        yield shown_ip(ip)


def _explained(given: Given, last: str) -> Iterator[str]:
    """Whatever has a page or a history: what is attached, addresses, and codes."""
    from ..api.catalogue import ENTRIES

    yield from _attached(given, last)
    if last:
        yield from _addresses(given, last)
    yield from ENTRIES


def _checked(given: Given, last: str) -> Iterator[str]:
    yield from _networks(given, last)
    yield from _attached(given, last)


def _verbs(given: Given, _: str) -> Iterator[str]:
    for (verb,) in _rows(given, "SELECT DISTINCT verb FROM operation ORDER BY verb"):
        yield verb


def _rows(given: Given, query: str) -> list[tuple[Any, ...]]:
    """Straight from the journal's file: to open it as the other commands do takes longer than all else."""
    import sqlite3
    from urllib.parse import quote

    state_dir = given.get("state_dir") or os.environ.get("NETLOOM_STATE_DIR") or STATE_DIR
    file = os.path.abspath(os.path.join(state_dir, "journal.db"))
    if not os.path.isfile(file):  # nobody writes to a FIFO that is there
        return []
    path = quote(file)
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=0.05)) as connection:
            return list(connection.execute(query))
    except sqlite3.Error:
        return []


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


Suggest = Callable[[Given, str], Iterator[str]]

# By the name of the argument, and where that means something else, by the command, too.
_KNOWN: dict[str, Suggest] = {
    "network": _networks,
    "netns": _namespaces,
    "plugin": _plugins,
    "container": _cached,
    "container_id": _containers,
    "valid": _cached_interfaces,
    "name": _attached,
    "pools": _pools,
    "verb": _verbs,
}
_OF_COMMAND: dict[tuple[str, str], Suggest] = {
    ("check", "name"): _checked,
    ("explain", "name"): _explained,
}
