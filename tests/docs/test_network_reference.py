"""The configurations that the documentation shows are ones that the agent takes."""

from __future__ import annotations

import re

import pytest

from netloom.cli.networks import check_network
from netloom.cni import decode_result

from ..lanes import ROOT

pytestmark = pytest.mark.unit

REFERENCE = (ROOT / "docs" / "reference" / "network.md").read_text()
EXAMPLES = re.findall(r"```json\n(.*?)```", REFERENCE, re.DOTALL)


def test_the_network_with_every_key_is_one() -> None:
    check_network(EXAMPLES[0].encode())


def test_the_network_that_publishes_ports_is_one() -> None:
    page = (ROOT / "docs" / "how-to" / "run-a-node.md").read_text()
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    check_network(shown.encode())
    assert '"portmap"' in shown


def test_the_result_is_one() -> None:
    assert decode_result(EXAMPLES[1].encode()).cni_version == "1.0.0"


def codes(page: str) -> set[int]:
    """Those that have a row in one of its tables."""
    text = (ROOT / "docs" / page).read_text()
    return {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}


def test_every_code_of_the_agent_is_on_the_pages_of_errors() -> None:
    own = set(range(100, 105))
    assert own <= codes("reference/network.md")
    assert own <= codes("reference/errors.md")
    assert own | {11} <= codes("how-to/debug.md")
