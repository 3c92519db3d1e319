"""Compare journal and kernel, and list what this machine's kernel can do for netloom.

Needs root; leaves nothing behind. The exit status is 1 if something is missing that every node needs, or
if an attachment is not in the kernel as the journal has it.

examples:
  netloom doctor
  netloom doctor --json
"""

from __future__ import annotations

import argparse
import platform
import time

from msgspec import to_builtins

from ..cni import CNIError
from ..kernel import Namespace
from ..kernel.features import Finding as Feature
from ..kernel.features import probe
from .arguments import add_json
from .audit_advice import advice_on
from .journal import copy_of_journal
from .output import printable, say
from .place import add_conf_dir, add_state_dir
from .status import FAILED
from .views import for_a_person, print_json, table

_ENOUGH = "what every node needs is there"
# What an agent is just doing looks like a defect, and is over by then.
_MOMENT = 0.5
_LEGACY = ("/proc/net/ip_tables_names", "/proc/net/ip6_tables_names")


def arguments(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)
    add_conf_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    features = list(probe())
    findings = _audit(args)
    legacy = _legacy_tables()
    if for_a_person(args.json):
        _show_findings(findings)
        _show_features(features)
        if legacy:
            say("", f"legacy iptables is in use, and packets meet its rules, too: {', '.join(legacy)}")
            say("  next: `iptables-legacy-save` shows them; one may drop what containers send")
    else:
        print_json(
            {
                "kernel": platform.release(),
                "features": [to_builtins(feature) for feature in features],
                "audit": None
                if findings is None
                else [{"what": what, "text": text, "next": advice_on(what, text)} for what, text in findings],
                "legacy_tables": legacy,
            }
        )
    lacking = any(feature.essential and not feature.present for feature in features)
    return FAILED if lacking or findings else 0


def _audit(args: argparse.Namespace) -> list[tuple[str, str]] | None:
    """What journal and kernel do not agree on, seen twice; None without a journal."""
    found = _audited(args)
    if found:
        time.sleep(_MOMENT)
        again = _audited(args) or []
        found = [it for it in found if it in again]
    return found


def _audited(args: argparse.Namespace) -> list[tuple[str, str]] | None:
    ledger = copy_of_journal(args)
    if ledger is None:
        return None
    from ..agent.audit import audit
    from .networks import node_networks

    try:
        networks = [it.network for it in node_networks(args.conf_dir)]
    except CNIError:
        networks = []
    # A pool that several networks share is counted once.
    pools = {pool.cidr: pool for network in networks if network for pool in network.pools}
    with Namespace.own() as host:
        return [(it.what, it.text) for it in audit(ledger, host, list(pools.values()))]


def _legacy_tables() -> list[str]:
    names: set[str] = set()
    for path in _LEGACY:
        try:
            with open(path) as file:
                names |= set(file.read().split())
        except OSError:
            continue
    return sorted(names)


def _show_features(features: list[Feature]) -> None:
    states = {True: "yes", False: "no"}
    rows = [(feature.feature, states[feature.present], feature.needed_for) for feature in features]
    say(f"Linux {platform.release()}", "", *table(rows, ["FEATURE", "THERE", "NEEDED FOR"]))
    lacking = [feature for feature in features if feature.essential and not feature.present]
    names = ", ".join(feature.feature for feature in lacking)
    say("", f"missing, and every node needs it: {names}" if lacking else _ENOUGH)
    for feature in lacking:
        say("", printable(f"{feature.feature}: {feature.reason}"), f"  next: {feature.remedy}")
    others = [feature.feature for feature in features if not feature.essential and not feature.present]
    if others:
        say(f"missing, and only plans by hand need it today: {', '.join(others)} (--json tells why)")


def _show_findings(findings: list[tuple[str, str]] | None) -> None:
    if findings is None:
        return
    if not findings:
        say("journal and kernel agree", "")
        return
    # What has the same remedy stands together, and the remedy once.
    by_advice: dict[str, list[tuple[str, str]]] = {}
    for finding in findings:
        by_advice.setdefault(advice_on(*finding), []).append(finding)
    ordered = [finding for group in by_advice.values() for finding in group]
    header, *rows = table(ordered, ["AUDIT", "FINDING"])
    say(header)
    for advice, group in by_advice.items():
        say(*(rows.pop(0) for _ in group), printable(f"  next: {advice}"))
    say("")
