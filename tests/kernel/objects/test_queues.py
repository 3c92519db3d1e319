"""Queues of a pair: as many as were asked for, and not one for every CPU that there could be."""

from __future__ import annotations

import json
import subprocess

import pytest

from netloom.kernel import Namespace, Plan, Scope, Veth, apply

pytestmark = pytest.mark.kernel


def queues_of(namespace: Namespace, name: str) -> tuple[int, int]:
    with namespace.entered():
        shown = subprocess.run(["ip", "-d", "-j", "link", "show", name], capture_output=True, check=True)
    (link,) = json.loads(shown.stdout)
    return link["num_tx_queues"], link["num_rx_queues"]


@pytest.mark.parametrize(("pair", "expected"), [(Veth("nl0", "eth0"), 1), (Veth("nl0", "eth0", queues=3), 3)])
def test_both_ends_of_a_pair_have_the_queues_that_were_asked_for(pair: Veth, expected: int) -> None:
    with Namespace.new() as host, Namespace.new() as other:
        apply(Plan((pair,)), Scope(host, other))
        assert queues_of(host, "nl0") == (expected, expected)
        assert queues_of(other, "eth0") == (expected, expected)
