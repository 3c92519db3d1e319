"""What can go wrong with the journal."""

from __future__ import annotations


class JournalError(Exception):
    """The journal cannot be used, and why."""


class Missing(JournalError):
    """There is no such file."""


class NotAFile(JournalError):
    """Something else is at its path, which is not opened."""


class LockNotAFile(NotAFile):
    """Something else is at the path of its lock, which is not opened."""


class InUse(JournalError):
    """Another agent has it."""


class NewerSchema(JournalError):
    """A later netloom wrote it. It was not changed."""


class NotMigrated(JournalError):
    """It cannot be given our schema. It was not changed."""


class Unwritable(JournalError):
    """The disk did not take a change: full, read-only or broken. Nothing of the change happened."""


class ReadOnly(Unwritable):
    """The file or its disk is read-only."""


class Unreadable(Unwritable):
    """What is in it cannot be had now: the disk fails, or somebody has locked it. So nothing is changed."""


class Forbidden(Unreadable):
    """This user may not read it."""


class Damaged(JournalError):
    """The file is no journal, or no longer one."""


class Closed(JournalError):
    """It takes no more changes."""
