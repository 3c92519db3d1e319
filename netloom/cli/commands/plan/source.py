"""The plan's file and its namespaces, which apply, check and remove share."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ....kernel import InvalidPlan, KernelTimeout, Namespace, Plan, Scope
from ....ops.cni_environment import path_of
from ....ops.errors import UsageError
from ....waiting import lock_exclusively
from ...arguments import add_json

_LARGEST = 16 << 20
_PATIENCE = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file with the plan as JSON; - for standard input")
    parser.add_argument(
        "--netns",
        metavar="NETNS",
        help='network namespace of objects on "attachment": a path, or a name in `ip netns`',
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
            if sys.stdin is None:
                raise UsageError("standard input is closed")
            data = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_LARGEST + 1)
    except OSError as cause:
        raise UsageError(f"cannot read {path}: {cause.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"{path} is larger than {_LARGEST >> 20} MiB, the limit for a plan")
    return data


@contextmanager
def undisturbed() -> Iterator[None]:
    """Runs one change at a time on a host, and delays signals until it is complete or rolled back.

    Of two concurrent changes, one could keep an object that the other is about to roll back. The namespace
    itself is the lock, which leaves no file behind.
    """
    lock = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock_host(lock)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        os.close(lock)


def _lock_host(lock: int) -> None:
    try:
        lock_exclusively(lock, _PATIENCE)
    except TimeoutError:
        text = f"another `netloom plan` ran on this host for {_PATIENCE} s; nothing was changed"
        raise KernelTimeout(text) from None


def require_namespace(plan: Plan, args: argparse.Namespace) -> None:
    """Refuses a plan with objects in a namespace that was not given, since all would count as missing."""
    if args.netns is None:
        inside = next((item for item in plan.objects if "attachment" in item.places()), None)
        if inside is not None:
            raise UsageError(f"{inside.label} needs the attachment's namespace: pass it with --netns")


@contextmanager
def scope(args: argparse.Namespace) -> Iterator[Scope]:
    with Namespace.own() as host:
        if args.netns is None:
            yield Scope(host)
            return
        with Namespace.open(path_of(args.netns)) as attachment:
            yield Scope(host, attachment)
