"""Whose a result in the CNI cache is: ours, nobody's any more, or a runtime's that still needs it.

The cache (/var/lib/cni) is shared by all runtimes, and an entry does not say who wrote it. But the journal
knows who asked for an attachment: `netloom cni` and `netloom connectivity` appear in it by their own name.
And where the container's namespace is gone, no runtime needs its result any more: a DEL succeeds without one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from ...cni import AttachmentKey, CNIError, parse_network
from ...cni.cache import CachedAttachment
from ...journal import Ledger
from ...journal.records import typed
from ...kernel import InvalidNamespace, Namespace
from ..cni_environment import container_id
from ..connectivity.namespaces import KEPT_PREFIX, PREFIX
from ..node.namespaces import leads_there
from ..node.networks import TYPE

_OURSELVES = "netloom["  # and a process's number


class Made(Struct, frozen=True):
    """Who attached a container, such as `podman[812]`, and where. Either may be unknown, and empty."""

    caller: str = ""
    netns: str = ""


class Owners(Struct, frozen=True):
    """What the journal knows of attachments that are or were: the last ADD of each, and which are dead."""

    made: Mapping[AttachmentKey, Made] = {}
    dead: Collection[AttachmentKey] = frozenset()


def owners(ledger: Ledger) -> Owners:
    query = (
        "SELECT network, container_id, ifname, caller, netns FROM operation "
        "WHERE verb = 'ADD' AND code = 0 ORDER BY id"
    )
    rows = typed(ledger.connection.execute(query).fetchall(), list[tuple[str, str, str, str, str]])
    made = {AttachmentKey(*row[:3]): Made(*row[3:]) for row in rows}
    return Owners(made, frozenset(it.key for it in ledger.places() if not leads_there(it)))


def why_kept(it: CachedAttachment, known: Owners) -> str:
    """Why a result has to stay; empty if it is ours, or of a container that is gone."""
    others = [plugin for plugin in _types(it) if plugin != TYPE]
    if others:
        return f"{', '.join(others)} has a part in it, too, and whoever attached it has to delete it"
    key = it.endpoint.on(it.network)
    made = known.made.get(key, Made())
    is_ours = (
        it.container_id == container_id(it.netns)  # which only `netloom cni` and cnitool call it
        or it.container_id.startswith((KEPT_PREFIX, PREFIX))
        or made.caller.startswith(_OURSELVES)
    )
    netns = it.netns or made.netns
    if is_ours or key in known.dead or (netns and not is_namespace(netns)):
        return ""
    who = made.caller or "a runtime"
    where = f"its container is still there ({netns})" if netns else "its container may still be there"
    return f"{who} attached it, and needs it to delete it: {where}"


def names_us(it: CachedAttachment) -> bool:
    """Whether our plugin has a part in it."""
    return TYPE in _types(it)


def is_ours_alone(it: CachedAttachment) -> bool:
    return set(_types(it)) == {TYPE}


def _types(it: CachedAttachment) -> list[str]:
    """Of the plugins of its list; of one that cannot be read, none."""
    try:
        return [plugin.type for plugin in parse_network(it.config).plugins]
    except CNIError:
        return []


def is_namespace(path: str) -> bool:
    try:
        Namespace.open(path).close()
    except InvalidNamespace:
        return False
    return True
