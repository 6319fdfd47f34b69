"""What is held in memory of a ledger's file, within one budget for all tenants.

A budget for each would be as many times as large as there are tenants.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

from local.ledger.sqlite.database import Database

RECORDS = 120_000
"""Records of memories that are searched whole, at about 2 KB each."""
ROWS = 2_000_000
"""Rows of places, 8 bytes each."""
TOPICS = 4_096
"""Facts asked for lately: 16 MB of those that fit."""
WORDS = 50_000
"""Words, each with how many records have it."""


class Budget:
    """What is held of a kind; beyond `most` pieces, what was used longest ago goes.

    Used by one thread at a time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[Hashable, tuple[int, Callable[[], object]]] = OrderedDict()
        self._size = 0

    def use(self, key: Hashable, size: int, drop: Callable[[], object]) -> None:
        """Count what was just used as so large; `drop` lets it go. It stays, however large."""
        self.forget(key)
        self._held[key] = size, drop
        self._size += size
        while self._size > self.most and len(self._held) > 1:
            _, (dropped, drop_oldest) = self._held.popitem(last=False)
            self._size -= dropped
            drop_oldest()

    def forget(self, key: Hashable) -> None:
        """It is not held any more."""
        size, _ = self._held.pop(key, (0, None))
        self._size -= size


class Held:
    """The budgets of one file."""

    def __init__(self) -> None:
        self.records = Budget(RECORDS)
        self.rows = Budget(ROWS)
        self.topics = Budget(TOPICS)
        self.words = Budget(WORDS)


_OF: WeakKeyDictionary[Database, Held] = WeakKeyDictionary()


def held_of(database: Database) -> Held:
    """The budgets that all ledgers over a database share."""
    return _OF.setdefault(database, Held())
