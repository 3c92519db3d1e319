"""Make an archive for a bug report: versions, output of netloom's commands, network configurations, an
extract of the journal, the kernel's state, the agent's log and metrics.

The command removes secrets: values of keys and options whose names suggest a secret, strings that look like
keys or tokens, users and passwords in URLs, and arguments of runtimes. It sends nothing; read the archive
before you send it. It works without an agent, a journal or a node, and needs root only for what only root can
read. MANIFEST.json in the archive lists what could not be read, and why.

examples:
  netloom bundle
  netloom bundle /tmp/report.tar.gz --force
  netloom bundle --anonymous          replaces addresses, MACs, names of pods and networks
  netloom bundle --max-size 1M --json
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from ...api.text import printable
from ...ops.bundle.archive import Bundle, Part
from ..arguments import add_conf_dir, add_json, add_place, place_of
from ..terminal.output import progress_line, require_output, say
from ..terminal.tables import print_json, table
from .cni.target import add_cache_dir, add_timeout

if TYPE_CHECKING:
    from ...ops.bundle.session import CommandDocument

OUTPUT = Bundle
# Commands whose JSON output is in the archive.
_COMMANDS = (
    ("status", "state of the node"),
    ("ls", "attachments"),
    ("pools", "pools and their usage"),
    ("ports", "host ports"),
    ("doctor", "problems of the node"),
    ("cni validate", "networks and their errors"),
    ("cni attachments", "attachments in the result cache"),
    ("journal verify", "state of the journal"),
)
_TIMEOUT = 60
_OPERATIONS = 1000
_DEFAULT_SIZE, _LEAST_SIZE, _MOST_SIZE = "10M", 32 << 10, 1 << 30
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="path of the archive (default: netloom-HOST-DATE.tar.gz in the current directory)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing regular file")
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="replace addresses, MACs and names of pods, containers and networks, each consistently",
    )
    parser.add_argument(
        "--max-size",
        metavar="BYTES",
        type=_size,
        default=_size(_DEFAULT_SIZE),
        help=f"maximum size of the archive, such as 500k; parts are cut to fit (default: {_DEFAULT_SIZE})",
    )
    parser.add_argument(
        "--operations",
        metavar="NUMBER",
        type=_number,
        default=_OPERATIONS,
        help=f"number of the journal's latest operations to include (default: {_OPERATIONS})",
    )
    add_place(parser)
    add_conf_dir(parser)
    add_cache_dir(parser)
    add_timeout(parser, _TIMEOUT)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...ops.bundle.session import BundleOptions
    from ...ops.bundle.session import run as run_session

    require_output()
    options = BundleOptions(
        place=place_of(args),
        cache_dir=args.cache_dir,
        timeout=args.timeout,
        max_size=args.max_size,
        operations=args.operations,
        file=args.file,
        force=args.force,
        anonymous=args.anonymous,
        documents=_documents(args.cache_dir),
    )
    with progress_line(shown=not args.json) as show_progress:
        found = run_session(options, show_progress)
    if args.json:
        print_json(found)
    else:
        _show(found)
    return 0


def _documents(cache_dir: str) -> tuple[CommandDocument, ...]:
    """netloom's own commands, each of which runs in a process of its own."""
    from ...ops.bundle.session import CommandDocument

    made = []
    for words, about in _COMMANDS:
        name = f"node/{words.replace(' ', '-')}.json"
        cache = ("--cache-dir", cache_dir) if words == "cni attachments" else ()
        command = (sys.executable, "-P", "-m", "netloom.cli.main", *words.split(), "--json", *cache)
        made.append(CommandDocument(name, f"{about}: `netloom {words}`", command))
    return tuple(made)


def _show(found: Bundle) -> None:
    rows = [_row(part) for part in found.manifest.parts]
    say(*table(rows, ("NAME", "BYTES", "REMARKS")), "")
    say(printable(f"written: {found.path} ({found.size} bytes)"))
    if not found.manifest.in_time:
        say("the timeout ended before all sources had answered: raise it with --timeout")
    say("read the archive before you send it: only secrets that netloom recognizes are removed")


def _row(part: Part) -> tuple[str, str, str]:
    error = f"{'error' if part.size else 'missing'}: {part.error}" if part.error else ""
    remarks = [f"cut: {part.cut}" if part.cut else "", error]
    return part.name, str(part.size) if part.size else "", "; ".join(filter(None, remarks))


def _size(text: str) -> int:
    """
    >>> _size("500k"), _size("10M")
    (512000, 10485760)
    """
    found = re.fullmatch(r"([0-9]{1,12})([kmg]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a size in bytes, such as 500k or 10M")
    size = int(found[1]) * _SIZES[found[2]]
    if not _LEAST_SIZE <= size <= _MOST_SIZE:
        raise argparse.ArgumentTypeError("must be from 32k to 1G")
    return size


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to 1000000")
    return int(text)
