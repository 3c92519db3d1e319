"""Who finds what, as the code has it: nobody writes it down twice.

`netloom doctor` has a table of what each of its looks may find, of which the first is what `netloom status`
says. Of the others, it is read off the modules in which their findings are made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from netloom.api.catalogue import ENTRIES
from netloom.cli.doctor.look import FAILED, LOOKS
from netloom.cli.journals.verify import _BEARABLE, _SAID

NETLOOM = Path(__file__).resolve().parent.parent.parent / "netloom"

# Numbers are CNI's, and may be anything else.
_CODES = [code for code, entry in ENTRIES.items() if entry.area != "cni"]
_AGENT, _ATTACHMENTS, _KERNEL, _NETWORKS, _POOLS = (
    f"ops/health/{it}.py" for it in ("agent", "attachments", "kernel", "networks", "pools")
)
_FIREWALLS = "ops/firewall/judging.py"
_MISSING_FILES = "ops/node/kept_networks.py"
# By command, the modules that make its findings; of one of which it calls a single function, that one.
MADE_IN: Mapping[str, tuple[str, ...]] = {
    "check": (
        "ops/audit/audit.py",
        "ops/node/own_addresses.py:address_missing",
        "ops/node/orphans.py:finding_of",
        _ATTACHMENTS,
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "silent")),
        *(f"{_POOLS}:{it}" for it in ("address_orphaned", "miscounted")),
    ),
    "inspect": (_ATTACHMENTS, f"{_KERNEL}:silent", "cli/refused.py"),
    "explain": (
        "cli/explaining/absence.py",
        "cli/explaining/story.py",
        "cli/network_order.py",
        "cli/refused.py",
        "cli/doctor/runtimes.py:elsewhere",
        f"{_NETWORKS}:none_configured",
        f"{_AGENT}:not_answering",
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "silent", "queued_dels")),
        _ATTACHMENTS,
        _FIREWALLS,
    ),
    "pools": (_POOLS, f"{_NETWORKS}:broken", _MISSING_FILES),
    "journal verify": ("cli/journals/verify.py",),
    "connectivity": (
        "cli/connectivity/causes.py",
        "cli/connectivity/forged.py",
        "cli/connectivity/path_mtu.py",
        "cli/connectivity/rate.py",
        "cli/connectivity/trials.py",
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "forwarding_off", "mtu_mismatch")),
        _FIREWALLS,
    ),
}
# What the agent shows to machines that watch.
SHOWN_IN: Mapping[str, tuple[str, ...]] = {
    "/livez": ("agent/liveness.py",),
    "/readyz": (
        "agent/readiness.py",
        "ops/health/journal.py:disk_full",
        f"{_AGENT}:troubled",
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "silent", "forwarding_off")),
        *(f"{_POOLS}:{it}" for it in ("exhausted",)),
        _NETWORKS,
        "ops/health/paths.py",
        "agent/findings.py:of_trouble",
        "agent/liveness.py",
        "agent/readiness.py",
        "agent/reconcile/node_objects.py:_condition",
        "ops/node/own_addresses.py",
        _MISSING_FILES,
    ),
}


def finders(code: str) -> list[str]:
    """Commands, and then pages of the agent, that may give it."""
    return [who for who, codes in _found().items() if code in codes]


def told(who: Iterable[str]) -> str:
    """
    >>> told(["status", "/livez"])
    '[`status`](../commands/status.md) and `/livez` of the agent'
    """
    names = [
        f"`{it}` of the agent" if it.startswith("/") else f"[`{it}`](../commands/{_page(it)}.md)"
        for it in who
    ]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _page(command: str) -> str:
    return command.replace(" ", "-")


@cache
def _found() -> dict[str, frozenset[str]]:
    node = next(look for look in LOOKS if look.name == "node")
    return {
        # Of firewalls, `doctor` has a look of its own.
        "status": codes_in(_FIREWALLS) | frozenset(node.codes),
        "doctor": frozenset({FAILED, *(code for look in LOOKS for code in look.codes)}),
        **{command: codes_in(*places) for command, places in MADE_IN.items()},
        "journal import": frozenset(_SAID[kind][0] for kind in _BEARABLE),
        **{page: codes_in(*places) for page, places in SHOWN_IN.items()},
    }


def codes_in(*places: str) -> frozenset[str]:
    """Codes of the catalogue that stand in modules, or in a function and what it calls beside it."""
    found: set[str] = set()
    for place in places:
        name, _, function = place.partition(":")
        tree = ast.parse((NETLOOM / name).read_text())
        for part in _reached(tree, function) if function else [tree]:
            strings = {it.value for it in ast.walk(part) if isinstance(it, ast.Constant)}
            found |= {code for code in _CODES if code in strings}
    return frozenset(found)


def _reached(tree: ast.Module, name: str) -> list[ast.stmt]:
    """A function of a module, and all at its top that it names, and those name."""
    known = {it: part for part in tree.body for it in _names(part)}
    waiting, seen = [name], dict[str, ast.stmt]()
    while waiting:
        one = waiting.pop()
        if one in known and one not in seen:
            seen[one] = known[one]
            waiting += [it.id for it in ast.walk(known[one]) if isinstance(it, ast.Name)]
    return list(seen.values())


def _names(part: ast.stmt) -> list[str]:
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return [part.name]
    return [it.id for it in getattr(part, "targets", ()) if isinstance(it, ast.Name)]
