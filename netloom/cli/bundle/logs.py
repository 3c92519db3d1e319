"""The agent's log: its last megabyte, and that of the one before it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

from .member import Asked, Found, Member, Trouble

_MOST = 1 << 20
_ABOUT = "the agent's log"
_LINES = 5000
_PATIENCE = 10.0


def logs(asked: Asked) -> Iterator[Found]:
    found = 0
    for name in ("agent.log", "agent.log.1"):
        path = os.path.join(asked.state_dir, name)
        try:
            text, cut = _tail(path)
        except FileNotFoundError:
            continue
        except OSError as cause:
            yield Trouble(f"log/{name}", _ABOUT, f"{path}: {cause.strerror}")
            continue
        found += 1
        yield Member(name=f"log/{name}", about=_ABOUT, text=text, newest_last=True, cut=cut)
    kept = _of_the_service_manager()
    if kept:
        yield kept
    elif not found:
        yield Trouble(
            "log/agent.log", _ABOUT, f"there is none in {asked.state_dir}, nor does systemd have one"
        )


def _tail(path: str) -> tuple[str, str]:
    """The end of it, from the first whole line on."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size
        file.seek(max(size - _MOST, 0))
        data = file.read(_MOST)
    if size <= _MOST:
        return data.decode(errors="replace"), ""
    _, _, whole = data.partition(b"\n")
    return whole.decode(errors="replace"), f"the last {len(whole)} of {size} bytes"


def _of_the_service_manager() -> Member | None:
    """What systemd has kept of the unit; None if there is none, or no systemd."""
    program = shutil.which("journalctl")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-u", "netloom", "-n", str(_LINES), "--no-pager", "-o", "short-iso", "--quiet"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = done.stdout.decode(errors="replace")
    if done.returncode or not text.strip() or text.startswith("-- No entries"):
        return None
    return Member(name="log/systemd.log", about=f"{_ABOUT}, as systemd keeps it", text=text, newest_last=True)
