"""What is left over on a node: of containers that are gone, of operations that were not finished, of links.

Reads only. The rules are the collector's: an attachment is valid until it is proved dead. Its path leads
nowhere or elsewhere, and our end of the pair is gone, or it is of another boot. What nobody can prove to be
unused is named, and kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ...api.intents import SUFFIX, read_intent
from ...api.intents import waiting as waiting_in
from ...api.protocol import ProtocolError
from ...cni import AttachmentKey
from ...journal import Ledger, Place, boottime
from ...kernel import InvalidNamespace, Namespace
from ...kernel.objects.link import link_names
from ...networks import names
from ...networks.config import LONGEST_COOLDOWN
from . import table_contents as contents
from .presence import leads_there

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
    ledger: Ledger, places: Iterable[Place], links: set[str], boot_id: str
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


def is_dead(ledger: Ledger, place: Place) -> bool:
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
