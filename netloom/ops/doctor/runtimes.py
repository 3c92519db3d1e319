"""Checks that container runtimes find netloom's networks, and the right plugin."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from ...api.findings import Finding
from ...api.paths import DEFAULT_PLUGIN_DIR, Place, receipt_of
from ...cni import CNIError, NetworkConfig, load_networks
from ...kernel import Namespace
from ..findings import networks as network_findings
from ..install.plugins import is_foreign
from ..node.install import (
    PLUGIN,
    NotBuilt,
    Receipt,
    read,
    receipt,
    receipt_damage,
    shipped_plugin,
)
from ..node.networks import found_in, misspellings, plugin_of
from ..runtimes.plugin_places import differing, missing, not_executable, obstructed
from ..runtimes.runtimes import ContainerRuntime, runtimes, to_change
from .checks import Context


def check_runtimes(context: Context) -> Iterator[Finding]:
    if not context.networks:
        return
    conf_dir = context.place.conf_dir
    names = [it.name for it in context.networks]
    plugin_dirs = [os.path.dirname(path) for path in plugin_paths(context)]
    for it in runtimes():
        yield from _unreadable(it)
        if it.note and it.chosen not in names:
            if it.chosen:
                yield elsewhere(
                    it.name,
                    f"CRI-O does not use a network of netloom: {it.note}",
                    f"set `cni_default_network` to {names[0]!r}, or remove it, and restart CRI-O",
                )
            continue  # the runtime does not use CNI, or not here
        if it.path and not _same(it.conf_dir, conf_dir):
            yield elsewhere(
                it.name,
                f"{it.name} looks for networks in {it.conf_dir}, and netloom's are in {conf_dir} ({it.path})",
                f"`netloom up --conf-dir {it.conf_dir}` writes one there, or change {to_change(it.path)} and "
                "restart it",
            )
        known = it.plugin_dirs and plugin_dirs
        if known and not any(_same(one, other) for one in it.plugin_dirs for other in plugin_dirs):
            yield elsewhere(
                it.name,
                f"{it.name} looks for plugins in {', '.join(it.plugin_dirs)}, and netloom's is in "
                f"{', '.join(plugin_dirs)} ({it.plugin_path})",
                f"`netloom up --plugin-dir {it.plugin_dirs[0]}` installs it there, or change "
                f"{to_change(it.plugin_path)} and restart it",
            )


def of_runtimes(place: Place) -> list[Finding]:
    """Runs `check_runtimes` alone, with every place at which the plugin is installed."""
    everywhere = place._replace(plugin_dir=None)
    with Namespace.own() as host:
        return list(check_runtimes(Context(everywhere, host)))


def all_plugin_dirs() -> list[str]:
    """Returns all directories in which a runtime of this machine looks for plugins."""
    return [directory for it in runtimes() for directory in it.plugin_dirs]


def _unreadable(runtime: ContainerRuntime) -> Iterator[Finding]:
    for it in runtime.unreadable:
        yield Finding(
            code="runtime-unreadable",
            severity="warning",
            subject=it.path,
            text=f"{it.path}, a file of {runtime.name}, cannot be read: {it.why}; its settings for networks "
            "and plugins are unknown",
            next=f"correct it, or move it away; {runtime.name} may not start with it",
        )


def elsewhere(runtime: str, text: str, advice: str) -> Finding:
    return Finding(code="runtime-elsewhere", severity="warning", subject=runtime, text=text, next=advice)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def check_plugin(context: Context) -> Iterator[Finding]:
    if not context.networks:
        return  # without a network, no runtime needs it
    try:
        shipped = shipped_plugin()
    except NotBuilt as error:
        yield Finding(
            code="plugin-not-built",
            severity="warning",
            text=str(error),
            next="install netloom from a wheel, or build the plugin with `make setup` in a checkout",
        )
        return
    yield from (damaged := list(_of_receipt(context.place.state_dir)))
    if damaged and context.place.plugin_dir is None:
        return  # without a receipt, its places are unknown
    known = receipt(context.place.state_dir)
    for path in plugin_paths(context):
        yield from _plugin_at(path, shipped, known, {*known.plugins, *plugin_paths(context)})


def plugin_paths(context: Context) -> list[str]:
    """Returns where `netloom up` installed it, or runtimes' default; nothing if the receipt is damaged."""
    given = context.place.plugin_dir
    if given is not None:
        return [os.path.join(given, PLUGIN)]
    if any(_of_receipt(context.place.state_dir)):
        return []
    return receipt(context.place.state_dir).plugins or [os.path.join(DEFAULT_PLUGIN_DIR, PLUGIN)]


