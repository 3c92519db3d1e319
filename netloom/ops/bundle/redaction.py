"""Removes secrets, which it recognises by their field's name, by their form, and wherever the same value
occurs again.

Not everything that looks like a secret is one. But a value that is removed by mistake is only missed by the
person who helps; a secret that is left by mistake becomes public.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from ...api.paths import intents_of
from ...cni import CNIError
from ...cni.args import split_pairs
from ...cni.cache import Cache
from ...cni.files import read_document
from ...cni.load import LISTS, SINGLE_PLUGINS
from ...networks.modes import mode_names
from .archive import Asked
from .secret_patterns import (
    NAMING,
    REMOVED,
    VALUES,
    cleaned,
    is_known_argument,
    is_secret_name,
    without_values,
)

_KNOWN_CNI_ARGS = frozenset({"ips", "mac", "mtu", "txQLen", "sysctl"})

# Shorter values match too much other text.
_TELLING = 6
# Common words, which a field with a secret's name may have, and which a reader needs elsewhere.
_COMMON = frozenset({
    "default", "netloom", "enabled", "disabled", "kubernetes", "bridge", *mode_names(), "portmap",
    "firewall", "bandwidth", "tuning", "ipvlan", "macvlan", "host-local", "loopback", "static", "container",
    "network", "networks", "plugins", "cniversion", "address", "sequential", "committed", "required",
    "optional",
})  # fmt: skip
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:/\d+)?")

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BETWEEN = re.compile(r"[\s,;&@:/\"'`\\{}\[\]]+")
_ONE_NAME = re.compile(r"-{0,2}[^\W\d][\w.-]{0,100}")
_ONE_OPTION = re.compile(r"--?[^\W\d][\w.-]{0,100}")
# A string that is one assignment, as in an environment.
_ASSIGNMENT = re.compile(r"\s*-{0,2}([^\W\d][\w.-]{0,100})\s*[:=]\s*(?=\S)")
_URL_WITH_USER = re.compile(r"\s*[A-Za-z][\w+.-]*://(.+)@", re.DOTALL)
# A mapping with one of these is a network or a plugin: its `name` does not name its other fields.
_OF_A_NETWORK = frozenset({"type", "cniVersion", "plugins"})


class Secrets:
    """Removes secrets. A value that was found under a secret's name is from then on removed everywhere."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, value: Any) -> None:
        """Adds all strings in a value as secrets."""
        if isinstance(value, str):
            stripped = value.strip()
            if len(stripped) >= _TELLING and stripped.lower() not in _COMMON and stripped != REMOVED:
                self._learn(stripped)
        elif isinstance(value, Mapping):
            for item in value.values():
                self.learn(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn(item)

    def _learn_around(self, text: str) -> None:
        """Adds the parts of a text with a secret, which may also have a user's name or the rest of a line."""
        self.learn(text.strip("\\\"'`"))
        for piece in _BETWEEN.split(text):
            self.learn(piece)

    def _learn(self, value: str) -> None:
        if not _ADDRESS.fullmatch(value):
            self._values.update((value, *_otherwise_written(value)))
            self._pattern = None

    def learn_from(self, configuration: Any) -> None:
        """Adds the values under secrets' names in a configuration."""
        self._walk(configuration, is_ours=False, learn=True)

    def learn_arguments(self, args: Mapping[str, str]) -> None:
        for name, value in args.items():
            if not is_known_argument(name):
                self.learn(value)

    def learn_from_text(self, text: str) -> None:
        """Like `learn_from`, for text that cannot be parsed."""
        cleaned(text, self._learn_around)

    def document(self, value: Any, *, is_ours: bool) -> Any:
        return self._walk(value, is_ours=is_ours, learn=False)

    def text(self, text: str, *, is_ours: bool = True) -> str:
        return self._without_known("".join(self._pieces(text, is_ours=is_ours, learn=False)))

    def _pieces(self, text: str, *, is_ours: bool, learn: bool) -> Iterator[str]:
        """The cleaned text. Parses lines of JSON, as in a log: there the end of a value is known."""
        prose: list[str] = []
        for line in _LINE.findall(text) if "{" in text or "[" in text else [text]:
            document = _parsed(line)
            if document is None:
                prose.append(line)
                continue
            yield self._cleaned("".join(prose), learn=learn)
            prose.clear()
            clean = self._walk(document, is_ours=is_ours, learn=learn)
            ending = line[len(line.rstrip()) :]
            # Keep the spelling, unless something was removed.
            yield line if clean == document else f"{msgspec.json.encode(clean).decode()}{ending}"
        yield self._cleaned("".join(prose), learn=learn)

    def _cleaned(self, text: str, *, learn: bool) -> str:
        """Removes known secrets first: a part of one may look like another secret."""
        return cleaned(text, self._learn_around) if learn else cleaned(self._without_known(text), None)

    def _without_known(self, text: str) -> str:
        if not self._values:
            return text
        if self._pattern is None:
            longest_first = sorted(self._values, key=lambda value: (-len(value), value))
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._pattern.sub(REMOVED, text)

    def _walk(self, value: Any, *, is_ours: bool, learn: bool, path: tuple[str, ...] = ()) -> Any:
        if isinstance(value, Mapping):
            hidden = frozenset(_named_by_another(value, is_ours=is_ours))
            return {
                self._key(str(key)): self._item(
                    str(key), item, is_ours=is_ours, learn=learn, path=path, is_named=key in hidden
                )
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return self._list(value, is_ours=is_ours, learn=learn, path=path)
        return self._string(value, is_ours=is_ours, learn=learn) if isinstance(value, str) else value

    def _key(self, key: str) -> str:
        """A common word stays, even if a part of it is a part of a secret."""
        return key if key.lower() in _COMMON else self.text(key)

    def _list(self, listed: Sequence[Any], *, is_ours: bool, learn: bool, path: tuple[str, ...]) -> list[Any]:
        """Cleans a list. In a command line, the value of an option follows it."""
        naming = _ONE_OPTION if is_ours else _ONE_NAME
        shown: list[Any] = []
        before: Any = None
        for item in listed:
            if _names_a_secret(before, naming):
                shown.append(self._hidden(item, learn=learn))
            else:
                shown.append(self._walk(item, is_ours=is_ours, learn=learn, path=path))
            before = item
        return shown

    def _item(
        self, key: str, item: Any, *, is_ours: bool, learn: bool, path: tuple[str, ...], is_named: bool
    ) -> Any:
        if is_named or _is_hidden(key, item, is_ours=is_ours, path=path):
            return self._hidden(item, learn=learn)
        if key == "CNI_ARGS" and isinstance(item, str):
            return self._without_known(without_values(item))
        return self._walk(item, is_ours=is_ours, learn=learn, path=(*path, key))

    def _hidden(self, item: Any, *, learn: bool) -> Any:
        if _tells_nothing(item):
            return item
        if learn:
            self.learn(item)
        return REMOVED

    def _string(self, text: str, *, is_ours: bool, learn: bool) -> str:
        if not learn:
            text = self._without_known(text)
        assigned = _ASSIGNMENT.match(text)
        if assigned and is_secret_name(assigned[1]):
            if learn:
                self._learn_around(text[assigned.end() :])
            return self._without_known(f"{text[: assigned.end()]}{REMOVED}")
        user = _URL_WITH_USER.match(text)
        if user:
            if learn:
                self._learn_around(user[1])
                self.learn(user[1].partition(":")[2])
            text = f"{text[: user.start(1)]}{REMOVED}{text[user.end(1) :]}"
        return self._without_known("".join(self._pieces(text, is_ours=is_ours, learn=learn)))


def _is_hidden(key: str, item: Any, *, is_ours: bool, path: tuple[str, ...]) -> bool:
    if _tells_nothing(item):
        return False
    if path[-1:] == ("args",) and key != "cni":
        return True
    if path[-2:] == ("args", "cni"):
        return key not in _KNOWN_CNI_ARGS
    if is_ours and (key == "key" or isinstance(item, int | float)):
        return False  # the key of a set's element, and numbers
    return is_secret_name(key)


def _tells_nothing(item: Any) -> bool:
    return item is None or isinstance(item, bool) or item in ("", [], {})


def _named_by_another(mapping: Mapping[Any, Any], *, is_ours: bool) -> Iterator[Any]:
    """Fields that another field names, as in `{"name": "PASSWORD", "value": "…"}`."""
    if not any(_names_a_secret(mapping.get(key), _ONE_NAME) for key in NAMING):
        return
    is_network = is_ours or not _OF_A_NETWORK.isdisjoint(mapping)
    for key, item in mapping.items():
        is_other = key not in NAMING and not is_network and not isinstance(item, Mapping | list)
        if key in VALUES or is_other:
            yield key


def _names_a_secret(value: Any, naming: re.Pattern[str]) -> bool:
    return isinstance(value, str) and bool(naming.fullmatch(value)) and is_secret_name(value)


def _parsed(line: str) -> Any:
    """The document in a line; None if it is not JSON."""
    bare = line.strip()
    if not (bare.startswith("{") and bare.endswith("}")) and not (
        bare.startswith("[") and bare.endswith("]")
    ):
        return None
    try:
        document = msgspec.json.decode(bare)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) else None


def _otherwise_written(value: str) -> Iterator[str]:
    """A value as it appears in JSON, in JSON within JSON, and in a URL."""
    once = msgspec.json.encode(value.encode(errors="replace").decode()).decode()[1:-1]
    yield once
    yield msgspec.json.encode(once).decode()[1:-1]
    yield quote(value, safe="", errors="replace")


_MANY = 5000
_LARGEST_FILE = 1 << 20


def learn_secrets(asked: Asked, secrets: Secrets) -> None:
    _learn_from_networks(asked, secrets)
    _learn_from_cache(asked, secrets)
    for args, body in _queued(asked):
        secrets.learn_arguments(args)
        _learn_from_source(body, secrets)
    secrets.learn_arguments(_pairs(os.environ.get("CNI_ARGS", "")))


def _learn_from_networks(asked: Asked, secrets: Secrets) -> None:
    """Adds the secrets in networks' files, so that they are removed everywhere."""
    try:
        names = os.listdir(asked.conf_dir)
    except OSError:
        return
    for name in names:
        if not name.endswith(LISTS + SINGLE_PLUGINS):
            continue
        try:
            source = read_document(os.path.join(asked.conf_dir, name), limit=_LARGEST_FILE)
        except (OSError, ValueError):
            continue
        try:
            secrets.learn_from(msgspec.json.decode(source))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            secrets.learn_from_text(source.decode(errors="replace"))


def _learn_from_cache(asked: Asked, secrets: Secrets) -> None:
    try:
        cached = Cache(asked.cache_dir).attachments()
    except OSError:
        return
    sources = set()
    for it in cached[:_MANY]:
        secrets.learn_arguments(dict(it.args))
        sources.add(it.config)
    for source in sources:
        _learn_from_source(source, secrets)


def _learn_from_source(source: bytes, secrets: Secrets) -> None:
    try:
        secrets.learn_from(msgspec.json.decode(source))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return


def _queued(asked: Asked) -> Iterator[tuple[Mapping[str, str], bytes]]:
    """The arguments and configurations of DELs that wait for an agent."""
    from ...api.protocol import ProtocolError, decode, waiting

    for path in waiting(intents_of(asked.socket))[:_MANY]:
        try:
            message = decode(read_document(path))
        except (OSError, ProtocolError):
            continue
        yield _pairs(message.head.environment.get("CNI_ARGS", "")), message.body


def _pairs(text: str) -> dict[str, str]:
    try:
        return dict(split_pairs(text))
    except CNIError:
        return {}
