"""The words that `netloom status` uses are explained where it says they are."""

from __future__ import annotations

import re

import pytest

from ..lanes import ROOT

pytestmark = pytest.mark.unit

_WORDS = (ROOT / "docs" / "how-to" / "run-a-node.md").read_text().partition("## Words")[2]
_SOURCES = (ROOT / "netloom" / "agent").rglob("*.py")


def counters() -> list[str]:
    """Those that have a name of their own in the agent."""
    found = [re.findall(r'tally\.count\("([a-z ]+)"', path.read_text()) for path in _SOURCES]
    return sorted({name for names in found for name in names})


@pytest.mark.parametrize("name", counters())
def test_every_counter_of_the_agent_is_explained(name: str) -> None:
    explained = re.findall(r"^\| ([a-z, ]+) \|", _WORDS, re.MULTILINE)
    assert name in {word for words in explained for word in words.split(", ")}
