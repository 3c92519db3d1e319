"""The node's durable memory: which attachments there are, who holds which address, what was done.

One file of SQLite, one writer. An attachment is pending, then committed, then deleting, then gone;
addresses are taken and given back in the very transactions that change it. So whatever moment a process
ends at, what the journal says is enough to finish or to undo what was going on.
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
    # The writer, with its thread, is the agent's: who only reads does not load it.
    __getattr__, __dir__ = lazily(__name__, {"journal": ("Answer", "Journal")})
