"""The ledger for code that stores or finds something; today's ledger is SQLite's.

This is a module of its own, because the types beside it are imported by many that need no database.
"""

from local.ledger.sqlite.backlog import TaskQueue
from local.ledger.sqlite.copies import (
    Contents,
    contents_of,
    copies_before_migrations,
    copy,
    counted,
    ensure_known,
    forget_again,
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
    "copies_before_migrations",
    "copy",
    "counted",
    "ensure_known",
    "forget_again",
    "ledger_key",
    "refuse_without_room",
]
