"""Room where state is kept: for the journal, and for what the plugin writes down while no agent runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...api.findings import Finding
from ...ops.health.journal import disk_full
from ..journal import journal_path
from .ground import Ground

# With less than this, some thousand more operations fill it.
_LITTLE = 32 << 20
_FEW = 100
# The WAL is folded into the journal every few hundred changes; one of this size was not for long.
_LARGE_WAL = 64 << 20


def look(ground: Ground) -> Iterator[Finding]:
    args = ground.args
    for directory in dict.fromkeys((args.state_dir, os.path.dirname(args.socket))):
        try:
            space = os.statvfs(directory)
        except OSError:
            continue
        free = space.f_bavail * space.f_frsize
        is_full = any(it.code == "disk-full" and it.subject == directory for it in ground.report.findings)
        if space.f_files and space.f_favail == 0:
            yield disk_full(directory, of_inodes=True)
        elif free == 0 and not is_full:
            yield disk_full(directory)
        elif (free < _LITTLE and not is_full) or 0 < space.f_favail < _FEW:
            yield Finding(
                code="disk-nearly-full",
                severity="warning",
                subject=directory,
                text=f"the disk of {directory} has {free >> 10} KiB left, and room for {space.f_favail} "
                "more files",
                next="free space on that disk before nothing can be attached",
            )
    yield from _of_journal(journal_path(args.state_dir))


def _of_journal(path: str) -> Iterator[Finding]:
    try:
        size = os.stat(f"{path}-wal").st_size
    except OSError:
        return
    if size > _LARGE_WAL:
        yield Finding(
            code="journal-large",
            severity="warning",
            subject=f"{path}-wal",
            text=f"what waits to be folded into the journal has grown to {size >> 20} MiB",
            next="end whoever keeps the journal open for reading (`fuser` names them), or restart the agent",
        )
