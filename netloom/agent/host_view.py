"""A snapshot of the host. An ADD uses it instead of asking the kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ..journal import Attachment
from ..kernel import InvalidNamespace, Namespace
from ..kernel.objects.link import find
from ..networks.features.options import MappedPort
from ..networks.host import Host
from ..ops.node.host import read_host
from ..ops.node.namespaces import leads_there

T = TypeVar("T")


async def ask_kernel(question: Callable[[Namespace], T]) -> T:
    """Reads from the host's kernel state on a thread of its own, so that the dataplane is not delayed."""

    def ask() -> T:
        with Namespace.own() as host:
            return question(host)

    return await asyncio.to_thread(ask)


async def is_dead(attachment: Attachment) -> bool:
    """Returns whether the attachment's namespace no longer exists.

    When a namespace ends, the kernel deletes its links, and with them the host's end of each pair. While that
    end exists, a process holds the namespace, even if its path leads elsewhere.
    """
    if leads_there(attachment):
        return False
    return not await ask_kernel(lambda host: find(host, attachment.host_link) is not None)


class HostView:
    def __init__(self) -> None:
        self._host = Host()
        with Namespace.own() as host:
            self._identity = host.identity

    @property
    def current(self) -> Host:
        return self._host

    async def refresh(self) -> None:
        """Reads everything except orphans, which `OrphanKeeper` finds."""
        found = await ask_kernel(read_host)
        self._host = replace(found, orphans=self._host.orphans, orphan_ports=self._host.orphan_ports)

    def set_orphans(
        self, orphans: Mapping[str, frozenset[bytes]], ports: Sequence[tuple[MappedPort, str]] | None = None
    ) -> None:
        """Sets the orphans. Without `ports`, their host ports stay unchanged."""
        known = self._host.orphan_ports if ports is None else ports
        self._host = replace(self._host, orphans=orphans, orphan_ports=known)

    def require_container(self, namespace: Namespace) -> None:
        """Raises `InvalidNamespace` for the host's namespace.

        The plugin cannot judge this: it may run in a namespace of its own.
        """
        if namespace.identity == self._identity:
            raise InvalidNamespace(
                f"{namespace.name} is the host's network namespace; netloom attaches only containers"
            )
