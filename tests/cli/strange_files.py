"""What somebody may have put in the place of a file of settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def _huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(4 << 30)


STRANGE: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a loop of links": lambda path: path.symlink_to(path.name),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "huge": _huge,
}
