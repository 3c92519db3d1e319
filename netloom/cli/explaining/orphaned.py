"""What only the kernel knows of: the link of a container that no journal has, as after one was lost.

The name of a link follows from who was attached to what. So it can be told from the name of a container,
if the whole of that is given, and its network is still configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...cni import AttachmentKey
from ...journal import Ledger, empty
from ...kernel import Namespace
from ...kernel.values import shown_ip
from ...networks.names import host_link_of, names_of
from ...ops.node.orphans import findings_of, in_order, orphans_at
from ..cni.target import container_id
from .explanation import Explanation

# What runtimes call the interfaces that they ask for: podman and containerd, and Multus.
_INTERFACES = (*(f"eth{number}" for number in range(8)), *(f"net{number}" for number in range(1, 8)))


def explain_orphan(
    word: str, ledger: Ledger | None, host: Namespace, networks: Iterable[str]
) -> Explanation | None:
    """None if no such link is there."""
    orphans = orphans_at(host, lambda ask: ask(ledger or empty()))
    link = host_link_of(word) or word
    found = {it: orphans[it] for it in (link, *_links_of(word, networks)) if it in orphans}
    if not found:
        return None
    ips = in_order(ip for of_one in found.values() for ip in of_one)
    addresses = f" with {', '.join(map(shown_ip, ips))}" if ips else ""
    what = "is a link" if link in found else f"has the link {', '.join(found)}"
    return Explanation(
        asked=word,
        kind="unknown",
        name=word,
        summary=f"{word} {what}{addresses}, and the journal knows nothing of it: it was attached before the "
        "journal was lost, or taken back",
        findings=list(findings_of(found)),
    )


def _links_of(word: str, networks: Iterable[str]) -> Iterator[str]:
    named = tuple(word.split("/"))
    if len(named) == 3:
        yield names_of(AttachmentKey(*named)).host_link
    elif len(named) == 2:
        yield from (names_of(AttachmentKey(*named, it)).host_link for it in _INTERFACES)
    # A namespace that was attached by hand has named its container.
    path = word if word.startswith("/") else f"/run/netns/{word}"
    for network in networks:
        for container in (word, container_id(path)):
            for interface in _INTERFACES:
                yield names_of(AttachmentKey(network, container, interface)).host_link
