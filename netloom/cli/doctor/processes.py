"""Processes of this machine, as /proc has them."""

from __future__ import annotations

import os
from collections.abc import Iterator

_LONGEST = 120


def numbers() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def arguments(process: int) -> list[str]:
    """Of its command line; none of a kernel's thread, or of one that is gone."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return [word.decode(errors="replace") for word in file.read(4096).split(b"\0")[:-1]]
    except OSError:
        return []


def name(process: int) -> str:
    """As the kernel has it: its first fifteen bytes."""
    try:
        with open(f"/proc/{process}/comm", "rb") as file:
            return file.read().decode(errors="replace").rstrip("\n")
    except OSError:
        return ""


def shown(process: int) -> str:
    """For people: its number, and its command, shortened."""
    command = " ".join(arguments(process)) or name(process)
    more = "…" if len(command) > _LONGEST else ""
    return f"process {process} ({command[:_LONGEST]}{more})" if command else f"process {process}"


def runs_here(wanted: str) -> bool:
    """Whether there is one of that name in this network namespace: in another, it manages other links."""
    return any(name(process) == wanted[:15] and _is_here(process) for process in numbers())


def _is_here(process: int) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{process}/ns/net"), os.stat("/proc/self/ns/net"))
    except FileNotFoundError:
        return False
    except OSError:
        return True  # not ours to look at, and so not to be ruled out
