"""Run the node agent in the foreground: it serves the plugin until it is told to stop (SIGTERM, Ctrl-C).

Before it serves, it finishes or undoes what an agent before it left unfinished. Containers keep their
networks while no agent runs; only one agent can have a state directory at a time.

examples:
  netloom agent
  netloom agent --state-dir /var/lib/netloom --socket /run/netloom/agent.sock
"""

from __future__ import annotations

import argparse

from .arguments import seconds
from .failure import CommandFailed
from .place import add_place


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument(
        "--grace",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long a namespace must be gone before what it held is released (default 30)",
    )
    parser.add_argument(
        "--tick",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="how often to look for what was lost or left (default 1)",
    )
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    parser.add_argument("--json", action="store_true", help="log a JSON object a line")


def run(args: argparse.Namespace) -> int:
    import asyncio

    from ..agent.agent import serve
    from ..agent.node import Settings
    from ..agent.server import SocketInUse
    from ..journal import InUse, JournalError
    from ..kernel import KernelError
    from .journal import advice_on
    from .log import log_to_stderr

    log_to_stderr(quiet=args.quiet, json=args.json)
    settings = Settings(state_dir=args.state_dir, socket=args.socket, grace=args.grace, tick=args.tick)
    try:
        asyncio.run(serve(settings))
    except InUse as error:
        raise CommandFailed(
            str(error), "`netloom status` shows the agent that runs; `netloom down` stops it"
        ) from None
    except SocketInUse as error:
        raise CommandFailed(
            str(error),
            "do as it says, or give another --socket; `netloom status` tells who runs",
        ) from None
    except JournalError as error:
        raise CommandFailed(str(error), advice_on(error)) from None
    except KernelError as error:
        raise CommandFailed(
            f"the node cannot be prepared: {error}", "`netloom doctor` lists what is missing"
        ) from None
    return 0
