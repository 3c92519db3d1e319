"""What the `cni` commands work on, from their arguments and cnitool's environment variables."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ...cni import (
    DEFAULT_CACHE_DIR,
    Catalogue,
    CNIError,
    Endpoint,
    InvalidEnvironment,
    NetworkConfig,
    Runtime,
    load_networks,
)
from ...cni.args import split_pairs
from ...cni.runtime import DEFAULT_TIMEOUT
from ...cni.wire import decode_object
from ..arguments import seconds
from ..failure import UsageError, warn

DEFAULT_CONFIG_DIR = "/etc/cni/net.d"
# Where runtimes and the distribution put plugins; cnitool has no default.
DEFAULT_PLUGIN_DIRS = "/opt/cni/bin:/usr/lib/cni"


def add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", help="a network's name in NETCONFPATH")


def add_attachment(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    parser.add_argument("netns", metavar="NETNS", help="the namespace's path, such as /run/netns/NAME")
    parser.add_argument("ignored", nargs="*", default=[], help=argparse.SUPPRESS)  # as cnitool does
    parser.add_argument("-i", "--ifname", metavar="NAME", help="interface name (default: CNI_IFNAME or eth0)")
    parser.add_argument(
        "--container-id", metavar="ID", help="the container (default: a name that follows from NETNS)"
    )


def add_unused(parser: argparse.ArgumentParser) -> None:
    """What cnitool asks of the verbs that are about a network as a whole."""
    parser.add_argument(
        "ignored", metavar="NETNS", nargs="*", default=[], help="not used; cnitool asks for it"
    )
    parser.add_argument("-i", "--ifname", metavar="NAME", help="not used; cnitool takes it")


def add_runtime(parser: argparse.ArgumentParser) -> None:
    add_cache_dir(parser)
    add_timeout(parser, int(DEFAULT_TIMEOUT))


def add_timeout(parser: argparse.ArgumentParser, default: int, what: str = "for all of it") -> None:
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
        help=f"where results are kept (default: {DEFAULT_CACHE_DIR})",
    )


def add_unused_cache_dir(parser: argparse.ArgumentParser) -> None:
    """Taken, so that scripts may give all commands the same options."""
    parser.add_argument("--cache-dir", default=DEFAULT_CACHE_DIR, help=argparse.SUPPRESS)


def _directory(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def config_dir() -> str:
    return os.environ.get("NETCONFPATH") or DEFAULT_CONFIG_DIR


def plugin_dirs() -> list[str]:
    return (os.environ.get("CNI_PATH") or DEFAULT_PLUGIN_DIRS).split(os.pathsep)


def runtime(args: argparse.Namespace) -> Runtime:
    return Runtime(plugin_dirs(), cache_dir=args.cache_dir, timeout=args.timeout)


def network(args: argparse.Namespace) -> NetworkConfig:
    catalogue = load_networks(config_dir())
    found = catalogue.find(args.network)
    warn_of_problems(args, catalogue)
    return found


def warn_of_problems(args: argparse.Namespace, catalogue: Catalogue) -> None:
    for problem in catalogue.problems:
        warn(args, f"passed over {problem}")


def endpoint(args: argparse.Namespace) -> Endpoint:
    if not args.netns:
        raise UsageError("NETNS is empty: give the namespace's path, such as /run/netns/NAME")
    try:
        netns = os.path.abspath(args.netns)
    except OSError as cause:
        raise UsageError(f"NETNS is relative, and there is no current directory: {cause.strerror}") from None
    return Endpoint(
        container_id=args.container_id or container_id(netns),
        netns=netns,
        ifname=args.ifname or os.environ.get("CNI_IFNAME") or "eth0",
        args=_cni_args(os.environ.get("CNI_ARGS", "")),
        capability_args=_capability_args(os.environ.get("CAP_ARGS", "")),
    )


def container_id(netns: str) -> str:
    """cnitool's name for a container that is known by its namespace alone."""
    from hashlib import sha512

    return f"cnitool-{sha512(os.fsencode(netns)).digest()[:10].hex()}"


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
