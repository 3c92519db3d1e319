"""Leaks on this node: of containers that were deleted, and of operations that did not finish."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ...api.paths import Place, intents_of
from ...api.protocol import SUFFIX, ProtocolError, read_intent
from ...api.protocol import waiting as waiting_in
from ...cni import AttachmentKey
from ...cni.cache import Cache
from ...journal import AttachmentPlace, Ledger, boottime
from ...kernel import InvalidNamespace, Namespace
from ...kernel.objects.link import link_names
from ...networks import names
from ...networks.config import LONGEST_COOLDOWN
from ..control.asking import ask
from ..control.process import holder
from ..journals.reading import ledger
from ..runtimes.result_owners import is_namespace, is_ours_alone
from . import table_contents as contents
from .namespaces import boot_id, leads_there

Kind: TypeAlias = Literal["attachment", "unfinished", "queued DEL", "element", "chain", "link", "rested"]

_UNREADABLE = ".unreadable"


class Leak(Struct, frozen=True):
    """Something on the node that no container needs any longer, or may not need."""

    kind: Annotated[
        Kind,
        Meta(
            description="an attachment whose container was deleted, an unfinished attachment, a queued DEL, "
            "an element or a chain of the nft table, a link, addresses whose cooldown is over"
        ),
    ]
    subject: Annotated[str, Meta(description="its name: an attachment, a link, a file")]
    reason: Annotated[str, Meta(description="why it is a leak")]
    kept: Annotated[
        str, Meta(description="why netloom keeps it, and what to do; empty: netloom removes it")
    ] = ""


class Collected(Struct, frozen=True):
    """Leaks that were removed, and leaks that remain."""

    removed: list[Leak]
    left: list[Leak]


def never_busy(_: AttachmentKey) -> bool:
    return False


def leaks(
    ledger: Ledger,
    host: Namespace,
    waiting: str,
    boot_id: str,
    is_busy: Callable[[AttachmentKey], bool] = never_busy,
) -> list[Leak]:
    """Lists leaks. `waiting` is the directory of queued DELs; `is_busy` says that a request is working on it.

    It reads the kernel before the journal, which has everything before the kernel does: an object that is
    made meanwhile is no leak.
    """
    links = set(link_names(host))
    elements, chains = contents.there(host), contents.chains_there(host)
    planned = [it for plan in ledger.plans() for it in contents.of_plan(plan)]
    places = [it for it in ledger.places() if not is_busy(it.key)]
    strays = contents.strays(elements, links, planned)
    return [
        *_queued(waiting),
        *_attachments(ledger, places, links, boot_id),
        *(Leak("element", f"{it.set} {' . '.join(it.key)}", "no attachment uses it") for it in strays),
        *(
            Leak("chain", name, "no attachment uses it")
            for name in contents.unused(chains, set(elements) - set(strays), planned)
        ),
        *_links(ledger, links),
        *_rested(ledger),
    ]


def _attachments(
    ledger: Ledger, places: Iterable[AttachmentPlace], links: set[str], boot_id: str
) -> Iterable[Leak]:
    known = ledger.fact("boot_id")
    for it in places:
        key = str(it.key)
        if known not in (None, boot_id):
            yield Leak("attachment", key, "it was made in another boot")
        elif it.state != "committed":
            yield Leak("unfinished", key, f"it is {it.state}, and no request is working on it")
        elif it.host_link in links:
            if not leads_there(it):
                yield Leak(
                    "attachment",
                    key,
                    f"{it.netns} no longer leads to its namespace",
                    f"a process holds that namespace, since {it.host_link} still exists; "
                    f"`netloom inspect {key}` names it",
                )
        elif is_dead(ledger, it):
            yield Leak("attachment", key, f"its namespace {it.netns} was deleted")


def is_dead(ledger: Ledger, place: AttachmentPlace) -> bool:
    """Whether the namespace of an attachment without a link was deleted, even if its inode is reused."""
    if not leads_there(place):
        return True
    row = ledger.by_id(place.id)
    if row is None or not row.netns_cookie:
        return False
    try:
        with Namespace.open(place.netns) as found:
            return found.cookie not in (0, row.netns_cookie)
    except InvalidNamespace:
        return False  # it is being deleted; the next run notices


def _queued(directory: str) -> Iterable[Leak]:
    for path in waiting_in(directory):
        try:
            environment = read_intent(path).head.environment
        except FileNotFoundError:  # the agent did it meanwhile
            continue
        except (OSError, ProtocolError):
            yield _unreadable(path)
            continue
        named = f"{environment.get('CNI_CONTAINERID', '')}/{environment.get('CNI_IFNAME', '')}"
        yield Leak("queued DEL", named, f"it arrived while no agent answered, and waits as {path}")
    yield from map(_unreadable, _set_aside(directory))


def _unreadable(path: str) -> Leak:
    advice = "inspect it, and delete it by hand: nothing needs it"
    return Leak("queued DEL", path, "it cannot be read", advice)


def _set_aside(directory: str) -> list[str]:
    """Lists DELs that an agent could not read, and entries with the name of a DEL that are not files."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                it.path
                for it in entries
                if it.name.endswith(_UNREADABLE)
                or (it.name.endswith(SUFFIX) and not it.is_file(follow_symlinks=False))
            )
    except OSError:
        return []


