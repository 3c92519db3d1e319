"""Network, namespace and runtime of a `cni` command, from its arguments and cnitool's variables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....cni import (
    DEFAULT_CACHE_DIR,
    Catalogue,
    CNIError,
    Endpoint,
    InvalidConfig,
    InvalidEnvironment,
    NetworkConfig,
    Runtime,
    load_networks,
)
from ....cni.args import split_pairs
from ....cni.runtime import DEFAULT_TIMEOUT
from ....cni.wire import decode_object
from ....ops.cni_environment import container_id, is_unknown, path_of, plugin_dirs
from ....ops.errors import Advised, UsageError
from ...arguments import seconds
from ...failure import warn

DEFAULT_CONFIG_DIR = "/etc/cni/net.d"
_OURS = "netloom"


def add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", help="name of a network in NETCONFPATH")


def add_attachment(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    parser.add_argument(
        "netns",
        metavar="NETNS",
        help="network namespace: a path, such as /run/netns/NAME, or a name in `ip netns`",
    )
    parser.add_argument("ignored", nargs="*", default=[], help=argparse.SUPPRESS)  # as cnitool does
    parser.add_argument("-i", "--ifname", metavar="NAME", help="interface name (default: CNI_IFNAME or eth0)")
    parser.add_argument("--container-id", metavar="ID", help="container ID (default: derived from NETNS)")


def add_unused(parser: argparse.ArgumentParser) -> None:
    """Adds arguments that cnitool takes for verbs of a whole network."""
    parser.add_argument(
        "ignored", metavar="NETNS", nargs="*", default=[], help="ignored, for compatibility with cnitool"
    )
    parser.add_argument("-i", "--ifname", metavar="NAME", help="ignored, for compatibility with cnitool")


def add_runtime(parser: argparse.ArgumentParser) -> None:
    add_cache_dir(parser)
    add_timeout(parser, int(DEFAULT_TIMEOUT))


def add_timeout(
    parser: argparse.ArgumentParser, default: int, what: str = "time limit of the command"
) -> None:
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=float(default),
        metavar="SECONDS",
        help=f"{what} (default: {default})",
    )


def add_cache_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache-dir",
        type=_directory,
        default=DEFAULT_CACHE_DIR,
        metavar="DIR",
        help=f"directory of the result cache (default: {DEFAULT_CACHE_DIR})",
    )


def add_unused_cache_dir(parser: argparse.ArgumentParser) -> None:
    """Accepts the option, so that scripts can pass the same options to all commands."""
    parser.add_argument("--cache-dir", default=DEFAULT_CACHE_DIR, help=argparse.SUPPRESS)


def _directory(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def config_dir() -> str:
    return os.environ.get("NETCONFPATH") or DEFAULT_CONFIG_DIR


def runtime(args: argparse.Namespace) -> Runtime:
    return Runtime(plugin_dirs(), cache_dir=args.cache_dir, timeout=args.timeout)


def network(args: argparse.Namespace) -> NetworkConfig:
    catalogue = load_networks(config_dir())
    found = catalogue.find(args.network)
    warn_of_problems(args, catalogue)
    return found


def is_cached(runtime: Runtime, network: str, container_id: str, ifname: str | None = None) -> bool:
    """Whether the cache has a result. True if the cache cannot be read."""
    try:
        found = runtime.attachments(container_id)
    except CNIError:
        return True
    return any(it.network == network and ifname in (None, it.ifname) for it in found)


def warn_of_problems(args: argparse.Namespace, catalogue: Catalogue) -> None:
    for problem in catalogue.problems:
        warn(args, f"skipped {problem}")


def endpoint(args: argparse.Namespace, is_known: Callable[[str], bool] = is_unknown) -> Endpoint:
    netns = path_of(args.netns, is_known)
    return Endpoint(
        container_id=args.container_id or container_id(netns),
        netns=netns,
        ifname=args.ifname or os.environ.get("CNI_IFNAME") or "eth0",
        args=_cni_args(os.environ.get("CNI_ARGS", "")),
        capability_args=_capability_args(os.environ.get("CAP_ARGS", "")),
    )


@contextmanager
def blaming_the_environment(network: NetworkConfig, endpoint: Endpoint) -> Iterator[None]:
    """Advises to correct the environment if netloom's plugin refuses a value, but the file is valid."""
    try:
        yield
    except InvalidConfig as error:
        given = [
            name for name, it in (("CAP_ARGS", endpoint.capability_args), ("CNI_ARGS", endpoint.args)) if it
        ]
        if error.plugin != _OURS or not given or _refusals(network):
            raise
        raise Advised(
            error,
            f"correct the value of {' or '.join(given)} in the environment; the network's file is valid",
        ) from None


def _refusals(network: NetworkConfig) -> list[CNIError]:
    from ....ops.node.networks import refusals

    return refusals(network)


def _cni_args(text: str) -> tuple[tuple[str, str], ...]:
    try:
        pairs = split_pairs(text)
        if not all(key and value for key, value in pairs):
            raise InvalidEnvironment("a key or a value is empty")
    except CNIError as error:
        raise UsageError(f"CNI_ARGS must be KEY=VALUE;KEY=VALUE: {error}") from None
    return tuple(pairs)


def _capability_args(text: str) -> dict[str, Any]:
    if not text or text.strip() == "null":  # Go reads null as an empty map
        return {}
    try:
        return decode_object(os.fsencode(text), "CAP_ARGS is not a JSON object")
    except CNIError as error:
        raise UsageError(str(error)) from None
