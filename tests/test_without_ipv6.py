"""A host whose kernel was booted with ipv6.disable=1, for real: it becomes a node, and IPv4 works."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .fullkernel.guest import Guest, why_no_guest
from .fullkernel.without_ipv6 import ANSWERS
from .lanes import ROOT

pytestmark = pytest.mark.kernel

# Emulation is slow, and slower still beside another worker.
DEADLINE = 600.0


@pytest.fixture(scope="module")
def answers() -> Any:
    """What the commands said there, in one boot."""
    reason = why_no_guest()
    if reason is not None:
        pytest.skip(reason)
    words = ["env", "-C", str(ROOT), sys.executable, "-m", "tests.fullkernel.without_ipv6", "{exchange}"]
    shared = [ROOT, Path(sys.prefix), Path(sys.base_prefix)]
    guest = Guest(words, shared, DEADLINE, parameters=["ipv6.disable=1"])
    guest.start()
    try:
        assert guest.wait() == 0, guest.console_tail()
        return json.loads((guest.exchange / ANSWERS).read_text())
    finally:
        guest.end()


def test_the_network_has_an_ipv4_pool_and_up_says_why(answers: Any) -> None:
    up = answers["up"]
    assert (up["status"], up["said"]["network"]["pools"]) == (0, ["10.78.0.0/16"]), up
    assert any("this kernel has no IPv6" in it for it in up["said"]["warnings"])


def test_an_ipv6_pool_is_refused(answers: Any) -> None:
    assert answers["refused"]["error"]["code"] == "host-lacks"


def test_all_that_containers_need_works(answers: Any) -> None:
    found = answers["connectivity"]["said"]
    assert (found["failed"], found["in_time"]) == (0, True), found
    passed = {it["what"] for it in found["checks"] if it["result"] == "passed" and it["family"] == "ipv4"}
    assert passed >= {"ping", "tcp", "host", "out", "hairpin", "port", "spoofing"}
    loopback = [it for it in found["checks"] if it["what"] == "port" and it["to"].startswith("127.0.0.1:")]
    assert [it["result"] for it in loopback] == ["passed"]


def test_nothing_is_wrong_with_the_node(answers: Any) -> None:
    assert answers["status"]["said"]["findings"] == []
    assert answers["doctor"]["said"]["findings"] == []
