"""What leaked on this node: of containers that are gone, and of operations that did not finish."""

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


class Leftover(Struct, frozen=True):
    """One thing that nobody needs any more, or seems not to."""

    kind: Annotated[
        Kind,
        Meta(
            description="an attachment whose container is gone, one that is half made or half gone, a DEL "
            "that waits, an element or a chain of the nft table, a link, addresses that have rested"
        ),
    ]
    subject: Annotated[str, Meta(description="its name: an attachment, a link, a file")]
    reason: Annotated[str, Meta(description="why it is left over")]
    kept: Annotated[str, Meta(description="why it stays, and what to do; empty: it goes")] = ""


class Collected(Struct, frozen=True):
    """What went, and what is left all the same."""

    removed: list[Leftover]
    left: list[Leftover]


def nobody(_: AttachmentKey) -> bool:
    return False


def leftovers(
    ledger: Ledger,
    host: Namespace,
    waiting: str,
    boot_id: str,
    is_busy: Callable[[AttachmentKey], bool] = nobody,
) -> list[Leftover]:
    """`waiting` is the directory of DELs that wait; `is_busy` is whether somebody is at work on one.

    The kernel is looked at first: what is made meanwhile is in the journal before it is in the kernel.
    """
    links = set(link_names(host))
    elements, chains = contents.there(host), contents.chains_there(host)
    planned = [it for plan in ledger.plans() for it in contents.of_plan(plan)]
    places = [it for it in ledger.places() if not is_busy(it.key)]
    strays = contents.strays(elements, links, planned)
    return [
        *_queued(waiting),
        *_attachments(ledger, places, links, boot_id),
        *(Leftover("element", f"{it.set} {' . '.join(it.key)}", "no attachment has it") for it in strays),
        *(
            Leftover("chain", name, "no attachment has it")
            for name in contents.unused(chains, set(elements) - set(strays), planned)
        ),
        *_links(ledger, links),
        *_rested(ledger),
    ]


def _attachments(
    ledger: Ledger, places: Iterable[AttachmentPlace], links: set[str], boot_id: str
) -> Iterable[Leftover]:
    known = ledger.fact("boot_id")
    for it in places:
        key = str(it.key)
        if known not in (None, boot_id):
            yield Leftover("attachment", key, "it is of another boot, and gone with its kernel")
        elif it.state != "committed":
            yield Leftover("unfinished", key, f"it is {it.state}, and nobody is at work on it")
        elif it.host_link in links:
            if not leads_there(it):
                yield Leftover(
                    "attachment",
                    key,
                    f"{it.netns} does not lead to its namespace any more",
                    f"somebody holds that namespace, since {it.host_link} is there; "
                    f"`netloom inspect {key}` tells who",
                )
        elif is_dead(ledger, it):
            yield Leftover("attachment", key, f"its namespace {it.netns} is gone")


def is_dead(ledger: Ledger, place: AttachmentPlace) -> bool:
    """Of one whose link is gone: whether its namespace is, too, or its number is another's by now."""
    if not leads_there(place):
        return True
    row = ledger.by_id(place.id)
    if row is None or not row.netns_cookie:
        return False
    try:
        with Namespace.open(place.netns) as found:
            return found.cookie not in (0, row.netns_cookie)
    except InvalidNamespace:
        return False  # it goes right now; the next look will see it


def _queued(directory: str) -> Iterable[Leftover]:
    for path in waiting_in(directory):
        try:
            environment = read_intent(path).head.environment
        except FileNotFoundError:  # it was done meanwhile
            continue
        except (OSError, ProtocolError):
            yield _unreadable(path)
            continue
        named = f"{environment.get('CNI_CONTAINERID', '')}/{environment.get('CNI_IFNAME', '')}"
        yield Leftover("queued DEL", named, f"it came while no agent answered, and waits as {path}")
    yield from map(_unreadable, _set_aside(directory))


def _unreadable(path: str) -> Leftover:
    advice = "look into it, and remove it by hand: nobody needs it"
    return Leftover("queued DEL", path, "it cannot be read", advice)


def _set_aside(directory: str) -> list[str]:
    """What an agent could not read, and what has the name of a DEL and is no file."""
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


