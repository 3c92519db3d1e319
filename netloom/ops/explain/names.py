"""Finds what a word stands for: a container, a pod, a namespace, an interface, a link of the host.

Everything that `netloom ls` shows of an attachment names it. For a word that fits several, the error lists
them: it never guesses.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ...api.catalogue import ENTRIES, entry
from ...api.text import short_id
from ...cni import AttachmentKey
from ...journal import Attachment, Ledger, search
from ...journal.search import Named
from ..cni_environment import DIRECTORIES
from ..errors import AmbiguousName, Pick

Kind: TypeAlias = Literal["container", "pod", "namespace", "attachment"]

_LINK = re.compile(r"(?:loom|lque)[0-9a-f]{11}")
_SHOWN = 10
_SIMILAR = 5
# The number of names that are compared letter by letter: the latest.
_MOST = 500
_ALIKE = 0.6
# A word that may be a misspelt code; and how similar it must be, since pods have such names, too.
_CODE = re.compile(r"\d{1,3}|[a-z]+(?:-[a-z]+)+")
_ALIKE_CODE = 0.75
# Length of a common beginning, after which a copied name may be wrong.
_COMMON = 4

Keys: TypeAlias = frozenset[AttachmentKey]
# Returns the attachments that a word means; None if it means none, or is ambiguous.
Means: TypeAlias = Callable[[str], Keys | None]


class Subject(NamedTuple):
    """What a word means: `name` is its unambiguous name, `names` are its attachments, the latest last."""

    kind: Kind
    name: str
    names: tuple[Named, ...]

    @property
    def keys(self) -> frozenset[AttachmentKey]:
        return frozenset(it.key for it in self.names)

    @property
    def containers(self) -> list[str]:
        """The latest last."""
        return list(dict.fromkeys(it.container_id for it in reversed(self.names)))[::-1]


class _Several(Exception):
    """Raised for a word that may mean each of the candidates."""

    def __init__(self, candidates: Sequence[Subject]) -> None:
        super().__init__()
        self.candidates = candidates


def subject_of(ledger: Ledger, word: str, *, log: bool = True) -> Subject | None:
    """Returns what a word means; None if nothing has that name. Without `log`, only current attachments."""
    try:
        return _meant(ledger, word, log)
    except _Several as several:
        raise ambiguous(word, several.candidates, lambda it: _keys(ledger, it, log)) from None


def _keys(ledger: Ledger, word: str, log: bool) -> frozenset[AttachmentKey] | None:
    try:
        subject = _meant(ledger, word, log)
    except _Several:
        return None
    return None if subject is None else subject.keys


def _meant(ledger: Ledger, word: str, log: bool) -> Subject | None:
    if word.startswith("/"):
        return _of_namespace(search.named(ledger, "\0", [word], log=log), [word])
    parts = word.split("/")
    if len(parts) == 3:
        return _of_key(ledger, parts, log)
    if len(parts) == 2:
        pod = _of_pod(search.of_pod(ledger, *parts, log=log))
        return pod or _only(_of_network(ledger, parts, log))
    return _of_link(ledger, word, log) or _of_word(ledger, word, log)


def rows_of(ledger: Ledger, word: str) -> list[Attachment]:
    """Returns the attachments that a word means, which may be an address; the oldest first."""
    ip = packed_ip(word)
    if ip is not None:
        holders = [number for _, held, number in ledger.held() if held == ip]
        return [row for number in holders if (row := ledger.by_id(number)) is not None]
    subject = subject_of(ledger, word, log=False)
    found = [] if subject is None else [ledger.find(key) for key in subject.keys]
    return sorted((row for row in found if row is not None), key=lambda row: row.id)


def packed_ip(word: str) -> bytes | None:
    """Parses an address of either family, with or without prefix length or brackets; None: not an address."""
    text = word.partition("/")[0].strip("[]")
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
    return None


def _of_key(ledger: Ledger, parts: Sequence[str], log: bool) -> Subject | None:
    found = search.of_key(ledger, *parts, log=log)
    exact = [it for it in found if it.container_id == parts[1]]
    return _only(_each(exact or found, "attachment", lambda it: str(it.key)))


def _of_network(ledger: Ledger, parts: Sequence[str], log: bool) -> list[Subject | None]:
    """Finds a container of a network by the beginning of its ID."""
    network, beginning = parts
    found = search.named(ledger, beginning, log=log) if network and beginning else []
    there = [it for it in found if it.network == network and it.container_id.startswith(beginning)]
    whole = [it for it in there if it.container_id == beginning]
    return _each(whole or there, "container", lambda it: it.container_id)


def _of_link(ledger: Ledger, word: str, log: bool) -> Subject | None:
    """Finds past attachments, too: a link's name follows from the key, but for a rare second attempt."""
    if not _LINK.fullmatch(word):
        return None
    from ...networks.names import PREFIX, names_of

    link = PREFIX + word[4:]
    place = ledger.place(link)
    if place is not None:
        return _of_key(ledger, place.key, log)
    if not log:
        return None
    return next((_of_key(ledger, key, log) for key in search.keys(ledger) if names_of(key)[0] == link), None)


def _of_word(ledger: Ledger, word: str, log: bool) -> Subject | None:
    """Prefers a full name of any kind to the beginning of an ID."""
    netns = [f"{directory}/{word}" for directory in DIRECTORIES]
    found = search.named(ledger, word, netns, log=log) if word else []
    whole = [
        *_each((it for it in found if it.container_id == word), "container", lambda it: it.container_id),
        *_pods(it for it in found if it.pod == word),
        _of_namespace(found, netns),
    ]
    begun = (it for it in found if it.container_id.startswith(word))
    return _only(whole) or _only(_each(begun, "container", lambda it: it.container_id))


