"""Test a network with two temporary containers: ping and TCP in both directions and both families, path MTU,
access to the host and to the outside, hairpin, a host port, limits, anti-spoofing, isolation.

The command works with any CNI network, and needs root. It always removes the containers; after a run that was
killed, the next run removes them. The exit status is 1 if a probe failed, and 124 if --timeout ended before
all probes had run.

environment:
  NETCONFPATH  directory of network configurations, unless --conf-dir is given
  CNI_PATH     directories of plugins, unless --plugin-dir is given

examples:
  netloom connectivity
  netloom connectivity mynet --json
  netloom connectivity --bandwidth 50M     measures a bandwidth limit
  netloom connectivity --keep              keeps the two containers for debugging
  netloom connectivity --skip out
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Collection, Iterable

from ...api.text import printable
from ...ops.advice import require_root
from ...ops.cni_environment import plugin_dirs
from ...ops.connectivity.report import Connectivity, ProbeResult
from ..arguments import absolute, add_conf_dir, add_json, add_place, place_of
from ..exit_status import DEADLINE, FAILED, SIGNALLED
from ..failure import warn
from ..terminal.output import complain, progress_line, require_output, say
from ..terminal.tables import print_json, table
from .cni.target import add_cache_dir, add_timeout

OUTPUT = Connectivity
_TIMEOUT = 60
_HEADER = ("WHAT", "FAMILY", "FROM", "TO", "RESULT", "MS", "DETAIL")
_SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmg]?)(?:bit(?:/s)?)?", re.IGNORECASE)
_LEAST_RATE, _MOST_RATE = 8_000, 400_000_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network",
        metavar="NETWORK",
        nargs="?",
        help="network to test (default: netloom's network, if only one is configured)",
    )
    parser.add_argument(
        "--bandwidth",
        metavar="BITS",
        type=bits,
        help="bandwidth limit of one container, in bits per second, such as 50M, to be measured",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the containers, and print the commands that remove them"
    )
    parser.add_argument(
        "--skip", metavar="PROBE", action="append", default=[], help="probe to skip, such as out; repeatable"
    )
    parser.add_argument(
        "--plugin-dir",
        metavar="DIR",
        type=absolute,
        action="append",
        help="directory of plugins; repeatable (default: $CNI_PATH)",
    )
    add_conf_dir(parser)
    add_cache_dir(parser)
    add_place(parser)
    add_timeout(parser, _TIMEOUT, "time limit of the probes, without the clean-up")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_root("creating containers")
    # The plugin must call the same agent as this command.
    os.environ["NETLOOM_SOCKET"] = args.socket
    from ...ops.connectivity.session import ConnectivityOptions, Interrupted
    from ...ops.connectivity.session import run as run_session

    require_output()
    options = ConnectivityOptions(
        place=place_of(args)._replace(plugin_dir=None),
        plugin_dirs=tuple(args.plugin_dir or plugin_dirs()),
        cache_dir=args.cache_dir,
        timeout=args.timeout,
        network=args.network,
        bandwidth=args.bandwidth,
        keep=args.keep,
        skip=tuple(args.skip),
    )
    try:
        with progress_line(shown=not args.json) as show_progress:
            found = run_session(options, show_progress, lambda text: warn(args, text))
    except Interrupted as interrupted:
        return SIGNALLED + interrupted.number
    if args.json:
        print_json(found)
    else:
        _show(found, args.skip)
        _print_warnings(found)
    if not found.in_time:
        return DEADLINE
    return FAILED if found.failed or found.left else 0


def bits(text: str) -> int:
    """Returns bits per second.

    >>> bits("50M"), bits("1.5G"), bits("64kbit")
    (50000000, 1500000000, 64000)
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a rate in bits per second, such as 50M")
    rate = int(float(found[1]) * _SIZES[found[2].lower()])
    if not _LEAST_RATE <= rate <= _MOST_RATE:
        raise argparse.ArgumentTypeError("must be from 8k to 400G bits per second")
    return rate


def _show(found: Connectivity, skip: Collection[str]) -> None:
    """Prints a table, and below it the failed probes with their causes."""
    shown = [it for it in found.checks if it.result != "skipped" or it.what not in skip]
    say(*table([_row(it) for it in shown], _HEADER), "")
    for results in _by_cause(found):
        say(*map(printable, _explained(results)))
    say(_summary(found))
    if found.removal:
        say("", "the containers were kept; remove them with:", *(f"  {line}" for line in found.removal))


def _print_warnings(found: Connectivity) -> None:
    for warning in found.warnings:
        complain(f"warning: {printable(warning)}")
    for it in found.left:
        complain(printable(f"left:  {it.what}: {it.why}"), f"next:  {it.next}")


def _row(it: ProbeResult) -> tuple[str, ...]:
    shown = "" if it.result == "skipped" else f"{it.milliseconds:.1f}"
    return it.what, it.family, it.source, it.target, it.result, shown, it.detail


def _by_cause(found: Connectivity) -> Iterable[list[ProbeResult]]:
    """Groups the failed probes by their cause, so that each cause is printed once."""
    groups: dict[tuple[str, str, str], list[ProbeResult]] = {}
    for it in found.checks:
        if it.result == "failed":
            groups.setdefault((it.code, it.cause, it.next), []).append(it)
    return groups.values()


def _explained(results: list[ProbeResult]) -> list[str]:
    lines = [f"{it.what} {it.family} from {it.source} to {it.target}: {it.detail}" for it in results]
    first = results[0]
    lines += [f"  cause: {first.cause}"] if first.cause else []
    return [*lines, f"  next:  {first.next}", f"  more:  netloom explain {first.code}", ""]


def _summary(found: Connectivity) -> str:
    text = f"{found.network}: {found.passed} passed, {found.failed} failed, {found.skipped} skipped"
    return text if found.in_time else f"{text}; the timeout ended before all probes had run"
