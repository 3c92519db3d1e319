"""Show the log of operations: requests of runtimes, and what the agent did by itself, such as repairs.

Each operation is one line; with --json, one JSON object per line. --follow runs until it is interrupted, also
while the agent restarts or the journal is replaced. The command needs no agent.

examples:
  netloom events
  netloom events --follow
  netloom events --since 10m --failed
  netloom events --since 02:00 --verb ADD,DEL --json
"""

from __future__ import annotations

import argparse
import time

import msgspec

from ...api.text import encodable, printable, printable_line, short_id
from ...api.times import shown
from ...journal import EVENTS
from ...ops.errors import UsageError
from ...ops.explain.events import Event, EventFilter, Stream, outcome_of, pod_of, took
from ..arguments import add_json, add_place, place_of, time_or_duration
from ..failure import warn
from ..terminal.output import complain, say, write_bytes

OUTPUT = Event

_VERBS = ("ADD", "CHECK", "DEL", "GC", "STATUS", *EVENTS)
_LIMIT, _TAIL = 100, 10
_LOOK_EVERY = 0.25


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="wait for new operations and print them")
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=time_or_duration,
        help="show operations since this time: 10m, 02:13, 2026-11-16 02:13, @1700000000.5, …",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=_count,
        help=f"number of past operations to show, the latest (default: {_LIMIT}; with --follow {_TAIL}; with "
        "--since all)",
    )
    parser.add_argument(
        "--verb",
        metavar="VERB",
        action="append",
        default=[],
        help="show only these verbs, separated by commas: ADD, DEL, REPAIR, …; repeatable",
    )
    parser.add_argument("--failed", action="store_true", help="show only failed operations")
    add_place(parser)
    add_json(parser)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number of events")
    return int(text)


def run(args: argparse.Namespace) -> int:
    wanted = EventFilter(_verbs(args.verb), args.failed, args.since)
    limit = args.limit
    if limit is None and args.since is None:
        limit = _TAIL if args.follow else _LIMIT
    stream = Stream(place_of(args), lambda text: _warn(args, text))
    before = stream.before(wanted, limit)
    for it in before:
        _show(it, args.json)
    if not before and not args.follow and not args.json:
        say(_nothing(stream.is_empty))
    while args.follow:
        time.sleep(_LOOK_EVERY)
        for it in stream.since(wanted):
            _show(it, args.json)
    return 0


def _show(it: Event, as_json: bool) -> None:
    """Prints without buffering, since a stream may pause after any event."""
    if as_json:
        write_bytes(_encoded(it) + b"\n")
    else:
        say(printable_line(_line(it)))


def _encoded(it: Event) -> bytes:
    try:
        return msgspec.json.encode(it)
    except UnicodeEncodeError:  # a file name may have bytes that are not UTF-8
        return msgspec.json.encode(encodable(msgspec.to_builtins(it)))


def _line(it: Event) -> str:
    key = "/".join(filter(None, (it.network, short_id(it.container_id), it.ifname)))
    parts = [
        shown(it.started, precise=True),
        f"{it.verb:7}",
        key,
        pod_of(it),
        took(it.duration) if it.duration else "",
        f"by {it.caller}" if it.caller else "",
        f"FAILED {outcome_of(it)}" if it.failed else outcome_of(it),
    ]
    return "  ".join(filter(None, parts))


def _warn(args: argparse.Namespace, text: str) -> None:
    """Warns at once with --follow, which has no end at which a warning could be printed."""
    if args.follow:
        complain(f"warning: {printable(text)}")
    else:
        warn(args, text)


def _nothing(is_empty: bool) -> str:
    return "the log of operations is empty" if is_empty else "no operation matches"


def _verbs(given: list[str]) -> frozenset[str]:
    words = frozenset(word.strip().upper() for words in given for word in words.split(",") if word.strip())
    unknown = sorted(words - set(_VERBS))
    if unknown:
        raise UsageError(f"unknown verb {unknown[0]!r}", f"the verbs are {', '.join(_VERBS)}")
    return words
