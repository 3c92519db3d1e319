"""Where an agent keeps its state, where it listens, and where runtimes look: the same options for every
command that needs them."""

from __future__ import annotations

import argparse
import os

STATE_DIR = "/var/lib/netloom"
SOCKET = "/run/netloom/agent.sock"
CONF_DIR = "/etc/cni/net.d"
PLUGIN_DIR = "/opt/cni/bin"

# sockaddr_un has room for 108, the last of which is zero.
_SOCKET_PATH_MAX = 107


def add_place(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)
    parser.add_argument(
        "--socket",
        metavar="PATH",
        type=_socket_path,
        default=default_socket(),
        help=f"where the agent listens (default {SOCKET}, or $NETLOOM_SOCKET)",
    )


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        type=absolute,
        default=default_state_dir(),
        help=f"where the journal is (default {STATE_DIR}, or $NETLOOM_STATE_DIR)",
    )


def default_socket() -> str:
    return os.environ.get("NETLOOM_SOCKET") or SOCKET


def default_state_dir() -> str:
    return os.environ.get("NETLOOM_STATE_DIR") or STATE_DIR


def add_conf_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conf-dir",
        metavar="DIR",
        type=absolute,
        default=os.environ.get("NETCONFPATH") or CONF_DIR,
        help=f"where networks are configured (default {CONF_DIR}, or $NETCONFPATH)",
    )


def absolute(text: str) -> str:
    """An agent that was started from here must find it from anywhere."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    try:
        return os.path.abspath(text)
    except OSError as cause:
        raise argparse.ArgumentTypeError(f"is relative, and there is no current directory: {cause}") from None


def nameable(text: str) -> str:
    """A directory whose path can be written down: receipts are JSON, which is text."""
    path = absolute(text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("its path is not UTF-8, and cannot be written down") from None
    return path


def _socket_path(text: str) -> str:
    path = absolute(text)
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise argparse.ArgumentTypeError(f"a socket's path may have {_SOCKET_PATH_MAX} bytes: {path}")
    return path


def intents_dir(args: argparse.Namespace) -> str:
    return os.path.join(os.path.dirname(args.socket), "intents")
