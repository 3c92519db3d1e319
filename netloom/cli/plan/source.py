"""What the three commands share: the plan's file and the namespaces it is for."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ...kernel import InvalidPlan, Namespace, Plan, Scope
from ..arguments import add_json
from ..failure import UsageError

_LARGEST = 16 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the plan, as JSON; - for standard input")
    parser.add_argument(
        "--netns",
        metavar="NETNS",
        help='the namespace of objects on "attachment": a path, or a name that `ip netns` knows',
    )
    add_json(parser)


def plan(args: argparse.Namespace) -> Plan:
    try:
        return Plan.decode(_read(args.file))
    except InvalidPlan as error:
        name = "standard input" if args.file == "-" else args.file
        raise InvalidPlan(f"{name}: {error}") from None


def _read(path: str) -> bytes:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_LARGEST + 1)
    except OSError as cause:
        raise UsageError(f"cannot read {path}: {cause.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"{path} is larger than {_LARGEST >> 20} MiB, which no plan is")
    return data


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C and the like wait until a change is whole, or taken back: a matter of milliseconds."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def scope(args: argparse.Namespace) -> Iterator[Scope]:
    with Namespace.own() as host:
        if args.netns is None:
            yield Scope(host)
            return
        path = args.netns if "/" in args.netns else f"/run/netns/{args.netns}"
        with Namespace.open(path) as attachment:
            yield Scope(host, attachment)
