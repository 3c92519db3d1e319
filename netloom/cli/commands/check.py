"""Compare the journal with the kernel, and with --repair correct the kernel.

NAME is a network, or an attachment in any form that `netloom inspect` accepts. Without NAME, the command
compares all attachments, the nft table and the pools. It only reads, and needs no agent. With --repair, the
agent restores missing objects and corrects changed ones. It recreates a container's link only with
--recreate, since that ends the container's connections. It keeps addresses that were added by hand. The exit
status is 1 if the kernel differs from a plan, or still does after a repair.

examples:
  netloom check
  netloom check netloom --json
  netloom check shop/api-0 --repair
  netloom check 3f2a9c --repair --recreate
"""

from __future__ import annotations

import argparse

from ...api.protocol import RepairedAttachment
from ...api.text import printable
from ...ops.advice import require_root
from ...ops.errors import UsageError
from ...ops.inspect.documents import Checked
from ..arguments import add_conf_dir, add_json, add_place, place_of
from ..exit_status import FAILED
from ..terminal.output import Progress, say
from ..terminal.tables import print_json

OUTPUT = Checked


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="network or attachment to check (default: all)"
    )
    parser.add_argument(
        "--repair", action="store_true", help="let the agent restore missing objects and correct changed ones"
    )
    parser.add_argument(
        "--recreate", action="store_true", help="with --repair: recreate a link if nothing else helps"
    )
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...ops.inspect.checking import check, repair

    if args.recreate and not args.repair:
        raise UsageError("--recreate needs --repair", "add --repair, or remove --recreate")
    require_root("comparing the journal with the kernel")
    with Progress() as progress:
        if args.repair:
            checked = repair(place_of(args), args.name, progress.update, recreate=args.recreate)
        else:
            checked = check(place_of(args), args.name, progress.update)
    if not args.json:
        _show(args, checked)
    else:
        print_json(checked)
    return FAILED if checked.findings or any(it.error for it in checked.repaired or ()) else 0


def _show(args: argparse.Namespace, it: Checked) -> None:
    from ..terminal.reports import findings_lines

    if it.table:
        say("the nft table was recreated")
    for one in it.repaired or ():
        say(*map(printable, _done(one)))
    count = len(it.attachments)
    what = "attachment" if count == 1 else "attachments"
    of = "" if args.name is None else f" of {printable(args.name)}"
    if it.findings:
        many = "1 finding" if len(it.findings) == 1 else f"{len(it.findings)} findings"
        say(f"{many} in {count} {what}{of}", *findings_lines(it.findings))
    else:
        say(f"journal and kernel agree: {count} {what}{of}, all as planned")


def _done(it: RepairedAttachment) -> list[str]:
    lines = [it.attachment]
    lines += [f"  put back: {one}" for one in it.put_back]
    lines += [f"  set right: {one}" for one in it.set_right]
    lines += ["  link recreated"] if it.recreated else []
    lines += [f"  not repaired: {one}" for one in it.left]
    return [*lines, *([f"  repair failed: {it.error}"] if it.error else [])]
