"""Threads that decode to the same type for the first time, at the same time."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

# Threads take turns as often as they can, and meet in the first decoding of a type with many parts.
_AT_ONCE = """
import sys, threading
from netloom.cni import decode_result
from netloom.kernel import Plan, Up
sys.setswitchinterval(1e-6)
plan = Plan((Up("eth0"),)).encode()
together = threading.Barrier(4)
def decode():
    together.wait()
    for _ in range(20):
        Plan.decode(plan)
        decode_result(b'{"cniVersion": "1.1.0", "ips": [{"address": "10.9.0.1/32"}]}')
threads = [threading.Thread(target=decode) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_that_decode_to_a_type_for_the_first_time_do_not_meet_in_it() -> None:
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, b"")
