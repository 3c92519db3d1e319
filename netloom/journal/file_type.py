"""The type of a file: whether a path has a regular file, or a FIFO, a device or a link in its place.

It is read from the status before anything is opened: opening a device may have an effect, and opening a FIFO
may wait for ever.
"""

from __future__ import annotations

import errno
import os
import stat

from .errors import Forbidden, JournalError, MissingJournal, NotAFile

# What SQLite opens besides, if it is there.
_BESIDE = ("-wal", "-shm", "-journal")
_TYPES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def other_than_file(mode: int) -> str | None:
    """The name of the type; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((name for is_such, name in _TYPES if is_such(mode)), "something else")


def require_database(path: str) -> None:
    """Refuses everything that SQLite should not open: it would wait for ever on a FIFO.

    A link to a file is fine: the journal may be on another disk. Raises `JournalError`.
    """
    for it in (path, *(f"{path}{ending}" for ending in _BESIDE)):
        try:
            mode = os.stat(it).st_mode
        except (FileNotFoundError, NotADirectoryError):
            # Its disk may not be mounted: an empty journal in its place would forget what is attached.
            if os.path.islink(it):
                raise NotAFile(f"{it} is a symbolic link that leads nowhere: it is not opened") from None
            if it == path:
                raise MissingJournal(f"there is no journal at {path}") from None
            continue
        except PermissionError:
            raise _forbidden(it) from None
        except OSError as cause:
            kind = NotAFile if cause.errno == errno.ELOOP else JournalError
            raise kind(f"{it} cannot be read: {cause.strerror}") from None
        what = other_than_file(mode)
        if what is not None:
            raise NotAFile(f"{it} is no file, but {what}: it is not opened")
        if not os.access(it, os.R_OK):  # of which SQLite says only that it cannot open it
            raise _forbidden(it)


def _forbidden(path: str) -> Forbidden:
    return Forbidden(f"cannot read {path}: {os.strerror(errno.EACCES)}")
