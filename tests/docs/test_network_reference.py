"""The configurations that the documentation shows are ones that the agent takes."""

from __future__ import annotations

import re

import pytest

from netloom.cni import decode_result
from netloom.networks import table
from netloom.networks.features.sysctls import ALLOWED, path_of
from netloom.ops.node.networks import check_network

from ..lanes import ROOT

pytestmark = pytest.mark.unit

REFERENCE = (ROOT / "docs" / "reference" / "network.md").read_text()
EXAMPLES = re.findall(r"```json\n(.*?)```", REFERENCE, re.DOTALL)


def test_the_network_with_every_key_is_one() -> None:
    check_network(EXAMPLES[0].encode())


def test_the_settings_that_may_be_given_are_listed() -> None:
    page = (ROOT / "docs" / "reference" / "keys" / "sysctl.md").read_text()
    table = page.partition("## What it does")[2].partition("\n## ")[0]
    listed = re.findall(r"`(net\.[^`]*)`", table)
    assert sorted(path_of(name) for name in listed) == sorted(ALLOWED)


def test_the_chains_of_the_table_and_its_sets_are_listed() -> None:
    page = (ROOT / "docs" / "reference" / "table.md").read_text()
    for kind, name in re.findall(r"^(chain|set|map) (\w+) \{", table.TABLE.body, re.MULTILINE):
        assert f"`{name}`" in page, f"{kind} {name}"


def test_the_result_is_one() -> None:
    assert decode_result(EXAMPLES[1].encode()).cni_version == "1.0.0"


def codes(page: str) -> set[int]:
    """Those that have a row in one of its tables, with a link to their page or without."""
    text = (ROOT / "docs" / page).read_text()
    return {int(code) for code in re.findall(r"^\| (?:\[`)?(\d+)(?:`\]\([^)]*\))? \|", text, re.MULTILINE)}


def test_every_code_of_the_agent_is_on_the_pages_of_errors() -> None:
    own = set(range(100, 106))
    assert own <= codes("reference/network.md")
    assert own <= codes("reference/errors.md")
    assert own | {11} <= codes("how-to/debug.md")
