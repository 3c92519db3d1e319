"""What to expect of a network, from its configuration: ports, limits, isolation, and whose plugins it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ...cni import CNIError, NetworkConfig
from ..node.networks import plugin_of, request
from .tcp import RateLimit

_PORTS, _BANDWIDTH = "portMappings", "bandwidth"


class RateLimits(Struct, frozen=True):
    """The limits of one container, from its point of view: `ingress` limits what it receives."""

    ingress: RateLimit | None = None
    egress: RateLimit | None = None


class Expectations(Struct, frozen=True):
    is_ours: bool
    maps_ports: bool
    takes_limits: bool
    limits: RateLimits
    keeps_apart: bool
    masquerades: bool


def expectations_of(network: NetworkConfig) -> Expectations:
    capabilities = frozenset[str]().union(*(plugin.capabilities for plugin in network.plugins))
    ours = _read_by_us(network)
    return Expectations(
        is_ours=ours is not None,
        maps_ports=_PORTS in capabilities,
        takes_limits=_BANDWIDTH in capabilities,
        limits=_limits(network),
        keeps_apart=ours is not None and ours.isolation == "containers",
        masquerades=ours.masquerade is not None
        if ours
        else any(it.raw.get("ipMasq") for it in network.plugins),
    )


def _read_by_us(network: NetworkConfig) -> Any:
    """The network as the agent reads it; None if the agent would refuse it: then ADD fails with its error."""
    from ...networks.config import network_of

    if plugin_of(network) is None:
        return None
    try:
        return network_of(request(network, "STATUS"))
    except CNIError:
        return None


def _limits(network: NetworkConfig) -> RateLimits:
    ingress, egress = None, None
    for keys in _configured_limits(network):
        ingress = _limit(keys, "ingress") or ingress
        egress = _limit(keys, "egress") or egress
    return RateLimits(ingress, egress)


def _configured_limits(network: NetworkConfig) -> Iterator[Mapping[str, Any]]:
    """Where limits are configured: a key of our plugin, or keys of the reference plugin itself."""
    for plugin in network.plugins:
        keys = plugin.raw if plugin.type == _BANDWIDTH else plugin.raw.get(_BANDWIDTH)
        if isinstance(keys, dict):
            yield keys


def _limit(keys: Mapping[str, Any], direction: str) -> RateLimit | None:
    rate, burst = keys.get(f"{direction}Rate"), keys.get(f"{direction}Burst")
    if not isinstance(rate, int) or rate <= 0:
        return None
    return RateLimit(rate, burst if isinstance(burst, int) and 0 < burst < (1 << 31) - 1 else 0)