def _pods(found: Iterable[Named]) -> list[Subject | None]:
    by_namespace: dict[str, list[Named]] = {}
    for it in found:
        by_namespace.setdefault(it.namespace, []).append(it)
    return [_of_pod(of_one) for of_one in by_namespace.values()]


def _of_pod(found: Sequence[Named]) -> Subject | None:
    if not found:
        return None
    # podman has pods without namespaces.
    return Subject("pod", "/".join(filter(None, (found[0].namespace, found[0].pod))), tuple(found))


def _of_namespace(found: Iterable[Named], netns: Sequence[str]) -> Subject | None:
    there = [it for it in found if it.netns in netns]
    return Subject("namespace", there[-1].netns, tuple(there)) if there else None


def _each(found: Iterable[Named], kind: Kind, name_of: Callable[[Named], str]) -> list[Subject | None]:
    by_name: dict[str, list[Named]] = {}
    for it in found:
        by_name.setdefault(name_of(it), []).append(it)
    return [Subject(kind, name, tuple(names)) for name, names in by_name.items()]


def _only(found: Iterable[Subject | None]) -> Subject | None:
    """Returns the only candidate; several names of the same attachments are one."""
    candidates: dict[frozenset[AttachmentKey], Subject] = {}
    for it in found:
        if it is not None:
            candidates.setdefault(it.keys, it)
    if not candidates:
        return None
    # One that includes the attachments of all others stands for them, as a pod whose ID is its name.
    widest = max(candidates.values(), key=lambda it: len(it.keys))
    if all(keys <= widest.keys for keys in candidates):
        return widest
    raise _Several(list(candidates.values()))


def ambiguous(word: str, candidates: Sequence[Subject], means: Means) -> AmbiguousName:
    listed = ", ".join(f"{it.kind} {it.name}" for it in candidates[:_SHOWN])
    more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
    picks = [pick for it in candidates[:_SHOWN] for pick in _picks(it, means)][:_SHOWN]
    text = f"{word!r} may be any of {len(candidates)}: {listed}{more}"
    return AmbiguousName(text, word, picks, more=bool(more))


def _picks(it: Subject, means: Means) -> list[Pick]:
    """Yields one word for the whole candidate, or one for each of its containers, the latest first."""
    whole = _word_for(it.keys, (it.name,), means)
    if whole:
        return [Pick(whole, it.kind if whole == it.name else f"{it.kind} {it.name}")]
    return [pick for container in it.containers[::-1] for pick in _of_container(it, container, means)]


def _of_container(it: Subject, container: str, means: Means) -> Iterator[Pick]:
    what = f"{it.kind} {it.name}"
    keys = frozenset(key for key in it.keys if key.container_id == container)
    word = _word_for(keys, (short_id(container), container), means)
    if word:
        yield Pick(word, what)
        return
    for key in sorted(keys):
        if _word_for(frozenset({key}), (str(key),), means):
            yield Pick(str(key), what)


def _word_for(keys: Keys, words: Sequence[str], means: Means) -> str:
    """Returns the first word that means exactly these attachments; empty if there is none."""
    return next((it for it in words if not _means_something_else(it) and means(it) == keys), "")


def _means_something_else(word: str) -> bool:
    """Whether a word is a code or an address, which `explain` tries first."""

    return entry(word.lower()) is not None or packed_ip(word) is not None


def similar_to(word: str, ledger: Ledger | None) -> list[str]:
    """Suggests similar names. For an ambiguous one, it suggests words that work instead."""
    found: dict[str, None] = {}
    for it in _alike(word, ledger):
        try:
            if ledger is not None:
                subject_of(ledger, it)
            found[it] = None
        except AmbiguousName as several:
            found |= dict.fromkeys(it.word for it in several.picks)
    return list(found)[:_SIMILAR]


def _alike(word: str, ledger: Ledger | None) -> list[str]:
    """Returns similar names of past and current attachments, and codes."""
    from difflib import get_close_matches

    containers: dict[str, None] = {}
    names: dict[str, None] = {}
    # Paths of namespaces with exactly this name in other directories.
    elsewhere: dict[str, None] = {}
    for it in [] if ledger is None else search.alike(ledger, word):
        containers[it.container_id] = None
        if it.pod:
            names["/".join(filter(None, (it.namespace, it.pod)))] = names[it.pod] = None
        name = os.path.basename(it.netns)
        (elsewhere if name == word else names)[it.netns if name == word else name] = None
    near = [it for it in names if it and abs(len(it) - len(word)) <= len(word) // 2 + 1]
    found = [*elsewhere, *get_close_matches(word, near[:_MOST], _SIMILAR, _ALIKE)]
    if _CODE.fullmatch(word.lower()):
        found += get_close_matches(word.lower(), ENTRIES, _SIMILAR, _ALIKE_CODE)
    if len(word) >= _COMMON:
        found += _with_common_beginning(word, containers)
    return [it for it in dict.fromkeys(found) if it != word][:_SIMILAR]


def _with_common_beginning(word: str, names: Iterable[str]) -> list[str]:
    """Returns the names that share the longest beginning with the word."""
    lengths = {it: _common(word, it) for it in names}
    longest = max(lengths.values(), default=0)
    return [it for it, length in lengths.items() if length == longest] if longest >= _COMMON else []


def _common(one: str, other: str) -> int:
    """Returns the length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))
