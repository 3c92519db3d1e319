"""Try what containers on a network need, with two throw-away ones: ping and TCP both ways in both families,
path MTU, the host, the way out, hairpin, a host port, limits, anti-spoofing, isolation.

Any CNI network will do; without NETWORK, it is the only one of netloom's that is configured. Needs root. What
was made is removed whatever happens; what a killed run has left goes with the next. The exit status is 1 if
something failed, and 124 if --timeout was over before all was tried.

environment:
  NETCONFPATH  directory of network configurations, unless --conf-dir says another
  CNI_PATH     directories of plugins, unless --plugin-dir says others

examples:
  netloom connectivity
  netloom connectivity mynet --json
  netloom connectivity --bandwidth 50M     measures a limit
  netloom connectivity --keep              leaves the two containers, for a look
  netloom connectivity --skip out
"""

from __future__ import annotations

import argparse
import os

from ..arguments import add_json
from ..cni.target import add_cache_dir, add_timeout, plugin_dirs
from ..place import absolute, add_conf_dir, add_place
from ..privileges import require_root
from .rates import bits
from .report import Connectivity

OUTPUT = Connectivity
_TIMEOUT = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network", metavar="NETWORK", nargs="?", help="its name (default: netloom's, if there is one only)"
    )
    parser.add_argument(
        "--bandwidth",
        metavar="BITS",
        type=bits,
        help="limit one of the two to so many bits a second, such as 50M, and measure it",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the containers, and say how to remove them"
    )
    parser.add_argument(
        "--skip", metavar="WHAT", action="append", default=[], help="do not try this, such as out"
    )
    parser.add_argument(
        "--plugin-dir",
        metavar="DIR",
        type=absolute,
        action="append",
        help="where plugins are; may be repeated (default: CNI_PATH)",
    )
    add_conf_dir(parser)
    add_cache_dir(parser)
    add_place(parser)
    add_timeout(parser, _TIMEOUT, "for all of it but removing what was made")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("making containers")
    # The plugin asks the agent that this command asks.
    os.environ["NETLOOM_SOCKET"] = args.socket
    from .session import run as run_session

    return run_session(args, args.plugin_dir or plugin_dirs())
