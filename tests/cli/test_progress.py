"""How far a long command is: seen by a person who waits, and by nobody else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.unit, pytest.mark.slow]

_WORK = """
import time
from netloom.cli.terminal.output import Progress
with Progress() as progress:
    for done in range(1, 11):
        time.sleep({pause})
        progress.update("compared", done, 10)
print("done")
"""

# Behind all that the command said: it never says this itself.
_END = b"\x04"


def shown(pause: float, *, terminal: bool) -> str:
    """What is on standard error."""
    reading, writing = os.openpty() if terminal else os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _WORK.format(pause=pause)],
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=30,
        )
        assert (done.returncode, done.stdout) == (0, b"done\n")
        os.write(writing, _END)
        said = b""
        # A busy kernel hands on what was written to a terminal piece by piece.
        while not said.endswith(_END):
            said += os.read(reading, 1 << 16)
        return said.removesuffix(_END).decode()
    finally:
        os.close(reading)
        os.close(writing)


def test_what_takes_long_is_told_on_a_terminal_and_leaves_nothing_there() -> None:
    said = shown(0.1, terminal=True)
    assert "compared: 8 of 10" in said
    assert said.endswith("\r\x1b[K")


def test_whoever_reads_it_by_a_pipe_is_not_told() -> None:
    assert shown(0.1, terminal=False) == ""
