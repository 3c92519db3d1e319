"""Networks of `type: netloom` among those that runtimes find in a directory."""

from __future__ import annotations

import os

from msgspec import Struct

from ...cni import (
    CNIError,
    Endpoint,
    InvalidConfig,
    NetworkConfig,
    PluginConfig,
    Problem,
    load_networks,
    parse_network,
)
from ...cni.request import configuration, parameters
from ...cni.skel import Request, judge_config, request_of
from ...networks.config import Network, hint, misspelled, network_of
from .install import read

TYPE = "netloom"
# The one that `netloom up` writes.
FILE = "10-netloom.conflist"
_NOBODY = Endpoint("", "", "")


class NodeNetwork(Struct, frozen=True):
    """A network of ours and its file. Without `network`, `error` says why it cannot work.

    `discreet` says it without values of the file, which may hold secrets.
    """

    path: str
    config: NetworkConfig
    network: Network | None
    error: str = ""
    discreet: str = ""

    @property
    def name(self) -> str:
        return self.config.name


class Found(Struct, frozen=True):
    """Networks of ours, and files that were to be one and are none at all."""

    networks: tuple[NodeNetwork, ...] = ()
    problems: tuple[Problem, ...] = ()


def node_networks(directory: str) -> list[NodeNetwork]:
    return found_in(directory)[0]


def found_in(directory: str) -> tuple[list[NodeNetwork], list[Problem]]:
    """Networks of ours, and files that were to be one and are none at all."""
    catalogue = load_networks(directory)
    networks = [
        _judged(loaded.path, loaded.network)
        for loaded in catalogue.networks
        if plugin_of(loaded.network) is not None
    ]
    return networks, [it for it in catalogue.problems if _is_meant_for_us(it.path)]


def _is_meant_for_us(path: str) -> bool:
    """Of a file that cannot be parsed, by its name, or by ours in it."""
    try:
        return os.path.basename(path) == FILE or f'"{TYPE}"'.encode() in (read(path) or b"")
    except OSError:
        return False


def _judged(path: str, config: NetworkConfig) -> NodeNetwork:
    try:
        return NodeNetwork(path, config, network_of(request(config, "STATUS")))
    except CNIError as error:
        return NodeNetwork(path, config, None, str(error), error.discreet)


def refusals(config: NetworkConfig) -> list[CNIError]:
    """Why the agent would refuse every ADD: of each plugin of ours, the first key that is wrong."""
    found: list[CNIError] = []
    for plugin in config.plugins:
        if plugin.type == TYPE:
            try:
                network_of(_asked(plugin, config, "STATUS", _NOBODY))
            except CNIError as error:
                found.append(error)
    return found


def misspellings(config: NetworkConfig) -> dict[str, str]:
    """Keys that have no effect, and that may be meant for the agent: each with what to say of it."""
    return {
        key: f"plugin netloom: {hint(key, meant)}"
        for plugin in config.plugins
        if plugin.type == TYPE
        for key, meant in misspelled(plugin.raw)
    }


def plugin_of(config: NetworkConfig) -> PluginConfig | None:
    return next((plugin for plugin in config.plugins if plugin.type == TYPE), None)


def request(config: NetworkConfig, verb: str, endpoint: Endpoint = _NOBODY) -> Request:
    """What the agent gets when a runtime uses the network. The network must have a plugin of ours."""
    plugin = plugin_of(config)
    assert plugin is not None
    return _asked(plugin, config, verb, endpoint)


def _asked(plugin: PluginConfig, config: NetworkConfig, verb: str, endpoint: Endpoint) -> Request:
    source = configuration(
        plugin,
        name=config.name,
        cni_version=config.cni_version,
        capability_args=endpoint.capability_args,
    )
    return request_of(verb, parameters(verb, (), endpoint), judge_config(source), source)


def check_network(source: bytes) -> None:
    """Raises a `CNIError` if the agent would refuse every ADD to a network with this configuration."""
    check_config(parse_network(source))


def check_config(config: NetworkConfig) -> None:
    """The same of one that was parsed."""
    if plugin_of(config) is None:
        raise InvalidConfig(f"network {config.name} has no plugin of type {TYPE}")
    network_of(request(config, "STATUS"))
