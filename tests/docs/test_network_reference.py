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


def test_the_result_is_one() -> None:
    assert decode_result(EXAMPLES[1].encode()).cni_version == "1.0.0"
