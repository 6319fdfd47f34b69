"""The entry point to the ledger, which is currently implemented with SQLite.

It is separate from the types beside it, because many modules that import those need no database.
"""

from local2.ledger.sqlite.backlog import TaskQueue
from local2.ledger.sqlite.copies import (
    Contents,
    contents_of,
    copies_before_migrations,
    copy,
    counts_of,
    ensure_schema_known,
    forget_again,
    ledger_key,
    refuse_without_room,
)
from local2.ledger.sqlite.ledger import Ledger
from local2.ledger.sqlite.upkeep import IndexedRecords, Upkeep

__all__ = [
    "Contents",
    "IndexedRecords",
    "Ledger",
    "TaskQueue",
    "Upkeep",
    "contents_of",
    "copies_before_migrations",
    "copy",
    "counts_of",
    "ensure_schema_known",
    "forget_again",
    "ledger_key",
    "refuse_without_room",
]
