"""What runs have left that were killed: recognised by name, and taken away by the next one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from ...cni import CachedAttachment, CNIError, Endpoint, NetworkConfig, Runtime, parse_network
from . import throwaway
from .pair import IFNAME, REMOVAL_PATIENCE


def remove_leftovers(runtime: Runtime, network: NetworkConfig, deadline: float) -> Iterator[str]:
    """Gives what it could not remove. Attachments to other networks go by what the cache has of them.

    One whose ADD never ended is in no cache; if it was to this network, it goes, too.
    """
    abandoned = list(throwaway.abandoned())
    cached = _cached(runtime, abandoned)
    for name in abandoned:
        attached = [(it.endpoint, _network_of(it, network)) for it in cached if it.container_id == name]
        if not any(known.name == network.name for _, known in attached):
            attached.append((Endpoint(name, throwaway.path_of(name), IFNAME), network))
        for endpoint, known in attached:
            yield from _deleted(runtime, known, endpoint, deadline)
        try:
            throwaway.remove(name)
        except OSError as cause:
            yield f"namespace {name}: {cause.strerror}"
    for it in cached:
        if it.container_id not in abandoned:
            yield from _deleted(runtime, _network_of(it, network), it.endpoint, deadline)


def _cached(runtime: Runtime, abandoned: list[str]) -> list[CachedAttachment]:
    """Of ours, those whose namespace is abandoned or gone: a run that lives keeps it to the last."""
    try:
        listed = runtime.attachments()
    except CNIError:
        return []
    ours = [it for it in listed if it.container_id.startswith(throwaway.PREFIX)]
    return [it for it in ours if it.container_id in abandoned or not os.path.exists(it.netns)]


def _network_of(cached: CachedAttachment, network: NetworkConfig) -> NetworkConfig:
    try:
        return parse_network(cached.config)
    except CNIError:
        return network


def _deleted(runtime: Runtime, network: NetworkConfig, endpoint: Endpoint, deadline: float) -> Iterator[str]:
    left = deadline - time.monotonic()
    if left <= 0:
        yield f"attachment {endpoint.on(network.name)}: no time was left"
        return
    try:
        runtime.delete(network, endpoint, timeout=min(left, REMOVAL_PATIENCE))
    except CNIError as error:
        yield f"attachment {endpoint.on(network.name)}: {error}"