def _links(ledger: Ledger, links: set[str]) -> Iterable[Leak]:
    """A container may use the other end of a pair. A queue whose link was deleted has no user."""
    for name in sorted(links):
        host_link = names.host_link_of(name)
        if host_link is None or ledger.has_link(host_link):
            continue
        if host_link in links:
            reason, kept = (
                "it is not in the journal (orphaned)",
                f"a container may use it; if none does, `ip link del {host_link}` removes it",
            )
            yield Leak("link", name, reason, kept)
        else:
            yield Leak("link", name, f"its link {host_link} was deleted")


def stray_queues(ledger: Ledger, links: Iterable[str]) -> list[str]:
    """Returns queues of bandwidth limits whose attachments and links were deleted."""
    return [it.subject for it in _links(ledger, set(links)) if not it.kept]


def _rested(ledger: Ledger) -> Iterable[Leak]:
    over = boottime() - LONGEST_COOLDOWN
    query = "SELECT count(*) FROM address WHERE released < ?"
    (count,) = ledger.connection.execute(query, (over,)).fetchone()
    if count:
        yield Leak(
            "rested",
            f"{count} addresses",
            "their cooldown is over: they are free, and their rows can be deleted",
        )


# Seconds before further looks: work in progress looks like a leak until it is done.
_MOMENTS = (0.3, 0.5)
_PATIENCE = 120.0
_OF_ATTACHMENTS = ("attachment", "unfinished")


class Garbage(Struct, frozen=True, rename={"dry_run": "dryRun"}):
    """Leaks on this node."""

    dry_run: Annotated[bool, Meta(description="whether leaks were only listed")]
    removed: Annotated[
        list[Leak], Meta(description="leaks that were removed; with --dry-run: that would be removed")
    ]
    kept: Annotated[list[Leak], Meta(description="leaks that may be in use, which netloom keeps")]
    left: Annotated[list[Leak], Meta(description="leaks that could not be removed")]
    results: Annotated[
        list[str], Meta(description="files in the CNI cache that are removed with the attachments")
    ]


def listed(place: Place, cache_dir: str) -> Garbage:
    """Lists what would be collected. It needs no agent, and changes nothing."""
    found = _leaks(place)
    is_served = holder(Place(place.state_dir, place.socket)) is not None
    for moment in _MOMENTS if found and is_served else ():
        time.sleep(moment)
        again = _leaks(place)
        found = [it for it in found if it in again]
    going, kept = _parted(found)
    return Garbage(True, going, kept, [], [it.path for it in _results_of(cache_dir, going)])


def collected(place: Place, cache_dir: str) -> Garbage:
    """Has the agent collect leaks, and removes the cached results of the attachments that it released."""
    answer = msgspec.json.decode(ask(place, "collect", timeout=_PATIENCE), type=Collected)
    left, kept = _parted(answer.left)
    with ledger(place) as journal:
        gone = [it for it in answer.removed if journal is None or not _is_there(journal, it)]
    results = [it.path for it in _results_of(cache_dir, gone) if it.remove()]
    return Garbage(False, answer.removed, kept, left, results)


def _leaks(place: Place) -> list[Leak]:
    with ledger(place) as journal, Namespace.own() as host:
        if journal is None:
            return []
        return leaks(journal, host, intents_of(place.socket), boot_id())


def _parted(found: Iterable[Leak]) -> tuple[list[Leak], list[Leak]]:
    """Returns leaks to remove, and leaks to keep."""
    every = list(found)
    return [it for it in every if not it.kept], [it for it in every if it.kept]


class CachedResult(Struct, frozen=True):
    """The file in the CNI cache of an attachment that was or will be released."""

    cache: Cache
    key: AttachmentKey

    @property
    def path(self) -> str:
        return self.cache.path(self.key)

    def remove(self) -> bool:
        try:
            self.cache.remove(self.key)
        except OSError:
            return False
        return True


def _results_of(cache_dir: str, released: Iterable[Leak]) -> Iterator[CachedResult]:
    cache = Cache(cache_dir)
    for key in filter(None, map(_key, released)):
        # Only a file that names this attachment, and not one of a new container with the same name.
        found = cache.config(key) if cache.owner(key) == key else None
        if found is not None and is_ours_alone(found) and not (found.netns and is_namespace(found.netns)):
            yield CachedResult(cache, key)


def _is_there(ledger: Ledger, it: Leak) -> bool:
    """Whether an attachment of this name was made meanwhile."""
    key = _key(it)
    return key is not None and ledger.find(key) is not None


def _key(it: Leak) -> AttachmentKey | None:
    parts = it.subject.split("/")
    return AttachmentKey(*parts) if it.kind in _OF_ATTACHMENTS and len(parts) == 3 else None
