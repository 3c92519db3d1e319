"""Check this node for problems, and print the next step for each finding.

The command checks the agent and its journal, disk and clock, the plugin, network configurations and where
runtimes look for them, features and settings of the kernel, rules of other firewalls, services that manage
links, and whether every attachment in the kernel matches the journal. It needs root, sends nothing, and
changes nothing without --fix. The exit status is 1 if an error remains; warnings do not count.

examples:
  netloom doctor
  netloom doctor --fix --dry-run     shows what --fix would do
  netloom doctor --only firewall     runs one check; or reports one code, such as foreign-drop
  netloom doctor --json
"""

from __future__ import annotations

import argparse

from ...api.findings import any_error
from ...ops.advice import require_root
from ...ops.doctor.checks import CHECKS, selected
from ...ops.doctor.diagnosis import Diagnosis, diagnose, diagnose_and_fix
from ...ops.errors import UsageError
from ..arguments import add_conf_dir, add_json, add_place, nameable, place_of
from ..exit_status import FAILED
from ..terminal.output import require_output
from ..terminal.reports import progress, show
from ..terminal.tables import print_json

OUTPUT = Diagnosis


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        metavar="CHECK",
        action="append",
        default=[],
        help="check to run, or finding code to report; repeatable (default: all); the checks are "
        + ", ".join(check.name for check in CHECKS),
    )
    parser.add_argument("--fix", action="store_true", help="fix the findings that have a safe fix")
    parser.add_argument("--dry-run", action="store_true", help="with --fix: only print the fixes")
    add_place(parser)
    add_conf_dir(parser)
    parser.add_argument(
        "--plugin-dir",
        metavar="DIR",
        type=nameable,
        help="directory where the plugin should be (default: where `netloom up` installed it)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    require_root("reading the kernel's state")
    if args.dry_run and not args.fix:
        raise UsageError("--dry-run needs --fix", "add --fix, or remove --dry-run")
    place, selection = place_of(args), selected(args.only)
    with progress() as shown:
        if args.fix:
            found = diagnose_and_fix(place, selection, shown.update, dry_run=args.dry_run)
        else:
            found = diagnose(place, selection, shown.update)
    if args.json:
        print_json(found)
    else:
        show(found)
    return FAILED if any_error(found.findings) else 0
