"""installed.json as somebody may have left it: judged before anything is changed by its word."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from ..failpoints import reach
from ..ops.node.install import (
    Put,
    Receipt,
    digest,
    keep_receipt,
    missing_directories,
    put,
    read,
    receipt,
    receipt_damage,
    receipt_path,
)
from .failure import CommandFailed


def require_receipt(state_dir: str) -> str | None:
    """What is wrong with it, if another can take its place. Raises if none can."""
    path = receipt_path(state_dir)
    try:
        damage = receipt_damage(state_dir)
    except OSError as cause:
        raise CommandFailed(
            f"cannot read {path}: {cause.strerror}; nothing was done",
            "it tells which files are netloom's: look at what is in its place, and move it away",
            code="receipt-unreadable",
        ) from None
    return None if damage is None else f"{path} is damaged ({damage})"


def warnings_of_damage(damage: str | None) -> list[str]:
    if damage is None:
        return []
    return [
        f"{damage}, so what earlier runs have installed is not known; a new one was written, which has what "
        "is listed here: if the plugin is needed elsewhere, too, give each --plugin-dir once more"
    ]


def write_receipt(state_dir: str, kept: Receipt) -> None:
    try:
        keep_receipt(state_dir, kept)
    except OSError as cause:
        raise unwritable_state(state_dir, cause) from None


def unwritable_state(state_dir: str, cause: OSError) -> CommandFailed:
    return CommandFailed(
        f"cannot write {cause.filename or state_dir}: {cause.strerror}",
        "look at the state directory: its permissions, and space on its disk",
        code="file-unwritable",
    )


def install(state_dir: str, path: str, content: bytes, mode: int) -> Put:
    """Writes a file, and writes it down before and after: a run that is cut off leaves no unknown file.

    OSError says why the file itself could not be written.
    """
    before = receipt(state_dir)
    missing = missing_directories(path)
    known = before
    if missing or read(path) != content:
        known = before.intending(path, content, missing)
        write_receipt(state_dir, known)
    reach("install.intended")
    try:
        change = put(path, content, mode)
    except OSError:
        if known != before:
            with suppress(CommandFailed):
                write_receipt(state_dir, before)
        raise
    reach("install.written")
    if path in known.intended or known.files.get(path) != digest(content):
        write_receipt(state_dir, known.adding(path, content, missing))
    return change


def restore(state_dir: str, path: str, content: bytes, mode: int) -> Put:
    """Writes a file as somebody had changed it. It stays theirs: only directories that it needs are ours.

    OSError says why the file itself could not be written.
    """
    known, missing = receipt(state_dir), missing_directories(path)
    if missing:
        write_receipt(state_dir, replace(known, directories=(*known.directories, *missing)))
    return put(path, content, mode)
