"""The entry point to the ledger, which is currently implemented with SQLite.

It is separate from the types beside it, because many modules that import those need no database.
"""

from local2.ledger.sqlite.backlog import TaskQueue
from local2.ledger.sqlite.copies import (
    Contents,
    contents_of,
    copy,
    counts_of,
    forget_again,
    ledger_key,
    refuse_another_schema,
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
    "copy",
    "counts_of",
    "forget_again",
    "ledger_key",
    "refuse_another_schema",
    "refuse_without_room",
]
