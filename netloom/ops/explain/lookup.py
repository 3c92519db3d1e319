"""Finds what a name stands for, and explains it: a code, an address, an attachment, or an unknown name."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...api.paths import Place
from ...api.times import shown
from ..control.asking import settle, unwritten
from ..errors import UsageError
from .explanation import Explanation, Page

if TYPE_CHECKING:
    from ...journal import Operation
    from ..node.networks import NodeNetwork

# Seconds by which the clock of the person's machine may be ahead.
_LEEWAY = 1.0
# Many firewalls keep containers from the host on purpose, so only errors of this code count.
_FOREIGN_DROP = "foreign-drop"


def explain(
    place: Place, name: str, *, at: float | None, limit: int, warn: Callable[[str], None]
) -> Explanation:
    """Explains `name`. `at` is only for addresses; `limit` is the largest number of operations."""
    name = name.strip()
    if not name:
        raise UsageError("NAME is empty", "give a container, a pod, an address or a code")
    from ...api.catalogue import entry

    page = entry(name.lower())
    if page is not None:
        return Explanation(
            asked=name,
            kind="code",
            name=page.code,
            summary=page.title,
            page=Page(page.code, page.area, page.title, page.meaning, page.remedy, page.page),
        )
    if at is not None and at > time.time() + _LEEWAY:
        raise UsageError(f"--at {shown(at)} is in the future", "give a time in the past")
    behind = settle(place.socket)
    # The agent still has the operations that it could not write to the disk.
    lacking = unwritten(place.socket) if behind else []
    found = _explain_name(place, name, at, limit, lacking, warn)
    return replace(found, behind=behind) if behind else found


def is_wrong(it: Explanation) -> bool:
    """Whether it reports a problem, or could not answer."""
    unanswered = it.address is not None and it.address.at is not None and not it.address.at.known
    return unanswered or any(one.code != _FOREIGN_DROP or one.severity == "error" for one in it.findings)


def _explain_name(
    place: Place,
    name: str,
    at: float | None,
    limit: int,
    unwritten: Sequence[Operation],
    warn: Callable[[str], None],
) -> Explanation:
    """Imports only what the answer needs, since a person waits for it."""
    from ...journal import in_memory
    from ...kernel import Namespace
    from ..inspect.listing import queued
    from ..journals.reading import ledger
    from .names import packed_ip, subject_of

    ip = packed_ip(name)
    if ip is None and at is not None:
        raise UsageError(
            f"--at needs an address, and {name!r} is not one", "leave --at out, or give an address"
        )
    with ledger(place) as written, Namespace.own() as host:
        journal = written
        if written is not None and unwritten:
            journal = in_memory(written.connection)
            journal.record(unwritten)
        dels = queued(place.intents)
        if ip is not None:
            from ...journal import empty
            from . import address

            networks = _networks(place, warn)
            return address.story_of(name, ip, at, journal or empty(), host, networks, dels)
        subject = None if journal is None else subject_of(journal, name)
        if subject is None or journal is None:
            from . import absence

            names = [it.name for it in _networks(place, warn)]
            orphan = absence.explain_orphan(name, journal, host, names)
            return orphan or absence.explain_absence(place, name, journal)
        from . import story

        found = story.story_of(name, subject, journal, host, dels, limit)
        if found.attachments:
            return found
        from . import absence

        # Why it may not be attached again: an agent that does not run records no ADD.
        return replace(found, findings=[*found.findings, *absence.of_agent(place)])


def _networks(place: Place, warn: Callable[[str], None]) -> list[NodeNetwork]:
    """Returns readable networks. Without any, the journal still knows who holds an address."""
    from ...cni import CNIError
    from ..node.networks import node_networks

    try:
        return node_networks(place.conf_dir)
    except CNIError as error:
        warn(f"networks could not be read: {error}")
        return []
