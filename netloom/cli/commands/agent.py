"""Run the node agent in the foreground. It serves the plugin until SIGTERM or Ctrl-C.

On start, the agent finishes or rolls back the operations that an earlier agent left unfinished. Containers
keep their networks while no agent runs. A state directory has one agent at a time. With --take-over, the new
agent takes the socket over from the running one: calls wait for a moment, none fails. If the takeover fails,
the running agent continues unchanged. The agent supports socket activation, readiness notification and the
watchdog of systemd, and works without systemd.

examples:
  netloom agent
  netloom agent --state-dir /var/lib/netloom --socket /run/netloom/agent.sock
  netloom agent --take-over    replaces the running agent, as `netloom up` does after an upgrade
  netloom agent --metrics-listen 192.0.2.7:9478 --log-format json
"""

from __future__ import annotations

import argparse
import os
import sys

from ...ops.errors import OperationFailed, UsageError
from ..arguments import add_conf_dir, add_place, seconds

METRICS_LISTEN = "127.0.0.1:9478"
_LEVELS = ("debug", "info", "warning", "error")

# No output: the log is written to standard error.
OUTPUT = None


def arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    add_conf_dir(parser)
    parser.add_argument(
        "--grace",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="time from the removal of a namespace to the release of its attachments (default: 30)",
    )
    parser.add_argument(
        "--tick",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="interval of the checks for missing objects and leaks (default: 1)",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="replace the running agent, if there is one, without failing a call",
    )
    parser.add_argument(
        "--metrics-listen",
        type=_listening_at,
        default=os.environ.get("NETLOOM_METRICS_LISTEN") or METRICS_LISTEN,
        metavar="ADDRESS:PORT",
        help="address of the HTTP server for /metrics, /livez and /readyz; none disables it (default: "
        f"$NETLOOM_METRICS_LISTEN or {METRICS_LISTEN})",
    )
    parser.add_argument(
        "--log-format",
        choices=("human", "json"),
        metavar="FORMAT",
        help="log format: human, or json, one object per line (default: human on a terminal, else json)",
    )
    parser.add_argument(
        "--log-level",
        choices=_LEVELS,
        default="info",
        metavar="LEVEL",
        help=f"least level to log: {', '.join(_LEVELS)} (default: info)",
    )
    parser.add_argument("--quiet", action="store_true", help="the same as --log-level warning")
    parser.add_argument("--json", action="store_true", help="the same as --log-format json")


def _listening_at(text: str) -> tuple[str, int] | None:
    if text == "none":
        return None
    import socket

    host, _, port = text.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") and host.endswith("]") else socket.AF_INET
    address = host.strip("[]")
    try:
        socket.inet_pton(family, address)
        if not (port.isascii() and port.isdecimal() and 0 < int(port) <= 65535):
            raise ValueError
    except (OSError, ValueError):
        raise argparse.ArgumentTypeError(
            f"must be an address and a port, such as {METRICS_LISTEN} or [::1]:9478, or none"
        ) from None
    return address, int(port)


def _wants_json(args: argparse.Namespace) -> bool:
    if args.json or args.log_format is not None:
        return bool(args.json) or args.log_format == "json"
    return sys.stderr is None or not sys.stderr.isatty()


def run(args: argparse.Namespace) -> int:
    import asyncio
    import faulthandler
    import logging

    from ...agent.handover.successor import HandoverRefused, Withdrawn
    from ...agent.log import log_to_stderr
    from ...agent.main import serve
    from ...agent.server.listener import SocketInUse
    from ...agent.settings import Settings
    from ...agent.systemd import BadVariable, Manager
    from ...api.paths import UntrustedPath
    from ...journal import InUse, JournalError
    from ...kernel import KernelError
    from ...ops.journals.reading import advice_on, code_of
    from ...ops.node.table_contents import NodeOfAnother

    try:
        manager = Manager.of_environment(os.environ)
    except BadVariable as error:
        raise UsageError(
            str(error),
            f"correct it where the agent is started, or unset it: `env -u {error.name} netloom agent`",
        ) from None
    level = "warning" if args.quiet else args.log_level
    log_to_stderr(level=getattr(logging, level.upper()), json=_wants_json(args))
    settings = Settings(
        state_dir=args.state_dir,
        socket=args.socket,
        grace=args.grace,
        tick=args.tick,
        conf_dir=args.conf_dir,
        web=args.metrics_listen,
    )
    if sys.stderr is not None:
        faulthandler.enable()  # when the watchdog kills a hung agent, the log shows the stack
    try:
        asyncio.run(serve(settings, manager, take_over=args.take_over))
    except InUse as error:
        raise OperationFailed(
            str(error),
            "`netloom status` shows the running agent; `netloom down` stops it",
            code="journal-in-use",
        ) from None
    except NodeOfAnother as error:
        raise OperationFailed(
            f"{error}; nothing was changed", error.another.advice(args.state_dir), code="node-of-another"
        ) from None
    except HandoverRefused as error:
        raise OperationFailed(
            str(error),
            "fix what the message names, and try again; the old agent still runs",
            code="handover-refused",
        ) from None
    except Withdrawn as error:
        raise OperationFailed(
            str(error), "the old agent still runs; see the logs of both agents", code="handover-withdrawn"
        ) from None
    except UntrustedPath as error:
        raise OperationFailed(str(error), error.weakness.remedy, code="path-untrusted") from None
    except SocketInUse as error:
        raise OperationFailed(
            str(error),
            "fix what the message names, or pass another --socket; `netloom status` shows the running agent",
            code="socket-in-use",
        ) from None
    except JournalError as error:
        raise OperationFailed(str(error), advice_on(error), code=code_of(error)) from None
    except KernelError as error:
        raise OperationFailed(
            f"cannot prepare the node: {error}",
            "`netloom doctor` lists what is missing",
            code="node-unprepared",
        ) from None
    return 0
