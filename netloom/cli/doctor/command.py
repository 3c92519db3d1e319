"""Look for everything that could be wrong on this node, and say what to do about each.

The agent and its journal, disk and clock, the plugin, networks' files and where runtimes look for them, what
the kernel can do and how it is set, rules of other firewalls, services that manage links, and whether every
attachment is in the kernel as the journal has it. Needs root, sends nothing, and changes nothing without
--fix. The exit status is 1 if an error is left; warnings do not count.

examples:
  netloom doctor
  netloom doctor --fix --dry-run     what --fix would do
  netloom doctor --only firewall     one look; or one code, such as foreign-drop
  netloom doctor --json
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from msgspec.structs import replace

from ...api.findings import any_error
from ..arguments import add_json
from ..failure import UsageError
from ..output import require_output
from ..place import add_conf_dir, add_place, nameable
from ..privileges import require_root
from ..status import FAILED
from ..views import print_json
from .diagnosis import Diagnosis, examine
from .fixes import fix, judged
from .look import LOOKS, Look
from .view import progress, show

OUTPUT = Diagnosis


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        metavar="LOOK",
        action="append",
        help="take this look only, or look for this code; may be repeated; looks are "
        + ", ".join(look.name for look in LOOKS),
    )
    parser.add_argument("--fix", action="store_true", help="do what is safe about what was found")
    parser.add_argument("--dry-run", action="store_true", help="with --fix: only say what would be done")
    add_place(parser)
    add_conf_dir(parser)
    parser.add_argument(
        "--plugin-dir",
        metavar="DIR",
        type=nameable,
        help="where the plugin should be (default: where `netloom up` has put it)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("looking at the kernel")
    if args.dry_run and not args.fix:
        raise UsageError("--dry-run is for --fix")
    looks, codes = _chosen(args.only)
    with progress() as shown:
        found = _narrowed(examine(args, looks, shown.tell), codes)
        if args.fix:
            found = _fixed(args, found, lambda: _narrowed(examine(args, looks, shown.tell), codes))
    if not args.json:
        show(found)
    else:
        print_json(found)
    return FAILED if any_error(found.findings) else 0


def _fixed(args: argparse.Namespace, found: Diagnosis, again: Callable[[], Diagnosis]) -> Diagnosis:
    """What is left after it. What is found again was not mended, whatever was tried."""
    fixed = fix(args, found.findings, dry_run=args.dry_run)
    left = again() if any(it.done for it in fixed) else found
    return replace(left, fixed=tuple(judged(fixed, left.findings)))


def _chosen(only: list[str] | None) -> tuple[list[Look], frozenset[str]]:
    """Looks, and the codes that were asked for: none means all."""
    if not only:
        return list(LOOKS), frozenset()
    names = {look.name for look in LOOKS}
    codes = {code for look in LOOKS for code in look.codes}
    for it in only:
        if it not in names | codes:
            raise UsageError(
                f"there is no look and no code {it!r}",
                f"looks are {', '.join(look.name for look in LOOKS)}; codes are those of findings, such as "
                "foreign-drop",
            )
    wanted = set(only)
    looks = [look for look in LOOKS if look.name in wanted or wanted & set(look.codes)]
    whole = {code for look in looks if look.name in wanted for code in look.codes}
    return looks, frozenset((wanted & codes) | whole) if wanted & codes else frozenset()


def _narrowed(found: Diagnosis, codes: frozenset[str]) -> Diagnosis:
    if not codes:
        return found
    return replace(found, findings=tuple(it for it in found.findings if it.code in codes))
