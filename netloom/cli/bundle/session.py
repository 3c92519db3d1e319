"""One run: everything is asked, cleaned, packed, written, and listed."""

from __future__ import annotations

import argparse
import os
import re
import socket
import time

from ... import __version__
from ..connectivity.view import progress
from ..failure import CommandFailed
from ..output import printable, require_output, say
from ..views import for_a_person, print_json, table
from .archive import Exists, packed, write
from .documents import end_running
from .gather import gather, sources
from .known_secrets import known_secrets
from .making import Cleaner, entries, members, pseudonyms_for
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
    path = _path(args, host, made)
    person = for_a_person(args.json)
    with progress(shown=person) as tell:
        cleaner = Cleaner(known_secrets(asked), pseudonyms_for(asked) if args.anonymous else None)
        try:
            gathered, in_time = gather(asked, sources(), deadline, tell)
        finally:
            end_running()
        tell("packing")
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


def _path(args: argparse.Namespace, host: str, made: float) -> str:
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
    if args.file is not None and not args.force and os.path.lexists(path):
        raise _exists(path)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        what = "is a directory" if os.path.isdir(path) else "is in no directory that is there"
        raise CommandFailed(f"{path} {what}", "give the path of a file", code="bundle-unwritable")
    return path


def _written(path: str, archive: bytes, *, force: bool, may_rename: bool) -> str:
    """A name that we have chosen ourselves may have been chosen twice in a second."""
    stem = path.removesuffix(".tar.gz")
    for number in range(1, _NAMES if may_rename else 2):
        chosen = path if number == 1 else f"{stem}-{number}.tar.gz"
        try:
            write(chosen, archive, force=force)
            return chosen
        except Exists:
            continue
        except OSError as cause:
            raise _unwritable(chosen, cause) from None
    raise _exists(path)


def _exists(path: str) -> CommandFailed:
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
