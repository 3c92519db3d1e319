"""The node's durable memory: which attachments exist, who holds which address, and what was done.

It is one SQLite file with one writer. An attachment is pending, then committed, then deleting, and then its
row is deleted. Addresses are taken and released in the same transaction that changes their attachment. So at
whatever moment a process ends, the journal has enough to finish or to undo what was under way.
"""

from typing import TYPE_CHECKING

from ..cni.lazy import lazily
from .errors import Closed, Damaged, InUse, JournalError, NewerSchema, NotMigrated, Unwritable
from .file import boottime, empty, in_memory, read_only
from .ledger import Ledger
from .records import EVENTS, Attachment, AttachmentPlace, Operation, Port, State

if TYPE_CHECKING:
    from .journal import Answer, Journal

__all__ = [
    "EVENTS", "Answer", "Attachment", "AttachmentPlace", "Closed", "Damaged", "InUse", "Journal",
    "JournalError", "Ledger", "NewerSchema", "NotMigrated", "Operation", "Port", "State", "Unwritable",
    "boottime", "empty", "in_memory", "read_only",
]  # fmt: skip

if not TYPE_CHECKING:
    # Only the agent writes. Other users of the package do not load the writer and its thread.
    __getattr__, __dir__ = lazily(__name__, {"journal": ("Answer", "Journal")})
