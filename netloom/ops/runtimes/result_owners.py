"""Who owns a result in the CNI cache: netloom, a runtime that still needs it, or nothing any more.

All runtimes share the cache (/var/lib/cni), and an entry does not say what wrote it. But the journal has the
caller of every ADD: `netloom cni` and `netloom connectivity` appear in it by their own name. And once the
container's namespace is deleted, no runtime needs its result any more: DEL succeeds without it.
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
    """Who attached a container, such as `podman[812]`, and where. Either is empty if it is unknown."""

    caller: str = ""
    netns: str = ""


class Owners(Struct, frozen=True):
    """The last ADD of each present or past attachment, and which attachments have a deleted namespace."""

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
    """Why a result must be kept; empty if it is ours, or its container no longer exists."""
    others = [plugin for plugin in _types(it) if plugin != TYPE]
    if others:
        return (
            f"{', '.join(others)} also took part in its ADD, so the runtime that attached it must delete it"
        )
    key = it.endpoint.on(it.network)
    made = known.made.get(key, Made())
    is_ours = (
        it.container_id == container_id(it.netns)  # a name that only `netloom cni` and cnitool give
        or it.container_id.startswith((KEPT_PREFIX, PREFIX))
        or made.caller.startswith(_OURSELVES)
    )
    netns = it.netns or made.netns
    if is_ours or key in known.dead or (netns and not is_namespace(netns)):
        return ""
    who = made.caller or "a runtime"
    where = f"its container still exists ({netns})" if netns else "its container may still exist"
    return f"{who} attached it, and needs the result to delete it: {where}"


def names_us(it: CachedAttachment) -> bool:
    """Whether its network uses our plugin."""
    return TYPE in _types(it)


def is_ours_alone(it: CachedAttachment) -> bool:
    return set(_types(it)) == {TYPE}


def _types(it: CachedAttachment) -> list[str]:
    """The types of its network's plugins; empty if the configuration cannot be read."""
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
