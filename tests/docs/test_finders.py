"""The pages of findings say who finds them: by the code that makes them, of which nothing is left out."""

from __future__ import annotations

import ast

import pytest

from netloom.api.catalogue import ENTRIES
from netloom.cli.tree import Command, resolve
from netloom.ops.doctor.checks import CHECKS
from tools.reference.finders import MADE_IN, NETLOOM, SHOWN_IN, codes_in, finders

pytestmark = pytest.mark.unit

FINDINGS = [code for code, entry in ENTRIES.items() if entry.area == "finding"]
# Those of `netloom status`, which the first check of `netloom doctor` has, too.
OF_STATUS = (
    "ops/findings/pools.py:clashes",
    "ops/findings/pools.py:overlaps",
    "ops/node/orphans.py",
    "agent/reconcile/node_objects.py",
    "ops/findings/node.py:address_missing",
    "agent/http/pages.py",
    "agent/findings.py",
    "ops/control/presence.py",
    *(f"ops/findings/networks.py:{it}" for it in ("of_first_file", "of_files_before", "of_same_name")),
    "ops/status/findings.py",
    "ops/runtimes/plugin_places.py",
)
# The type itself, what is no finding but has its name, and who is handed the code by those that are counted.
OTHERS = {"api/findings.py"}
COUNTED = {
    place.partition(":")[0]
    for places in (*MADE_IN.values(), *SHOWN_IN.values(), OF_STATUS)
    for place in places
}


def makes_findings(source: str) -> bool:
    return "Finding(" in source and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.parametrize("code", FINDINGS)
def test_every_finding_has_a_finder(code: str) -> None:
    assert finders(code) != []


def test_whoever_makes_findings_is_counted() -> None:
    making = {
        str(path.relative_to(NETLOOM))
        for path in NETLOOM.rglob("*.py")
        if path.parent.name != "doctor" and makes_findings(path.read_text())
    }
    assert making - COUNTED - OTHERS == set()


def test_what_status_may_find_is_in_the_table_of_checks() -> None:
    node = next(check for check in CHECKS if check.name == "node")
    assert codes_in(*OF_STATUS) - set(node.codes) == set()


def test_what_a_check_may_find_stands_in_the_code() -> None:
    named = codes_in(
        *(
            str(path.relative_to(NETLOOM))
            for path in NETLOOM.rglob("*.py")
            if path.name != "checks.py" and path.parent.name != "catalogue"
        )
    )
    assert {code for check in CHECKS for code in check.codes} - named == set()


@pytest.mark.parametrize("command", MADE_IN)
def test_a_finder_is_a_command(command: str) -> None:
    assert isinstance(resolve(command.split())[1], Command)


@pytest.mark.parametrize(
    ("code", "who"),
    [
        ("plugin-missing", ["status", "doctor"]),
        ("clock-jumped", ["doctor"]),
        ("never-asked", ["explain"]),
        ("table-broken", ["status", "doctor", "check", "explain", "connectivity", "/readyz"]),
        ("agent-stuck", ["/livez", "/readyz"]),
        ("foreign-drop", ["status", "doctor", "explain", "connectivity"]),
    ],
)
def test_nobody_is_named_who_does_not_find_it(code: str, who: list[str]) -> None:
    assert finders(code) == who
