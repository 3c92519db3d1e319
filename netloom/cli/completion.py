"""Candidates for shell completion, and suggestions for misspelt words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from ..api.paths import DEFAULT_CONF_DIR, DEFAULT_STATE_DIR, journal_of
from .terminal.output import OutputFailed, ReaderGone, say
from .tree import TREE, Group, resolve

# Words below this ratio are similar by chance, such as --once and --socket.
_ALIKE = 0.7


def meant(unknown: Iterable[str], known: Iterable[str], command: str) -> str:
    """Returns a suggestion if one of the words resembles a known one; else an empty string.

    >>> meant(["--jsno"], ["--json", "--pool"], "netloom up")
    'did you mean --json? `netloom up --help` shows the options'
    """
    # Leading dashes would make all options similar.
    candidates = {it.lstrip("-"): it for it in known}
    found = (get_close_matches(word.lstrip("-"), candidates, n=1, cutoff=_ALIKE) for word in unknown)
    close = list(dict.fromkeys(candidates[it] for matches in found for it in matches))
    if not close:
        return ""
    return f"did you mean {' and '.join(close)}? `{command} --help` shows the options"


_GRAMMAR = os.path.join(os.path.dirname(__file__), "grammar.json")


def print_candidates(words: Sequence[str]) -> int:
    """Prints the candidates for the last word, one per line, for the scripts of `completion`."""
    *before, last = words or [""]
    try:
        say(*_fitting(candidates(before, last), last))
    except (ReaderGone, OutputFailed):
        raise
    except Exception:
        return 0
    return 0


def _fitting(found: Iterable[str], last: str) -> list[str]:
    """Filters by prefix, and offers options only after a dash."""
    fitting = [it for it in dict.fromkeys(found) if it.startswith(last)]
    return [it for it in fitting if last.startswith("-") or not it.startswith("-")]


def candidates(before: list[str], last: str = "") -> list[str]:
    path, node, rest = resolve(before)
    if node is None:
        return [] if before else [*TREE, "--help", "--version"]
    if isinstance(node, Group):
        waiting_for_value = bool(before) and before[-1] in node.valued
        unknown = bool(rest) and not rest[0].startswith("-")
        return [] if unknown or waiting_for_value else [*node.commands, "--help"]
    with open(_GRAMMAR, "rb") as file:
        grammar = json.load(file)[" ".join(path)]
    return _of_command(" ".join(path), grammar, rest, last)


def _of_command(command: str, grammar: dict[str, Any], rest: list[str], last: str) -> list[str]:
    options: dict[str, dict[str, Any]] = grammar["options"]
    given = _given(options, rest)
    if rest and rest[-1] in options and options[rest[-1]]["value"]:
        return _values(command, options[rest[-1]], given, last)
    count = _positionals(options, rest)
    positionals: list[dict[str, Any]] = grammar["positionals"]
    if positionals and positionals[-1]["repeats"]:
        count = min(count, len(positionals) - 1)
    values = _values(command, positionals[count], given, last) if count < len(positionals) else []
    return [*values, *options]


def _values(command: str, wanted: dict[str, Any], given: dict[str, str], last: str) -> list[str]:
    return wanted["choices"] or suggestions(command, wanted["name"], given, last)


def _given(options: dict[str, dict[str, Any]], rest: list[str]) -> dict[str, str]:
    """Returns the values of given options, since another state directory has other attachments."""
    pairs = pairwise(rest)
    return {
        options[word]["name"]: value for word, value in pairs if word in options and options[word]["value"]
    }


def _positionals(options: dict[str, dict[str, Any]], rest: list[str]) -> int:
    count = 0
    for previous, word in zip(["", *rest], rest, strict=False):
        is_value = previous in options and options[previous]["value"]
        count += not word.startswith("-") and not is_value
    return count


_NETNS = "/run/netns"
_ENDINGS = (".conflist", ".conf", ".json")
_LARGEST = 1 << 20

Given = Mapping[str, str]


def suggestions(command: str, name: str, given: Given, last: str) -> list[str]:
    """Returns candidates for the argument `name`; `given` are the values of other options."""
    known = _OF_COMMAND.get((command, name)) or _KNOWN.get(name)
    return list(dict.fromkeys(known(given, last))) if known else []


def _networks(given: Given, _: str) -> Iterator[str]:
    for document in _configured(given):
        if isinstance(document.get("name"), str):
            yield document["name"]


def _pools(given: Given, _: str) -> Iterator[str]:
    """Yields the pools of configured networks, for users who want to keep them."""
    for document in _configured(given):
        for plugin in document.get("plugins", ()):
            yield from (pool["cidr"] for pool in plugin.get("pools", ()))


def _configured(given: Given) -> Iterator[dict[str, Any]]:
    directory = given.get("conf_dir") or os.environ.get("NETCONFPATH") or DEFAULT_CONF_DIR
    # Lists come before single plugins, each by name, in the order of runtimes.
    files = [name for name in _listed(directory) if name.endswith(_ENDINGS)]
    for name in sorted(files, key=lambda it: (not it.endswith(_ENDINGS[0]), it)):
        with suppress(OSError, ValueError, RecursionError):
            with open(os.path.join(directory, name), "rb") as file:
                document = json.loads(file.read(_LARGEST))
            if isinstance(document, dict):
                yield document


def _namespaces(_: Given, last: str) -> Iterator[str]:
    """Yields names, as `ip netns` does, or paths if the word begins with a slash."""
    for name in _listed(_NETNS):
        yield os.path.join(_NETNS, name) if last.startswith("/") else name


def _plugins(_: Given, __: str) -> Iterator[str]:
    from ..ops.cni_environment import plugin_dirs

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
    """Yields containers and pods; and attachments, which are long, only after a slash."""
    query = "SELECT network, container_id, ifname, namespace, pod FROM attachment ORDER BY id"
    for network, container, ifname, namespace, pod in _rows(given, query):
        yield container
        if pod:
            yield f"{namespace}/{pod}" if namespace else pod
        if "/" in last:
            yield f"{network}/{container}/{ifname}"


def _addresses(given: Given, _: str) -> Iterator[str]:
    from ..api.text import shown_ip

    for (ip,) in _rows(given, "SELECT ip FROM address ORDER BY length(ip), ip"):
        yield shown_ip(ip)


def _explained(given: Given, last: str) -> Iterator[str]:
    """Yields what `explain` accepts: attachments, addresses and codes."""
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
    """Reads the journal's file directly, since opening it as other commands do is too slow here."""
    import sqlite3
    from urllib.parse import quote

    state_dir = given.get("state_dir") or os.environ.get("NETLOOM_STATE_DIR") or DEFAULT_STATE_DIR
    file = os.path.abspath(journal_of(state_dir))
    if not os.path.isfile(file):  # opening a FIFO would block
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

# By the argument's name; `_OF_COMMAND` has the commands where a name means something else.
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
