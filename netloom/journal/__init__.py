"""The node's durable memory: which attachments there are, who holds which address, what was done.

One file of SQLite, one writer. An attachment is pending, then committed, then deleting, then gone;
addresses are taken and given back in the very transactions that change it. So whatever moment a process
ends at, what the journal says is enough to finish or to undo what was going on.
"""

from .errors import Closed, Damaged, InUse, JournalError, NewerSchema, Unwritable
from .file import boottime, empty, in_memory, read_only
from .journal import Answer, Journal
from .ledger import Ledger
from .records import Attachment, Operation, Place, Port, State

__all__ = [
    "Answer", "Attachment", "Closed", "Damaged", "InUse", "Journal", "JournalError", "Ledger",
    "NewerSchema", "Operation", "Place", "Port", "State", "Unwritable", "boottime", "empty", "in_memory",
    "read_only",
]  # fmt: skip
