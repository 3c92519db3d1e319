"""A process may call itself anything, also what is no text: whoever looks at it sees that, and goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from netloom.ops.control.process import is_stopped
from netloom.ops.doctor import services

from ..fixtures.node import eventually

pytestmark = pytest.mark.unit

_NAMED = r"""
import ctypes, sys
assert ctypes.CDLL(None).prctl(15, b"\xff) T (\xfe", 0, 0, 0) == 0
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def named() -> Iterator[subprocess.Popen[bytes]]:
    words: list[str | bytes] = [sys.executable, "-c", _NAMED, b"\xff\xfe"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process
        process.kill()


def test_whether_it_is_stopped_is_seen_behind_its_name(named: subprocess.Popen[bytes]) -> None:
    assert not is_stopped(named.pid)
    named.send_signal(signal.SIGSTOP)
    assert eventually(lambda: is_stopped(named.pid))


def test_it_is_shown(named: subprocess.Popen[bytes]) -> None:
    assert services.name(named.pid) == "\N{REPLACEMENT CHARACTER}) T (\N{REPLACEMENT CHARACTER}"
    assert f"process {named.pid} (" in services.shown(named.pid)
