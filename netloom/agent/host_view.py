"""The host as the agent last saw it. An ADD takes this snapshot and asks the kernel nothing."""

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
    """Asks the kernel something about the host, on a thread beside the dataplane's."""

    def ask() -> T:
        with Namespace.own() as host:
            return question(host)

    return await asyncio.to_thread(ask)


async def is_dead(attachment: Attachment) -> bool:
    """A namespace that ends takes its links along, and so our end of the pair.

    While our end is there, a process holds the namespace, whatever its path leads to.
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
        """All but the orphans, which are looked for when there is a reason."""
        found = await ask_kernel(read_host)
        self._host = replace(found, orphans=self._host.orphans, orphan_ports=self._host.orphan_ports)

    def set_orphans(
        self, orphans: Mapping[str, frozenset[bytes]], ports: Sequence[tuple[MappedPort, str]] | None = None
    ) -> None:
        """`ports` stay as they are if they are not given."""
        known = self._host.orphan_ports if ports is None else ports
        self._host = replace(self._host, orphans=orphans, orphan_ports=known)

    def require_container(self, namespace: Namespace) -> None:
        """A caller may live in a namespace of its own, and not know that this one is the host's."""
        if namespace.identity == self._identity:
            raise InvalidNamespace(
                f"{namespace.name} is the host's namespace, which netloom never attaches to itself"
            )
