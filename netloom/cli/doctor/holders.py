"""Who keeps a network namespace alive: processes in it, open descriptors, and mounts; by /proc."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from ..output import printable_line
from ..quoting import for_shell
from . import processes

# How the kernel writes blanks, line breaks and backslashes of a path.
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Holder(NamedTuple):
    """`how` and `advice` are of one line, and can be shown; a command in them can be copied to a shell."""

    process: int
    how: str
    advice: str

    def __str__(self) -> str:
        return f"{_shown(self.process)} {self.how}"


def holders(inodes: set[int], deadline: float) -> dict[int, list[Holder]]:
    """By the number of the namespace. Of one that lives, no other has the number."""
    found: dict[int, list[Holder]] = {inode: [] for inode in inodes}
    links = {f"net:[{inode}]": inode for inode in inodes}
    mount_namespaces: set[str] = set()
    for process in processes.numbers():
        if time.monotonic() > deadline:
            break
        if process == os.getpid():
            continue
        for link, how in _held_by(process, links):
            found[links[link]].append(Holder(process, how, f"end or restart {_shown(process)}"))
        mounts = _target(f"/proc/{process}/ns/mnt")
        if mounts and mounts not in mount_namespaces:
            mount_namespaces.add(mounts)
            for link, place in _mounted(process, links):
                advice = f"`nsenter --mount=/proc/{process}/ns/mnt umount {for_shell(place)}`"
                how = f"has it mounted at {printable_line(place)}"
                found[links[link]].append(Holder(process, how, advice))
    return found


def _shown(process: int) -> str:
    """On one line: whoever writes its command line could write a finding into ours."""
    return printable_line(processes.shown(process))


def _held_by(process: int, links: dict[str, int]) -> Iterator[tuple[str, str]]:
    inside = {_target(f"/proc/{process}/task/{name}/ns/net") for name in _names(f"/proc/{process}/task")}
    for link in sorted(inside & links.keys()):
        yield link, "runs in it"
    for link in sorted(_opened(process, links) - inside):
        yield link, "has it open"


def _opened(process: int, links: dict[str, int]) -> set[str]:
    """One that was opened by its place is shown with that, and known by its number alone."""
    found = set()
    for name in _names(f"/proc/{process}/fd"):
        target = _target(f"/proc/{process}/fd/{name}")
        if target in links:
            found.add(target)
        elif target.startswith("/"):
            found |= _number(process, name) & links.keys()
    return found


def _number(process: int, descriptor: str) -> set[str]:
    """What a network namespace of that inode would be called; nothing if it is none."""
    try:
        # Without touching the file itself, which may be on a disk that does not answer.
        with open(f"/proc/{process}/fdinfo/{descriptor}", "rb") as file:
            inode = next((line.split()[1].decode() for line in file if line.startswith(b"ino:")), "")
    except OSError:
        return set()
    return {f"net:[{inode}]"}


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _mounted(process: int, links: dict[str, int]) -> Iterator[tuple[str, str]]:
    try:
        with open(f"/proc/{process}/mountinfo", "rb") as file:
            # 36 35 0:4 net:[4026532281] /run/netns/web rw shared:7 - nsfs nsfs rw
            rows = [line.split(b" ") for line in file]  # any other blank is part of a path
    except OSError:
        return
    for row in rows:
        link = os.fsdecode(row[3]) if len(row) > 4 else ""
        if link in links:
            yield link, os.fsdecode(_ESCAPED.sub(lambda it: bytes([int(it[1], 8)]), row[4]))
