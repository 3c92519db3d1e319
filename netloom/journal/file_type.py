"""The type of a file: whether a path is a regular file, or a FIFO, a device or a link.

The type is read from the file's status before the file is opened: opening a device may have side effects, and
opening a FIFO may block for ever.
"""

from __future__ import annotations

import errno
import os
import stat

from .errors import Forbidden, JournalError, MissingJournal, NotAFile

# Files that SQLite also opens if they exist.
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
    """Returns the name of the type; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((name for is_such, name in _TYPES if is_such(mode)), "something else")


def require_database(path: str) -> None:
    """Refuses every type that SQLite must not open, such as a FIFO, on which it would block for ever.

    A link to a regular file is allowed: the journal may be on another disk. Raises `JournalError`.
    """
    for it in (path, *(f"{path}{ending}" for ending in _BESIDE)):
        try:
            mode = os.stat(it).st_mode
        except (FileNotFoundError, NotADirectoryError):
            # Its disk may not be mounted: a new, empty journal would not know what is attached.
            if os.path.islink(it):
                raise NotAFile(f"{it} is a symbolic link to a file that does not exist") from None
            if it == path:
                raise MissingJournal(f"there is no journal at {path}") from None
            continue
        except PermissionError:
            raise _forbidden(it) from None
        except OSError as cause:
            kind = NotAFile if cause.errno == errno.ELOOP else JournalError
            raise kind(f"cannot read {it}: {cause.strerror}") from None
        what = other_than_file(mode)
        if what is not None:
            raise NotAFile(f"{it} is {what}, not a regular file")
        if not os.access(it, os.R_OK):  # SQLite would only say that it cannot open the file
            raise _forbidden(it)


def _forbidden(path: str) -> Forbidden:
    return Forbidden(f"cannot read {path}: {os.strerror(errno.EACCES)}")