def _links(ledger: Ledger, links: set[str]) -> Iterable[Leftover]:
    """A pair has a container at its other end, which may use it. A queue without its link has nobody."""
    for name in sorted(links):
        host_link = names.host_link_of(name)
        if host_link is None or ledger.has_link(host_link):
            continue
        if host_link in links:
            reason, kept = (
                "it is not in the journal (orphaned)",
                f"a container may use it; if none does, `ip link del {host_link}` removes it",
            )
            yield Leftover("link", name, reason, kept)
        else:
            yield Leftover("link", name, f"its link {host_link} is gone")


def stray_queues(ledger: Ledger, links: Iterable[str]) -> list[str]:
    """Links of limits whose attachments and links are gone."""
    return [it.subject for it in _links(ledger, set(links)) if not it.kept]


def _rested(ledger: Ledger) -> Iterable[Leftover]:
    over = boottime() - LONGEST_COOLDOWN
    query = "SELECT count(*) FROM address WHERE released < ?"
    (count,) = ledger.connection.execute(query, (over,)).fetchone()
    if count:
        yield Leftover("rested", f"{count} addresses", "their rest is over; they are free, and their rows go")


# Work of a running agent looks like a leak until it is done. Rarely, the agent does the same again.
_MOMENTS = (0.3, 0.5)
_PATIENCE = 120.0
_OF_ATTACHMENTS = ("attachment", "unfinished")


class Garbage(Struct, frozen=True, rename={"dry_run": "dryRun"}):
    """What is left over on this node."""

    dry_run: Annotated[bool, Meta(description="whether it was only looked for")]
    removed: Annotated[list[Leftover], Meta(description="what went; with --dry-run: what would go")]
    kept: Annotated[list[Leftover], Meta(description="what may be in use, and stays")]
    left: Annotated[list[Leftover], Meta(description="what should have gone, and did not")]
    results: Annotated[list[str], Meta(description="files in the CNI cache that go with the attachments")]


def listed(place: Place, cache_dir: str) -> Garbage:
    """What would be collected. Needs no agent, and changes nothing."""
    found = _leftovers(place)
    is_served = holder(Place(place.state_dir, place.socket)) is not None
    for moment in _MOMENTS if found and is_served else ():
        time.sleep(moment)
        again = _leftovers(place)
        found = [it for it in found if it in again]
    going, kept = _parted(found)
    return Garbage(True, going, kept, [], [it.path for it in _results_of(cache_dir, going)])


def collected(place: Place, cache_dir: str) -> Garbage:
    """What the agent has collected, and the results that went with it."""
    answer = msgspec.json.decode(ask(place, "collect", timeout=_PATIENCE), type=Collected)
    left, kept = _parted(answer.left)
    with ledger(place) as journal:
        gone = [it for it in answer.removed if journal is None or not _is_there(journal, it)]
    results = [it.path for it in _results_of(cache_dir, gone) if it.remove()]
    return Garbage(False, answer.removed, kept, left, results)


def _leftovers(place: Place) -> list[Leftover]:
    with ledger(place) as journal, Namespace.own() as host:
        if journal is None:
            return []
        return leftovers(journal, host, intents_of(place.socket), boot_id())


def _parted(found: Iterable[Leftover]) -> tuple[list[Leftover], list[Leftover]]:
    """What goes, and what stays."""
    every = list(found)
    return [it for it in every if not it.kept], [it for it in every if it.kept]


class CachedResult(Struct, frozen=True):
    """The file of an attachment that is gone, or will be."""

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


def _results_of(cache_dir: str, released: Iterable[Leftover]) -> Iterator[CachedResult]:
    cache = Cache(cache_dir)
    for key in filter(None, map(_key, released)):
        # One that says so itself, and not that of a container that has come back under the same name.
        found = cache.config(key) if cache.owner(key) == key else None
        if found is not None and is_ours_alone(found) and not (found.netns and is_namespace(found.netns)):
            yield CachedResult(cache, key)


def _is_there(ledger: Ledger, it: Leftover) -> bool:
    """Whether an attachment of this name was made meanwhile."""
    key = _key(it)
    return key is not None and ledger.find(key) is not None


def _key(it: Leftover) -> AttachmentKey | None:
    parts = it.subject.split("/")
    return AttachmentKey(*parts) if it.kind in _OF_ATTACHMENTS and len(parts) == 3 else None
