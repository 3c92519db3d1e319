"""The plugin's part of `netloom up`: where it belongs.

Runtimes of one machine may look for plugins in different directories. Each place at which it was ever
installed is in the receipt, and every run brings all of them up to date: a plugin that nobody looks after
would stay at its version for ever, and the runtime that calls it with it. A place that cannot be written
keeps neither the others nor the agent from that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..ops.node.install import PLUGIN, Put, Receipt, is_plugin, read, receipt, receipt_path
from .failure import CommandFailed
from .output import printable_line
from .place import PLUGIN_DIR
from .receipts import write_receipt
from .status import CONFIGURATION


class FailedPlace(Struct, frozen=True):
    """A place of an earlier run at which the plugin could not be brought up to date."""

    path: Annotated[str, Meta(description="where it should be")]
    error: Annotated[str, Meta(description="what was in the way")]
    next: Annotated[str, Meta(description="what to do about it")]


class Unwritable(CommandFailed):
    """A file that the command has to write could not be."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(
            f"cannot write {printable_line(cause.filename or path)}: {cause.strerror}",
            "look at the path: its permissions, what is in its place, and space on its disk",
            code="file-unwritable",
        )


def plugin_paths(given: str | None, known: Receipt) -> list[str]:
    """The place that is asked for first, then those of earlier runs whose directories are still there."""
    earlier = [path for path in known.plugins if os.path.isdir(os.path.dirname(path))]
    asked = [] if given is None else [os.path.join(given, PLUGIN)]
    return list(dict.fromkeys([*asked, *earlier])) or [os.path.join(PLUGIN_DIR, PLUGIN)]


def is_stranger(path: str, known: Receipt) -> bool:
    """Whether somebody else's file is in the plugin's place. A link is replaced, not followed."""
    if path in known.files or os.path.islink(path):
        return False
    try:
        there = read(path)
    except OSError:  # whoever writes it says what is wrong
        return False
    return there is not None and not is_plugin(there)


def require_no_stranger(given: str | None, known: Receipt) -> None:
    """Raises if the plugin would take the place of somebody else's file."""
    path = plugin_paths(given, known)[0]
    if is_stranger(path, known):
        raise CommandFailed(
            f"{printable_line(path)} is no plugin of netloom, and `netloom up` did not put it there; nothing "
            "was done",
            "move it away, give another --plugin-dir, or replace it with --force",
            code="plugin-foreign",
            status=CONFIGURATION,
        )


def install_everywhere(
    given: str | None, state_dir: str, put: Callable[[str], Put]
) -> tuple[dict[str, Put | Literal["failed"]], list[FailedPlace]]:
    """What became of the plugin at each place. Raises if it cannot be where it was asked for."""
    known = receipt(state_dir)
    done: dict[str, Put | Literal["failed"]] = {}
    failed: list[FailedPlace] = []
    for path in plugin_paths(given, known):
        try:
            done[path] = put(path)
        except Unwritable as error:
            if path not in known.files or given == os.path.dirname(path):
                raise
            done[path] = "failed"
            failed.append(FailedPlace(path, str(error), _remedy(path, state_dir)))
    return done, failed


def _remedy(path: str, state_dir: str) -> str:
    return (
        "mend that, or move away what is in its place, and run `netloom up` again; if no runtime looks there "
        f"any more, remove {os.path.dirname(path)}, or take {path} out of {receipt_path(state_dir)}, and it "
        "is looked after no more"
    )


def forget_lost(state_dir: str) -> list[str]:
    """Places whose directories somebody has removed are looked after no more. A word on each."""
    known = receipt(state_dir)
    lost = [path for path in known.plugins if not os.path.isdir(os.path.dirname(path))]
    if lost:
        write_receipt(state_dir, known.forgetting(lost))
    return [_word_on(os.path.dirname(path)) for path in lost]


def _word_on(directory: str) -> str:
    again = f"`netloom up --plugin-dir {directory}` installs it again"
    if not os.path.lexists(directory):
        what = "gone"
    else:
        again = f"move that away, and {again}"
        what = (
            "a link that leads to no directory" if os.path.islink(directory) else "a file now, no directory"
        )
    return (
        f"{directory} is {what}, and with it went the plugin that was installed there; it is looked after no "
        f"more ({again})"
    )
