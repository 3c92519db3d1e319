"""The files of networks as runtimes find them: whose come first, which are there twice, what is misspelt."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.findings import Finding
from ...cni import CNIError, NetworkConfig, load_networks
from ...ops.node.networks import found_in, misspellings, plugin_of
from .. import network_order
from .ground import Ground

# Runtimes have one for themselves, which is no network for containers.
_OWN_TO_RUNTIMES = frozenset({"loopback"})


def look(ground: Ground) -> Iterator[Finding]:
    directory = ground.args.conf_dir
    try:
        loaded = load_networks(directory).networks
        told = [it.path for it in found_in(directory)[1]]
    except CNIError:
        return  # which the node's look tells of
    ours = sorted(it.path for it in loaded if plugin_of(it.network) is not None)
    if not ours:
        return
    yield from network_order.of_first_file(directory, told)
    yield from network_order.of_later_files(directory, told)
    others = {it.path: it.network for it in loaded if it.path not in ours and not _is_own(it.network)}
    yield from network_order.of_files_before(ours[0])
    before = network_order.files_before(ours[0])
    for path, network in others.items():
        if path not in before:
            yield Finding(
                code="other-cni",
                severity="warning",
                subject=path,
                text=f"another container network is configured here, too: {network.name}, in {path}",
                next="keep it if a runtime uses it by its name; else move it away",
            )
    names = {it.path: it.network.name for it in loaded}
    own = {names[path] for path in ours}
    yield from network_order.of_same_name({path: name for path, name in names.items() if name in own})
    for it in ground.networks:
        for text in misspellings(it.config).values():
            yield Finding(
                code="network-typo",
                severity="warning",
                subject=it.path,
                text=f"{it.path}: {text}",
                next="spell it so, or remove it; `netloom cni validate` checks the file",
            )


def _is_own(network: NetworkConfig) -> bool:
    return all(plugin.type in _OWN_TO_RUNTIMES for plugin in network.plugins)
