"""Compare journal and kernel, and with --repair make the kernel as it should be.

NAME is a network, or an attachment as `netloom inspect` takes it; without one, everything is compared, also
the nft table and the pools. Reads only, and no agent is needed. --repair asks the agent: what is missing is
put back, what was changed is set right. A container's link is only made anew with --recreate, since that ends
its connections. Addresses that somebody added by hand are left. The exit status is 1 if something is not as
planned, or is left so.

examples:
  netloom check
  netloom check netloom --json
  netloom check shop/api-0 --repair
  netloom check 3f2a9c --repair --recreate
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ..api.findings import Finding
from ..api.repair import Repaired
from .arguments import add_json
from .failure import UsageError
from .output import printable, say
from .place import add_conf_dir, add_place
from .privileges import require_root
from .status import FAILED
from .views import print_json


class Checked(Struct, frozen=True):
    """What was compared, what was done about it, and what is not as it should be."""

    attachments: Annotated[list[str], Meta(description="what was compared, as network/container/interface")]
    repaired: Annotated[
        list[Repaired] | None, Meta(description="with --repair: what was done; null: it was not asked for")
    ]
    table: Annotated[bool, Meta(description="whether the node's nft table was laid down anew")]
    findings: Annotated[list[Finding], Meta(description="what is not as it should be, and what to do next")]


OUTPUT = Checked


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="only a network, or an attachment")
    parser.add_argument("--repair", action="store_true", help="ask the agent to make it as planned again")
    parser.add_argument(
        "--recreate", action="store_true", help="with --repair: make links anew, if nothing else helps"
    )
    add_place(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from .checking import look, look_patiently, repaired

    if args.recreate and not args.repair:
        raise UsageError("--recreate is for --repair", "add --repair, or leave it out")
    require_root("comparing with the kernel")
    done = None
    if args.repair:
        # Before it is known whether an agent could, nothing is said.
        done = repaired(args, look(args))
    found = look_patiently(args)
    if args.repair and not args.recreate:
        found = found._replace(findings=[_advised(it) for it in found.findings])
    wrong = {it.subject for it in found.findings}
    checked = Checked(
        attachments=[str(key) for key in found.keys],
        repaired=None if done is None else [it for it in done.repaired if _is_told(it, wrong)],
        table=done is not None and done.table,
        findings=found.findings,
    )
    if not args.json:
        _show(args, checked)
    else:
        print_json(checked)
    return FAILED if checked.findings or any(it.error for it in checked.repaired or ()) else 0


def _is_told(it: Repaired, wrong: Collection[str]) -> bool:
    """What was not repaired since it was gone, or just being made, and is well by now, is no failure."""
    return it.changed or bool(it.left) or (bool(it.error) and it.attachment in wrong)


def _advised(it: Finding) -> Finding:
    """Of what a repair has left, the next step is another."""
    if it.code not in ("object-missing", "object-changed"):
        return it
    advice = f"`netloom check {it.subject} --repair --recreate` makes its link anew; then its connections end"
    return replace(it, next=advice)


def _show(args: argparse.Namespace, it: Checked) -> None:
    from .explaining.shown import findings_lines

    if it.table:
        say("the nft table was laid down anew")
    for one in it.repaired or ():
        say(*map(printable, _done(one)))
    count = len(it.attachments)
    what = "attachment" if count == 1 else "attachments"
    of = "" if args.name is None else f" of {printable(args.name)}"
    if it.findings:
        many = "1 finding" if len(it.findings) == 1 else f"{len(it.findings)} findings"
        say(f"{many} at {count} {what}{of}", *findings_lines(it.findings))
    else:
        say(f"journal and kernel agree: {count} {what}{of}, all as planned")


def _done(it: Repaired) -> list[str]:
    lines = [it.attachment]
    lines += [f"  put back: {one}" for one in it.put_back]
    lines += [f"  set right: {one}" for one in it.set_right]
    lines += ["  its link was made anew"] if it.recreated else []
    lines += [f"  left: {one}" for one in it.left]
    return [*lines, *([f"  nothing was done: {it.error}"] if it.error else [])]
