"""Commands that must succeed, and effects that come a moment later."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence


class CommandFailed(Exception):
    """A command that did not succeed, with what it said."""


def output(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, timeout: float = 120
) -> str:
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
    )
    if done.returncode != 0:
        raise CommandFailed(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def eventually(happened: Callable[[], bool], *, within: float) -> bool:
    deadline = time.monotonic() + within
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
