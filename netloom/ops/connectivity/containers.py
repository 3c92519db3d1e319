"""Two temporary containers on a network. They are always removed, whatever happens in the run.

All names are chosen before anything is created. So the clean-up deletes everything, including what a failed
or unanswered ADD created; a DEL of what does not exist succeeds. The next run removes what a killed run
leaked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ...cni import CachedAttachment, CNIError, Endpoint, NetworkConfig, Runtime, parse_network
from ...kernel import Namespace
from ...kernel.netlink import link
from . import namespaces
from .endpoints import End, container
from .namespaces import run_inside
from .report import Left

NAMES = ("a", "b")
IFNAME = "eth0"
# For each DEL, even after the run's deadline.
REMOVAL_PATIENCE = 10.0


class Pair:
    def __init__(self, runtime: Runtime, network: NetworkConfig, *, keep: bool) -> None:
        self._runtime = runtime
        self._network = network
        prefix = namespaces.KEPT_PREFIX if keep else namespaces.PREFIX
        number = os.urandom(4).hex()
        self._ids = {name: f"{prefix}{number}-{name}" for name in NAMES}
        self._namespaces: dict[str, Namespace] = {}
        self._asked: dict[str, Endpoint] = {}
        self.ends: list[End] = []

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._ids.values())

    def make(self) -> None:
        """Creates the namespaces, each with a loopback, as runtimes do."""
        for name, container_id in self._ids.items():
            self._namespaces[name] = made = namespaces.make(container_id)
            run_inside(made, _raise_loopback)

    def attach(self, name: str, capability_args: Mapping[str, Any], deadline: float) -> End:
        container_id = self._ids[name]
        endpoint = Endpoint(
            container_id=container_id,
            netns=namespaces.path_of(container_id),
            ifname=IFNAME,
            capability_args=capability_args,
        )
        self._asked[name] = endpoint
        answer = self._runtime.add(self._network, endpoint, timeout=max(deadline - time.monotonic(), 0.001))
        made = container(name, self._namespaces[name], container_id, IFNAME, answer)
        self.ends.append(made)
        return made

    def detach(self, name: str) -> None:
        """Detaches a container, so that it can be attached with other arguments."""
        self._runtime.delete(self._network, self._asked[name], timeout=REMOVAL_PATIENCE)

    def remove(self) -> list[Left]:
        """Removes everything that can be removed. Returns what cannot, and why."""
        left = []
        for endpoint in self._asked.values():
            try:
                self._runtime.delete(self._network, endpoint, timeout=REMOVAL_PATIENCE)
            except (CNIError, OSError) as error:
                left.append(
                    Left(
                        what=f"attachment {endpoint.on(self._network.name)}",
                        why=str(error),
                        next="fix the cause, then run "
                        f"`{_del_command(self._network.name, endpoint)}`; on a netloom network, the "
                        "agent does this itself once the namespace is deleted",
                    )
                )
        self.close()
        return left + self._remove_namespaces()

    def _remove_namespaces(self) -> list[Left]:
        left = []
        for container_id in self._ids.values():
            try:
                namespaces.remove(container_id)
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
        """The commands that remove all of it."""
        dels = [_del_command(self._network.name, endpoint) for endpoint in self._asked.values()]
        return (*dels, *(f"ip netns del {container_id}" for container_id in self._ids.values()))


def _raise_loopback() -> None:
    with Namespace.own() as here:
        here.route.change(link.SET, 0, link.change(here.route.index("lo"), up=True))


def _del_command(network: str, endpoint: Endpoint) -> str:
    where = f"--container-id {endpoint.container_id} -i {endpoint.ifname}"
    return f"netloom cni del {network} {endpoint.netns} {where}"


def remove_leaks(runtime: Runtime, network: NetworkConfig, deadline: float) -> Iterator[str]:
    """Removes what killed runs leaked. Yields what it could not remove.

    The cache lists attachments to other networks. It lacks one whose ADD never ended; if that was to this
    network, it is deleted, too.
    """
    abandoned = list(namespaces.leaked())
    cached = _cached(runtime, abandoned)
    for name in abandoned:
        attached = [(it.endpoint, _network_of(it, network)) for it in cached if it.container_id == name]
        if not any(known.name == network.name for _, known in attached):
            attached.append((Endpoint(name, namespaces.path_of(name), IFNAME), network))
        for endpoint, known in attached:
            yield from _deleted(runtime, known, endpoint, deadline)
        try:
            namespaces.remove(name)
        except OSError as cause:
            yield f"namespace {name}: {cause.strerror}"
    for it in cached:
        if it.container_id not in abandoned:
            yield from _deleted(runtime, _network_of(it, network), it.endpoint, deadline)


def _cached(runtime: Runtime, abandoned: list[str]) -> list[CachedAttachment]:
    """Our cached attachments whose namespace is abandoned or deleted. A live run keeps its namespaces."""
    try:
        listed = runtime.attachments()
    except CNIError:
        return []
    ours = [it for it in listed if it.container_id.startswith(namespaces.PREFIX)]
    return [it for it in ours if it.container_id in abandoned or not os.path.exists(it.netns)]


def _network_of(cached: CachedAttachment, network: NetworkConfig) -> NetworkConfig:
    try:
        return parse_network(cached.config)
    except CNIError:
        return network


def _deleted(runtime: Runtime, network: NetworkConfig, endpoint: Endpoint, deadline: float) -> Iterator[str]:
    left = deadline - time.monotonic()
    if left <= 0:
        yield f"attachment {endpoint.on(network.name)}: no time left"
        return
    try:
        runtime.delete(network, endpoint, timeout=min(left, REMOVAL_PATIENCE))
    except CNIError as error:
        yield f"attachment {endpoint.on(network.name)}: {error}"
