"""Which commands report which finding, derived from the code, so that the list exists only once.

`netloom doctor` has a table of what each of its checks may find; the first check is that of `netloom status`.
For other commands, the codes come from the modules that make their findings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from netloom.api.catalogue import ENTRIES
from netloom.ops.doctor.checks import CHECKS, FAILED
from netloom.ops.journals.backup import BEARABLE, FAULTS

NETLOOM = Path(__file__).resolve().parent.parent.parent / "netloom"

# Numbers are CNI's, and may also occur with other meanings.
_CODES = [code for code, entry in ENTRIES.items() if entry.area != "cni"]
_AGENT, _ATTACHMENTS, _KERNEL, _NETWORKS, _POOLS = (
    f"ops/findings/{it}.py" for it in ("node", "attachments", "kernel", "networks", "pools")
)
_FIREWALLS = "ops/firewall/openings.py"
_MISSING_FILES = "ops/node/networks.py"
_OWN_ADDRESSES = f"{_KERNEL}:address_missing"
_FILES_OF_RUNTIMES = tuple(
    f"{_NETWORKS}:{it}" for it in ("of_first_file", "of_later_files", "of_files_before", "of_same_name")
)
# For each command, the modules that make its findings; or one function of a module, if it calls only that.
MADE_IN: Mapping[str, tuple[str, ...]] = {
    "check": (
        "ops/audit.py",
        _OWN_ADDRESSES,
        "ops/node/orphans.py:finding_of",
        _ATTACHMENTS,
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "silent")),
        *(f"{_POOLS}:{it}" for it in ("address_orphaned", "miscounted")),
    ),
    "inspect": (_ATTACHMENTS, f"{_KERNEL}:silent", "ops/inspect/attachment_state.py:refusals"),
    "explain": (
        "ops/explain/absence.py",
        "ops/explain/story.py",
        *_FILES_OF_RUNTIMES,
        "ops/inspect/attachment_state.py:refusals",
        "ops/doctor/runtimes.py:elsewhere",
        f"{_NETWORKS}:none_configured",
        f"{_AGENT}:not_answering",
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "silent", "queued_dels")),
        _ATTACHMENTS,
        _FIREWALLS,
    ),
    "pools": (
        *(f"{_POOLS}:{it}" for it in ("exhausted", "nearly_exhausted", "address_orphaned", "miscounted")),
        f"{_NETWORKS}:broken",
        _MISSING_FILES,
    ),
    "journal verify": ("ops/journals/backup.py:verify", "ops/journals/backup.py:finding_of"),
    "connectivity": (
        "ops/connectivity/causes.py",
        "ops/connectivity/ping.py",
        "ops/connectivity/probe.py",
        "ops/connectivity/suite.py",
        "ops/connectivity/tcp.py",
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "forwarding_off", "mtu_mismatch")),
        _FIREWALLS,
    ),
}
# Agent endpoints for monitoring.
SHOWN_IN: Mapping[str, tuple[str, ...]] = {
    "/livez": ("agent/liveness.py",),
    "/readyz": (
        "agent/readiness.py",
        "ops/findings/node.py:disk_full",
        *(f"{_AGENT}:{it}" for it in ("troubled", "untrusted")),
        *(f"{_KERNEL}:{it}" for it in ("table_broken", "silent", "forwarding_off", "object_missing")),
        *(f"{_POOLS}:{it}" for it in ("exhausted",)),
        *(f"{_NETWORKS}:{it}" for it in ("none_configured", "broken", "unknown", "host_lacks")),
        "agent/findings.py:of_trouble",
        "agent/liveness.py",
        "agent/readiness.py",
        "agent/reconcile/node_objects.py:_condition",
        _OWN_ADDRESSES,
        _MISSING_FILES,
    ),
}


def finders(code: str) -> list[str]:
    """Returns the commands, and then the agent's endpoints, that may report it."""
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
    node = next(check for check in CHECKS if check.name == "node")
    return {
        # For firewalls, `doctor` has a check of its own.
        "status": codes_in(_FIREWALLS) | frozenset(node.codes),
        "doctor": frozenset({FAILED, *(code for check in CHECKS for code in check.codes)}),
        **{command: codes_in(*places) for command, places in MADE_IN.items()},
        "journal import": frozenset(FAULTS[kind][0] for kind in BEARABLE),
        **{page: codes_in(*places) for page, places in SHOWN_IN.items()},
    }


def codes_in(*places: str) -> frozenset[str]:
    """Returns the codes of the catalogue in modules, or in a function and the functions that it calls."""
    found: set[str] = set()
    for place in places:
        name, _, function = place.partition(":")
        tree = ast.parse((NETLOOM / name).read_text())
        for part in _reached(tree, function) if function else [tree]:
            strings = {it.value for it in ast.walk(part) if isinstance(it, ast.Constant)}
            found |= {code for code in _CODES if code in strings}
    return frozenset(found)


def _reached(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Returns a function of a module, with all top-level names of the module that it uses, recursively."""
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
