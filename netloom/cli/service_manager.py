"""systemd, as far as it runs our agent: whose the agent is, and what is asked of the manager.

Only a machine that was booted with systemd has one to ask; everywhere else nothing here is done.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from .failure import CommandFailed

# What sd_booted(3) looks at.
_BOOTED = "/run/systemd/system"
_PATIENCE = 120.0
_LINES = 10


def is_booted() -> bool:
    return os.path.isdir(_BOOTED)


def require_booted() -> None:
    if not is_booted():
        raise CommandFailed(
            "systemd does not run on this machine; nothing was done",
            "leave --systemd out, and `netloom up` starts the agent itself; or write the units for another "
            "machine with --units-only DIR",
            code="systemd-not-running",
        )


def unit_of(process: int) -> str | None:
    """The service whose main process this is: who ends it, fights with its manager."""
    if not is_booted():
        return None
    try:
        with open(f"/proc/{process}/cgroup", errors="surrogateescape") as file:
            names = [line.rstrip("\n").rpartition("/")[2] for line in file]
    except OSError:
        return None
    for name in sorted({it for it in names if it.endswith(".service")}):
        if _property(name, "MainPID") == str(process):
            return name
    return None


def is_known(unit: str) -> bool:
    return is_booted() and _property(unit, "LoadState") == "loaded"


def stop(units: Sequence[str]) -> None:
    """With the sockets that would start them again, which have to be named, too."""
    triggers = [it for unit in units for it in (_property(unit, "TriggeredBy") or "").split()]
    systemctl("stop", *dict.fromkeys((*triggers, *units)))


def systemctl(*words: str, said_by: str = "") -> None:
    """Raises `CommandFailed`, with the last lines of the log of the unit that `said_by` names."""
    done = _run("systemctl", *words)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise CommandFailed(
            f"`systemctl {' '.join(words)}` failed with status {done.returncode}",
            f"look at `systemctl status {said_by}` and `journalctl -u {said_by}`"
            if said_by
            else "do as systemd says, and try again",
            code="systemd-refused",
            said=[*lines, *(_log_of(said_by) if said_by else [])][-_LINES:],
        )


def _property(unit: str, name: str) -> str | None:
    done = _run("systemctl", "show", "--property", name, "--value", unit)
    return done.stdout.strip() if done.returncode == 0 else None


def _log_of(unit: str) -> list[str]:
    done = _run("journalctl", "--unit", unit, "--lines", str(_LINES), "--output", "cat", "--no-pager")
    return done.stdout.splitlines() if done.returncode == 0 else []


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]} is not installed")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"it did not end within {_PATIENCE:g} s")
