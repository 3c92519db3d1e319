"""Two throw-away containers on a network: attached for a moment, and taken away whatever happens.

What is to be made is known before it is made. So whoever cleans up asks for all of it, also for what an ADD
has made half, or an answer never told of; a DEL of what is not there succeeds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ...cni import CNIError, Endpoint, NetworkConfig, Runtime
from ...kernel import Namespace
from ...kernel.netlink import link
from . import throwaway
from .elsewhere import elsewhere
from .ends import End, container
from .report import Left

NAMES = ("a", "b")
IFNAME = "eth0"
# For each DEL, also when all the time for the rest is over.
REMOVAL_PATIENCE = 10.0


class Pair:
    def __init__(self, runtime: Runtime, network: NetworkConfig, *, keep: bool) -> None:
        self._runtime = runtime
        self._network = network
        prefix = throwaway.KEPT_PREFIX if keep else throwaway.PREFIX
        number = os.urandom(4).hex()
        self._ids = {name: f"{prefix}{number}-{name}" for name in NAMES}
        self._namespaces: dict[str, Namespace] = {}
        self._asked: dict[str, Endpoint] = {}
        self.ends: list[End] = []

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._ids.values())

    def make(self) -> None:
        """The namespaces, each with a loopback, as runtimes make them."""
        for name, container_id in self._ids.items():
            self._namespaces[name] = made = throwaway.make(container_id)
            elsewhere(made, _raise_loopback)

    def attach(self, name: str, capability_args: Mapping[str, Any], deadline: float) -> End:
        container_id = self._ids[name]
        endpoint = Endpoint(
            container_id=container_id,
            netns=throwaway.path_of(container_id),
            ifname=IFNAME,
            capability_args=capability_args,
        )
        self._asked[name] = endpoint
        answer = self._runtime.add(self._network, endpoint, timeout=max(deadline - time.monotonic(), 0.001))
        made = container(name, self._namespaces[name], container_id, IFNAME, answer)
        self.ends.append(made)
        return made

    def detach(self, name: str) -> None:
        """So that it may be attached in another way."""
        self._runtime.delete(self._network, self._asked[name], timeout=REMOVAL_PATIENCE)

    def remove(self) -> list[Left]:
        """Everything, as far as it goes. What is left, and why."""
        left = []
        for endpoint in self._asked.values():
            try:
                self._runtime.delete(self._network, endpoint, timeout=REMOVAL_PATIENCE)
            except (CNIError, OSError) as error:
                left.append(
                    Left(
                        what=f"attachment {endpoint.on(self._network.name)}",
                        why=str(error),
                        next=f"`{_del(self._network.name, endpoint)}`, when what it names is mended; of a "
                        "network of netloom, the agent finds out by itself that the namespace is gone",
                    )
                )
        self.close()
        return left + self._remove_namespaces()

    def _remove_namespaces(self) -> list[Left]:
        left = []
        for container_id in self._ids.values():
            try:
                throwaway.remove(container_id)
            except OSError as cause:
                left.append(
                    Left(
                        what=f"namespace {container_id}",
                        why=str(cause.strerror),
                        next=f"`ip netns del {container_id}`",
                    )
                )
        return left

    def close(self) -> None:
        for namespace in self._namespaces.values():
            namespace.close()

    def removal(self) -> tuple[str, ...]:
        """The commands by which a person removes all of it."""
        dels = [_del(self._network.name, endpoint) for endpoint in self._asked.values()]
        return (*dels, *(f"ip netns del {container_id}" for container_id in self._ids.values()))


def _raise_loopback() -> None:
    with Namespace.own() as here:
        here.route.change(link.SET, 0, link.change(here.route.index("lo"), up=True))


def _del(network: str, endpoint: Endpoint) -> str:
    where = f"--container-id {endpoint.container_id} -i {endpoint.ifname}"
    return f"netloom cni del {network} {endpoint.netns} {where}"
