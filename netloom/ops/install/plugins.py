"""The plugin's part of `netloom up`: where it is installed, and the receipt of what was installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from ...api.paths import DEFAULT_PLUGIN_DIR, receipt_of
from ...api.text import printable_line
from ...failpoints import failpoint
from ..errors import OperationFailed
from ..node.install import (
    PLUGIN,
    Put,
    Receipt,
    digest,
    is_plugin,
    keep_receipt,
    missing_directories,
    put,
    read,
    receipt,
    receipt_damage,
)


def require_receipt(state_dir: str) -> str | None:
    """What is wrong with the receipt, if a new one can replace it. Raises if it cannot."""
    path = receipt_of(state_dir)
    try:
        damage = receipt_damage(state_dir)
    except OSError as cause:
        raise OperationFailed(
            f"cannot read {path}: {cause.strerror}; nothing was done",
            "it lists netloom's files: look at what is in its place, and move it away",
            code="receipt-unreadable",
        ) from None
    return None if damage is None else f"{path} is damaged ({damage})"


def warnings_of_damage(damage: str | None) -> list[str]:
    if damage is None:
        return []
    return [
        f"{damage}, so netloom does not know what earlier runs installed; it wrote a new one with what is "
        "listed here: if the plugin is needed elsewhere, too, run `netloom up --plugin-dir DIR` for each "
        "directory"
    ]


def write_receipt(state_dir: str, kept: Receipt) -> None:
    try:
        keep_receipt(state_dir, kept)
    except OSError as cause:
        raise unwritable_state(state_dir, cause) from None


def unwritable_state(state_dir: str, cause: OSError) -> OperationFailed:
    return OperationFailed(
        f"cannot write {cause.filename or state_dir}: {cause.strerror}",
        "check the state directory: its permissions, and free space on its disk",
        code="file-unwritable",
    )


def install(state_dir: str, path: str, content: bytes, mode: int) -> Put:
    """Writes a file, and records it before and after, so that an interrupted run leaves no unknown file.

    Raises OSError if the file itself could not be written.
    """
    before = receipt(state_dir)
    missing = missing_directories(path)
    known = before
    if missing or read(path) != content:
        known = before.intending(path, content, missing)
        write_receipt(state_dir, known)
    failpoint("install.intended")
    try:
        change = put(path, content, mode)
    except OSError:
        if known != before:
            with suppress(OperationFailed):
                write_receipt(state_dir, before)
        raise
    failpoint("install.written")
    if path in known.intended or known.files.get(path) != digest(content):
        write_receipt(state_dir, known.adding(path, content, missing))
    return change


def restore(state_dir: str, path: str, content: bytes, mode: int) -> Put:
    """Restores a file that a user had changed. It stays the user's: only new directories for it are ours.

    Raises OSError if the file itself could not be written.
    """
    known, missing = receipt(state_dir), missing_directories(path)
    if missing:
        write_receipt(state_dir, replace(known, directories=(*known.directories, *missing)))
    return put(path, content, mode)


class FailedPlace(Struct, frozen=True):
    """A path of an earlier run at which the plugin could not be updated."""

    path: Annotated[str, Meta(description="where it should be")]
    error: Annotated[str, Meta(description="why it could not be written")]
    next: Annotated[str, Meta(description="what to do about it")]


class UnwritableFile(OperationFailed):
    """A file that the command must write could not be written."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(
            f"cannot write {printable_line(cause.filename or path)}: {cause.strerror}",
            "check the path: its permissions, what is in its place, and free space on its disk",
            code="file-unwritable",
        )


def plugin_paths(given: str | None, known: Receipt) -> list[str]:
    """The requested path first, then those of earlier runs whose directories still exist."""
    earlier = [path for path in known.plugins if os.path.isdir(os.path.dirname(path))]
    asked = [] if given is None else [os.path.join(given, PLUGIN)]
    return list(dict.fromkeys([*asked, *earlier])) or [os.path.join(DEFAULT_PLUGIN_DIR, PLUGIN)]


def is_foreign(path: str, known: Receipt) -> bool:
    """Whether a foreign file is in the plugin's place. A link is replaced, not followed."""
    if path in known.files or os.path.islink(path):
        return False
    try:
        there = read(path)
    except OSError:  # writing it reports the error
        return False
    return there is not None and not is_plugin(there)


def require_no_foreign_file(given: str | None, known: Receipt) -> None:
    """Raises if the plugin would replace a foreign file."""
    path = plugin_paths(given, known)[0]
    if is_foreign(path, known):
        raise OperationFailed(
            f"{printable_line(path)} is not netloom's plugin, and `netloom up` did not install it; nothing "
            "was done",
            "move it away, give another --plugin-dir, or replace it with --force",
            code="plugin-foreign",
            kind="configuration",
        )


def install_everywhere(
    given: str | None, state_dir: str, put: Callable[[str], Put]
) -> tuple[dict[str, Put | Literal["failed"]], list[FailedPlace]]:
    """Installs the plugin at each path. Returns the results. Raises if that fails at the requested path."""
    known = receipt(state_dir)
    done: dict[str, Put | Literal["failed"]] = {}
    failed: list[FailedPlace] = []
    for path in plugin_paths(given, known):
        try:
            done[path] = put(path)
        except UnwritableFile as error:
            if path not in known.files or given == os.path.dirname(path):
                raise
            done[path] = "failed"
            failed.append(FailedPlace(path, str(error), _remedy(path, state_dir)))
    return done, failed


def _remedy(path: str, state_dir: str) -> str:
    return (
        "fix that, or move away what is in its place, and run `netloom up` again; if no runtime uses that "
        f"directory any more, remove {os.path.dirname(path)}, or remove {path} from {receipt_of(state_dir)}"
    )


def forget_lost(state_dir: str) -> list[str]:
    """Forgets installed plugins whose directories were removed. Returns a warning for each."""
    known = receipt(state_dir)
    lost = [path for path in known.plugins if not os.path.isdir(os.path.dirname(path))]
    if lost:
        write_receipt(state_dir, known.forgetting(lost))
    return [_lost_warning(os.path.dirname(path)) for path in lost]


def _lost_warning(directory: str) -> str:
    again = f"`netloom up --plugin-dir {directory}` installs it again"
    if not os.path.lexists(directory):
        what = "missing"
    else:
        again = f"move that away, and {again}"
        what = "a link that leads to no directory" if os.path.islink(directory) else "a file, not a directory"
    return (
        f"{directory} is {what}, and the plugin that was installed there is lost; netloom no longer updates "
        f"it ({again})"
    )
