"""Make one archive for a bug report: versions, what netloom's commands say, networks' files, an extract of
the journal, the kernel's state, the agent's log and metrics.

Secrets are removed: what stands under a name that looks like one, or behind an option that does, keys and
tokens by their looks, whom URLs name, and arguments of runtimes. Nothing is sent anywhere; look at it before
you do. It needs no agent, no journal and no node, and root only to read what only root can. What could not be
had is listed in it, in MANIFEST.json.

examples:
  netloom bundle
  netloom bundle /tmp/report.tar.gz --force
  netloom bundle --anonymous          other names for addresses, MACs, pods and networks
  netloom bundle --max-size 1M --json
"""

from __future__ import annotations

import argparse
import re

from ..arguments import add_json
from ..cni.target import add_cache_dir, add_timeout
from ..place import add_conf_dir, add_place
from .manifest import Bundle

OUTPUT = Bundle
_TIMEOUT = 60
_OPERATIONS = 1000
_DEFAULT_SIZE, _LEAST_SIZE, _MOST_SIZE = "10M", 32 << 10, 1 << 30
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="the archive (default: netloom-HOST-DATE.tar.gz in this directory)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there; a file only")
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="replace addresses, MACs, names of pods, containers, networks, each by the same everywhere",
    )
    parser.add_argument(
        "--max-size",
        metavar="BYTES",
        type=_size,
        default=_size(_DEFAULT_SIZE),
        help=f"of the archive, such as 500k; what does not fit is cut, and says so (default {_DEFAULT_SIZE})",
    )
    parser.add_argument(
        "--operations",
        metavar="NUMBER",
        type=_number,
        default=_OPERATIONS,
        help=f"how many of the journal's last operations (default: {_OPERATIONS})",
    )
    add_place(parser)
    add_conf_dir(parser)
    add_cache_dir(parser)
    add_timeout(parser, _TIMEOUT)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from .session import run as run_session

    return run_session(args)


def _size(text: str) -> int:
    """
    >>> _size("500k"), _size("10M")
    (512000, 10485760)
    """
    found = re.fullmatch(r"([0-9]{1,12})([kmg]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no size: bytes, such as 500k or 10M")
    size = int(found[1]) * _SIZES[found[2]]
    if not _LEAST_SIZE <= size <= _MOST_SIZE:
        raise argparse.ArgumentTypeError("must be from 32k to 1G")
    return size


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to 1000000")
    return int(text)
