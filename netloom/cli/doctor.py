"""List what this machine's kernel can do for netloom. Needs root; leaves nothing behind.

The exit status is 1 if something is missing that every node needs.

examples:
  netloom doctor
  netloom doctor --json
"""

from __future__ import annotations

import argparse
import platform

from msgspec import to_builtins

from ..kernel.features import probe
from .arguments import add_json
from .output import printable, say
from .status import FAILED
from .views import for_a_person, print_json, table

_ENOUGH = "what every node needs is there"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    findings = list(probe())
    if for_a_person(args.json):
        states = {True: "yes", False: "no"}
        rows = [(finding.feature, states[finding.present], finding.needed_for) for finding in findings]
        say(f"Linux {platform.release()}", "", *table(rows, ["FEATURE", "THERE", "NEEDED FOR"]))
        lacking = [finding.feature for finding in findings if finding.essential and not finding.present]
        say("", f"missing, and every node needs it: {', '.join(lacking)}" if lacking else _ENOUGH)
        for finding in findings:
            if not finding.present:
                say("", printable(f"{finding.feature}: {finding.reason}"), f"  next: {finding.remedy}")
    else:
        print_json({"kernel": platform.release(), "features": [to_builtins(finding) for finding in findings]})
    return FAILED if any(finding.essential and not finding.present for finding in findings) else 0
