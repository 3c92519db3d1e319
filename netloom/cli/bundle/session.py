"""One run: everything is asked, cleaned, packed, written, and listed."""

from __future__ import annotations

import argparse
import os
import re
import socket
import time

from ... import __version__
from ..connectivity.view import progress
from ..failure import CommandFailed, UsageError
from ..output import printable, require_output, say
from ..views import print_json, table
from .archive import Exists, packed, what_is_at, write
from .documents import end_running
from .gather import gather, sources
from .making import Cleaner, entries, members
from .manifest import Bundle, Manifest, Part
from .member import Asked

_DIRECTORY = "netloom-bundle"
_UNKNOWN_HOST = "node"
_NAMES = 50


def run(args: argparse.Namespace) -> int:
    require_output()
    deadline = time.monotonic() + args.timeout
    asked = Asked(args.state_dir, args.socket, args.conf_dir, args.cache_dir, args.operations)
    made = time.time()
    host = _UNKNOWN_HOST if args.anonymous else socket.gethostname()
    path = _path(args, host, made, asked.journal)
    person = not args.json
    with progress(shown=person) as tell:
        cleaner = Cleaner(anonymous=args.anonymous)
        cleaner.learn(asked)
        try:
            gathered, in_time = gather(asked, sources(), deadline, tell)
        finally:
            end_running()
        tell("packing")
        cleaner.learn(asked, gathered)
        manifest = Manifest(
            netloom=__version__,
            made=made,
            host=host,
            anonymous=args.anonymous,
            in_time=in_time,
            parts=(),
        )
        manifest, content = members(entries(gathered, cleaner), manifest, args.max_size)
        archive = packed(_DIRECTORY, content, made)
        path = _written(path, archive, force=args.force, may_rename=args.file is None)
    found = Bundle(path=path, size=len(archive), manifest=manifest)
    if person:
        _show(found)
    else:
        print_json(found)
    return 0


def _path(args: argparse.Namespace, host: str, made: float, journal: str) -> str:
    """Refused now if it cannot be, and not when all the work is done."""
    if args.file is None:
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(made))
        name = f"netloom-{re.sub('[^A-Za-z0-9.-]', '_', host)}-{when}.tar.gz"
    else:
        name = args.file
    try:
        path = os.path.abspath(name)
    except OSError as cause:
        raise _unwritable(name, cause) from None
    if os.path.realpath(path).startswith(os.path.realpath(journal)):
        raise UsageError(f"{path} is the journal itself", "give another FILE")
    what = what_is_at(path)
    if what is not None and not os.path.isdir(path):
        raise _exists(path, what)
    if args.file is not None and not args.force and os.path.lexists(path):
        raise _exists(path)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        what = "is a directory" if os.path.isdir(path) else "is in no directory that is there"
        raise CommandFailed(f"{path} {what}", "give the path of a file", code="bundle-unwritable")
    return path


def _written(path: str, archive: bytes, *, force: bool, may_rename: bool) -> str:
    """A name that we have chosen ourselves may have been chosen twice in a second."""
    stem, what = path.removesuffix(".tar.gz"), None
    for number in range(1, _NAMES if may_rename else 2):
        chosen = path if number == 1 else f"{stem}-{number}.tar.gz"
        try:
            write(chosen, archive, force=force)
            return chosen
        except Exists as error:
            what = error.what
        except OSError as cause:
            raise _unwritable(chosen, cause) from None
    raise _exists(path, what)


def _exists(path: str, what: str | None = None) -> CommandFailed:
    if what is not None:
        return CommandFailed(
            f"{path} is {what}, which is never replaced; nothing was written",
            "give the path of a file",
            code="bundle-exists",
        )
    return CommandFailed(f"{path} is there already", "give another name, or --force", code="bundle-exists")


def _unwritable(path: str, cause: OSError) -> CommandFailed:
    return CommandFailed(
        f"cannot write {path}: {cause.strerror}",
        "look at the directory: its permissions, and space on its disk; or give another FILE",
        code="bundle-unwritable",
    )


def _show(found: Bundle) -> None:
    rows = [_row(part) for part in found.manifest.parts]
    say(*table(rows, ("NAME", "BYTES", "REMARKS")), "")
    say(printable(f"written: {found.path} ({found.size} bytes)"))
    if not found.manifest.in_time:
        say("the time was over before all was asked: --timeout gives more")
    say("look at what is in it before you send it to anybody; secrets that netloom knows of are removed")


def _row(part: Part) -> tuple[str, str, str]:
    trouble = f"{'it says' if part.size else 'missing'}: {part.error}" if part.error else ""
    remarks = [f"cut: {part.cut}" if part.cut else "", trouble]
    return part.name, str(part.size) if part.size else "", "; ".join(filter(None, remarks))