def _of_receipt(state_dir: str) -> Iterator[Finding]:
    path = receipt_of(state_dir)
    try:
        damage = receipt_damage(state_dir)
        remedy = "`netloom up` writes a new one; run it with each --plugin-dir that has the plugin"
    except OSError as cause:
        damage, remedy = cause.strerror, "check what has taken its place, and move it away; then `netloom up`"
    if damage is not None:
        yield Finding(
            code="receipt-unreadable",
            subject=path,
            text=f"{path} cannot be read ({damage}): netloom does not know which files it has installed",
            next=remedy,
        )


def _plugin_at(path: str, shipped: bytes, known: Receipt, everywhere: Collection[str]) -> Iterator[Finding]:
    directory = os.path.dirname(path)
    try:
        content = read(path)
    except OSError as cause:
        yield obstructed(path, str(cause.strerror))
        return
    if content is None:
        yield missing(path, everywhere)
    elif is_foreign(path, known):
        yield Finding(
            code="plugin-foreign",
            subject=path,
            text=f"{path} is not netloom's plugin, and `netloom up` did not install it: every ADD and DEL of "
            "a network of netloom runs it",
            next=f"move it away, and `netloom up --plugin-dir {directory}`; or replace it with `netloom up "
            f"--force --plugin-dir {directory}`, which also replaces a network file that others have written",
        )
    elif not os.access(path, os.X_OK):
        yield not_executable(path)
    elif content != shipped:
        yield differing(path)


# The types of networks that runtimes use for themselves, not for containers.
_OWN_TO_RUNTIMES = frozenset({"loopback"})


def check_networks(context: Context) -> Iterator[Finding]:
    directory = context.place.conf_dir
    try:
        loaded = load_networks(directory).networks
        reported = [it.path for it in found_in(directory)[1]]
    except CNIError:
        return  # which the check `node` reports
    ours = sorted(it.path for it in loaded if plugin_of(it.network) is not None)
    if not ours:
        return
    yield from network_findings.of_first_file(directory, reported)
    yield from network_findings.of_later_files(directory, reported)
    others = {it.path: it.network for it in loaded if it.path not in ours and not _is_own(it.network)}
    yield from network_findings.of_files_before(ours[0])
    before = network_findings.files_before(ours[0])
    for path, network in others.items():
        if path not in before:
            yield Finding(
                code="other-cni",
                severity="warning",
                subject=path,
                text=f"another container network is configured here: {network.name}, in {path}",
                next="keep it if a runtime uses it by name; otherwise move it away",
            )
    names = {it.path: it.network.name for it in loaded}
    own = {names[path] for path in ours}
    yield from network_findings.of_same_name({path: name for path, name in names.items() if name in own})
    for it in context.networks:
        for text in misspellings(it.config).values():
            yield Finding(
                code="network-typo",
                severity="warning",
                subject=it.path,
                text=f"{it.path}: {text}",
                next="correct the key, or remove it; `netloom cni validate` checks the file",
            )


def _is_own(network: NetworkConfig) -> bool:
    return all(plugin.type in _OWN_TO_RUNTIMES for plugin in network.plugins)
