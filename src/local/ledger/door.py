"""The ledger, as whoever stores or finds something imports it: today's is SQLite's.

A module of its own, since the types beside it are imported by many that need no database.
"""

from local.ledger.sqlite.backlog import TaskQueue
from local.ledger.sqlite.copies import (
    Contents,
    contents_of,
    copy,
    counted,
    ensure_known,
    forget_again,
    kept_files,
    ledger_key,
    refuse_without_room,
)
from local.ledger.sqlite.ledger import Ledger
from local.ledger.sqlite.upkeep import IndexedRecords, Upkeep

__all__ = [
    "Contents",
    "IndexedRecords",
    "Ledger",
    "TaskQueue",
    "Upkeep",
    "contents_of",
    "copy",
    "counted",
    "ensure_known",
    "forget_again",
    "kept_files",
    "ledger_key",
    "refuse_without_room",
]
