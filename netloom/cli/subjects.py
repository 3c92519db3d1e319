"""What people mean by a word: a container, a pod, a namespace, an interface, a link of the host.

Whatever `netloom ls` shows of an attachment names it. A word that fits several is not guessed at: they are
listed.
"""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ..cni import AttachmentKey
from ..journal import Attachment, Ledger, search
from ..journal.search import Named
from .netns import DIRECTORIES

Kind: TypeAlias = Literal["container", "pod", "namespace", "attachment"]

_LINK = re.compile(r"(?:loom|lque)[0-9a-f]{11}")


class Subject(NamedTuple):
    """`name` is what names it beyond doubt; `names` are its attachments, the latest last."""

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
    """A word that may mean each of them."""

    def __init__(self, candidates: Sequence[Subject]) -> None:
        super().__init__()
        self.candidates = candidates


def subject_of(args: argparse.Namespace, ledger: Ledger, word: str, *, log: bool = True) -> Subject | None:
    """What a word means; None if nobody has that name. Without `log`, attachments that are there alone."""
    try:
        return _meant(ledger, word, log)
    except _Several as several:
        from .picking import ambiguous

        raise ambiguous(args, word, several.candidates, lambda it: _keys(ledger, it, log)) from None


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


def rows_of(args: argparse.Namespace, ledger: Ledger, word: str) -> list[Attachment]:
    """The attachments that a word means, an address among the words; the oldest first."""
    ip = packed_ip(word)
    if ip is not None:
        holders = [number for _, held, number in ledger.held() if held == ip]
        return [row for number in holders if (row := ledger.by_id(number)) is not None]
    subject = subject_of(args, ledger, word, log=False)
    found = [] if subject is None else [ledger.find(key) for key in subject.keys]
    return sorted((row for row in found if row is not None), key=lambda row: row.id)


def packed_ip(word: str) -> bytes | None:
    """An address of either family, with or without a prefix length or brackets; None if it is none."""
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
    """A container of a network, by the beginning of its ID."""
    network, beginning = parts
    found = search.named(ledger, beginning, log=log) if network and beginning else []
    there = [it for it in found if it.network == network and it.container_id.startswith(beginning)]
    whole = [it for it in there if it.container_id == beginning]
    return _each(whole or there, "container", lambda it: it.container_id)


def _of_link(ledger: Ledger, word: str, log: bool) -> Subject | None:
    """Names of links follow from the key: one that is gone had the same, but for a rare second attempt."""
    if not _LINK.fullmatch(word):
        return None
    from ..networks.names import PREFIX, names_of

    link = PREFIX + word[4:]
    place = ledger.place(link)
    if place is not None:
        return _of_key(ledger, place.key, log)
    if not log:
        return None
    return next((_of_key(ledger, key, log) for key in search.keys(ledger) if names_of(key)[0] == link), None)


def _of_word(ledger: Ledger, word: str, log: bool) -> Subject | None:
    """A whole name of whatever kind goes before the beginning of an ID."""
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
    """The one that there is; several names of the same attachments are one."""
    candidates: dict[frozenset[AttachmentKey], Subject] = {}
    for it in found:
        if it is not None:
            candidates.setdefault(it.keys, it)
    if not candidates:
        return None
    # One that has all of the others' is named by the whole of it, as a pod whose ID is its name.
    widest = max(candidates.values(), key=lambda it: len(it.keys))
    if all(keys <= widest.keys for keys in candidates):
        return widest
    raise _Several(list(candidates.values()))
