"""Findings about the agent, the journal and its disk, and the node's part of the kernel."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from ...api.findings import Finding, remedy_of


def not_answering(code: str, text: str, subject: str, remedy: str = "") -> Finding:
    """`code` says that no agent runs, or why it cannot be asked."""
    return Finding(code=code, subject=subject, text=text, next=remedy or remedy_of(code))


def troubled(text: str, subject: str = "") -> Finding:
    return Finding(code="agent-troubled", subject=subject, text=text, next=remedy_of("agent-troubled"))


def untrusted(directory: str, text: str, remedy: str = "") -> Finding:
    """The plugin and the next agent refuse to use such a directory."""
    return Finding(
        code="path-untrusted", subject=directory, text=text, next=remedy or remedy_of("path-untrusted")
    )


# With less free space than this, the journal soon cannot be written.
_SPACE = 1 << 20

Wrong: TypeAlias = Literal[
    "journal-gone", "journal-damaged", "journal-newer", "journal-not-migrated", "journal-in-use",
    "journal-unreadable", "journal-unwritable", "journal-read-only",
]  # fmt: skip


def wrong(code: Wrong, text: str, path: str, remedy: str = "") -> Finding:
    """`text` is the journal's own error; without a `remedy`, the catalogue's is used."""
    return Finding(code=code, subject=path, text=text, next=remedy or remedy_of(code))


def disk_full(directory: str, *, of_inodes: bool = False) -> Finding:
    if of_inodes:
        return Finding(
            code="disk-full",
            subject=directory,
            text=f"the disk of {directory} has no room for another file (its inodes are used up)",
            next="remove files from that disk; `df -i` shows how many it has",
        )
    return Finding(
        code="disk-full",
        subject=directory,
        text=full_disk_text(directory),
        next="free space on that disk; the agent continues by itself",
    )


def full_disk_text(directory: str) -> str:
    return f"the disk of {directory} is full: less than {_SPACE >> 20} MiB is free"


def is_full(directory: str) -> bool:
    try:
        space = os.statvfs(directory)
    except OSError:  # opening something there reports it
        return False
    return space.f_bavail * space.f_frsize < _SPACE
