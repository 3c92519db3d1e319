"""Finds network configurations in a directory such as /etc/cni/net.d.

The order and the choice are libcni's: `*.conflist` by name first, then the old single-plugin files. One thing
differs on purpose: a file that cannot be read or parsed is reported and skipped, so that it does not hide the
networks after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from .config import NetworkConfig, PluginConfig, network_from_plugin, parse_network, parse_plugin
from .errors import CNIError, InvalidConfig, IOFailure, NetworkNotFound, NoConfigsFound
from .files import read_document
from .names import shortened

LISTS = (".conflist",)
SINGLE_PLUGINS = (".conf", ".json")


class LoadedNetwork(Struct, frozen=True):
    path: str
    network: NetworkConfig


class Problem(Struct, frozen=True):
    """A skipped file, and why."""

    path: str
    error: CNIError

    def __str__(self) -> str:
        return f"{self.path}: {self.error}"


class Catalogue(Struct, frozen=True):
    """The networks of a directory, in the order in which they are looked up."""

    directory: str
    networks: tuple[LoadedNetwork, ...]
    problems: tuple[Problem, ...]

    def find(self, name: str) -> NetworkConfig:
        for loaded in self.networks:
            if loaded.network.name == name:
                return loaded.network
        passed_over = "\n".join(f"skipped {problem}" for problem in self.problems)
        if not self.networks and not self.problems:
            raise NoConfigsFound(f"no net configurations found in {self.directory}")
        raise NetworkNotFound(
            f'no net configuration with name "{shortened(name)}" in {self.directory}', passed_over
        )


def load_network(
    directory: str, name: str, *, report: Callable[[Problem], object] | None = None
) -> NetworkConfig:
    """Loads the first network with that name. Skipped files are reported to `report`.

    If there is no such network, the error's details contain them, too.
    """
    catalogue = load_networks(directory)
    if report is not None:
        for problem in catalogue.problems:
            report(problem)
    return catalogue.find(name)


def load_networks(directory: str) -> Catalogue:
    """Loads every network in a directory, and reports every file that could not be loaded."""
    networks: list[LoadedNetwork] = []
    problems: list[Problem] = []
    for path, loader in _candidates(directory):
        try:
            networks.append(LoadedNetwork(path, loader(path)))
        except CNIError as error:
            problems.append(Problem(path, error))
    return Catalogue(directory, tuple(networks), tuple(problems))


def load_network_file(path: str) -> NetworkConfig:
    """Loads a list, with the plugins of `<directory>/<network name>/*.conf` after the inlined ones."""
    network = parse_network(_read(path))
    if not network.load_only_inlined_plugins:
        directory = os.path.join(os.path.dirname(path), _plain_name(network.name))
        added = tuple(load_plugin_file(extra) for extra in config_files(directory, (".conf",)))
        network = replace(network, plugins=network.plugins + added)
    if not network.plugins:
        raise InvalidConfig("no plugin configs found")
    return network


def load_plugin_file(path: str) -> PluginConfig:
    try:
        return parse_plugin(_read(path))
    except InvalidConfig as error:
        raise error.at(context=path) from None


def config_files(directory: str, extensions: tuple[str, ...]) -> list[str]:
    """Returns the files with one of the extensions, by name. A missing directory has none."""
    try:
        with os.scandir(directory) as entries:
            found = [
                entry.path
                for entry in entries
                if os.path.splitext("x" + entry.name)[1] in extensions
                and not entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError as cause:
        raise IOFailure(f"cannot list {directory}: {cause.strerror}") from cause
    return sorted(found)


def _candidates(directory: str) -> Iterator[tuple[str, Callable[[str], NetworkConfig]]]:
    for path in config_files(directory, LISTS):
        yield path, load_network_file
    for path in config_files(directory, SINGLE_PLUGINS):
        yield path, _load_single


def _load_single(path: str) -> NetworkConfig:
    return network_from_plugin(parse_plugin(_read(path)))


def _read(path: str) -> bytes:
    try:
        return read_document(path)
    except OSError as cause:
        raise IOFailure(cause.strerror or str(cause)).at(context=f"error reading {path}") from cause


def _plain_name(name: str) -> str:
    """Checks that a network's name can name a directory, and never leads out of the parent."""
    if "/" in name or "\0" in name or name in ("", ".", ".."):
        raise InvalidConfig(f'network name "{name}" cannot name a directory of plugins')
    return name
