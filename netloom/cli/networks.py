"""Networks of `type: netloom` among those that runtimes find in a directory."""

from __future__ import annotations

import os

from msgspec import Struct

from ..agent.network import Network, network_of
from ..cni import CNIError, Endpoint, NetworkConfig, PluginConfig, load_networks, parse_network
from ..cni.load import LISTS, SINGLE_PLUGINS, config_files
from ..cni.request import configuration, parameters
from ..cni.skel import Request, judge_config, request_of

TYPE = "netloom"
_NOBODY = Endpoint("", "", "")


class NodeNetwork(Struct, frozen=True):
    """A network of ours and its file. Without `network`, `error` says why it cannot work."""

    path: str
    config: NetworkConfig
    network: Network | None
    error: str = ""

    @property
    def name(self) -> str:
        return self.config.name


def node_networks(directory: str) -> list[NodeNetwork]:
    return [
        _judged(loaded.path, loaded.network)
        for loaded in load_networks(directory).networks
        if plugin_of(loaded.network) is not None
    ]


def _judged(path: str, config: NetworkConfig) -> NodeNetwork:
    try:
        return NodeNetwork(path, config, network_of(request(config, "STATUS")))
    except CNIError as error:
        return NodeNetwork(path, config, None, str(error))


def plugin_of(config: NetworkConfig) -> PluginConfig | None:
    return next((plugin for plugin in config.plugins if plugin.type == TYPE), None)


def request(config: NetworkConfig, verb: str, endpoint: Endpoint = _NOBODY) -> Request:
    """What the agent gets when a runtime uses the network. The network must have a plugin of ours."""
    plugin = plugin_of(config)
    assert plugin is not None
    source = configuration(
        plugin,
        name=config.name,
        cni_version=config.cni_version,
        capability_args=endpoint.capability_args,
    )
    return request_of(verb, parameters(verb, (), endpoint), judge_config(source), source)


def check_network(source: bytes) -> None:
    """Raises a `CNIError` if the agent would refuse every ADD to a network with this configuration."""
    network_of(request(parse_network(source), "STATUS"))


def files_before(path: str) -> list[str]:
    """Configurations that sort before it: containerd and CRI-O use the first in a directory."""
    directory, name = os.path.split(path)
    found = map(os.path.basename, config_files(directory, LISTS + SINGLE_PLUGINS))
    return [os.path.join(directory, it) for it in sorted(found) if it < name]
