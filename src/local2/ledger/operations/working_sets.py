"""Holds memories that are searched repeatedly as columns in RAM, and updates them before each use.

A search of a few thousand records then takes some arithmetic instead of reading them. Every write
of a record, its vector or its rating raises a revision, which tells what has changed; writers do
not have to report changes.

All tenants share one budget, which does not grow with their number.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import itemgetter
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

from local2.bounded_dict import BoundedDict
from local2.ledger.columns import Candidate, Columns
from local2.ledger.engines import Database, Row
from local2.ledger.operations.transactions import TenantRows, Transaction, as_json

HELD_RECORDS = 120_000
"""Maximum number of records held in working sets, at about 2 KB each."""
HELD_ROWS = 2_000_000
"""Maximum number of row numbers held for places, at 8 bytes each."""
HELD_TOPICS = 4_096
"""Maximum number of recently looked-up facts that are held: at most 16 MB."""
HELD_WORDS = 50_000
"""Maximum number of cached word counts."""
MAX_RECORDS = 12_000
"""Maximum number of records in a memory that is searched as a whole; in a larger one, only
candidates are scored."""
PAGE = 500
"""Number of records read at a time, so that no other read waits long."""
OUTDATED_SHARE = 0.25
"""Share of outdated positions in the columns from which a memory is read again."""

Places = tuple[str, ...]
T = TypeVar("T")


class Budget:
    """Limits what is held in RAM: beyond a total of `max_size`, drops the least recently used.

    Used by one thread at a time.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._held: OrderedDict[Hashable, tuple[int, Callable[[], object]]] = OrderedDict()
        self._size = 0

    def use(self, key: Hashable, size: int, drop: Callable[[], object]) -> None:
        """Record the use of an entry; `drop` removes it. The entry itself stays, however large."""
        self.forget(key)
        self._held[key] = size, drop
        self._size += size
        while self._size > self.max_size and len(self._held) > 1:
            _, (dropped, drop_oldest) = self._held.popitem(last=False)
            self._size -= dropped
            drop_oldest()

    def forget(self, key: Hashable) -> None:
        """Stop counting an entry that is no longer held."""
        size, _ = self._held.pop(key, (0, None))
        self._size -= size


class Budgets:
    """The budgets of one database file."""

    def __init__(self) -> None:
        self.records = Budget(HELD_RECORDS)
        self.rows = Budget(HELD_ROWS)
        self.topics = Budget(HELD_TOPICS)
        self.words = Budget(HELD_WORDS)


_BUDGETS: WeakKeyDictionary[Database, Budgets] = WeakKeyDictionary()


def budgets_of(database: Database) -> Budgets:
    """The budgets that all ledgers over a database share."""
    return _BUDGETS.setdefault(database, Budgets())


class WorkingSets:
    """One tenant's working sets, by the places that are searched."""

    def __init__(self, rows: TenantRows, budget: Budget) -> None:
        self._rows = rows
        self._budget = budget
        self._sets: dict[tuple[str, Places], _WorkingSet] = {}
        self._large = BoundedDict[Places, None](PAGE)
        """The memories that were too large; they hardly ever shrink."""

    async def fits(self, places: Places) -> bool:
        """Whether a memory is small enough to be scored as a whole."""
        if any(held == places for _, held in self._sets):
            return True
        if places not in self._large:
            asked = {"places": as_json(places), "limit": MAX_RECORDS + 1}
            row = await self._rows.one("count_in", **asked)
            if row is None or row["records"] <= MAX_RECORDS:
                return True
            self._large[places] = None
        return False

    async def prepare(self, embedder: str) -> None:
        """Read the memories in use again, with the vectors of another embedder."""
        for places in list(dict.fromkeys(held for _, held in self._sets)):
            await self.read(places, embedder, lambda _tx, _columns: None)

    def hold_only(self, embedder: str) -> None:
        """Drop the working sets that have vectors of other embedders."""
        for key in [key for key in self._sets if key[0] != embedder]:
            self._drop(key)

    async def read(
        self, places: Places, embedder: str, operation: Callable[[Transaction, Columns], T]
    ) -> T | None:
        """Run an operation on a memory's current columns, which have an embedder's vectors.

        It runs in the read that finds nothing more to add. None if the memory is too large.
        """
        key = (embedder, places)
        if (known := self._sets.get(key)) is None:
            known = self._sets[key] = _WorkingSet(places, embedder)

        def read_columns(tx: Transaction) -> tuple[bool, T | None]:
            with known.lock:
                is_complete = known.catch_up(tx)
                if not is_complete or known.is_too_large:
                    return is_complete, None
                return True, operation(tx, known.columns)

        is_complete = False
        while not is_complete:
            is_complete, result = await self._rows.read(read_columns)
        size = len(known.columns)
        if known.is_too_large:
            self._large[places] = None
        if size > MAX_RECORDS or known.columns.outdated > OUTDATED_SHARE * size:
            self._drop(key)  # it is read again when next used
        elif key in self._sets:
            self._budget.use((self, key), size, partial(self._sets.pop, key, None))
        return result

    def clear(self) -> None:
        """Drop all working sets, since records have left their places."""
        for key in list(self._sets):
            self._drop(key)

    def _drop(self, key: tuple[str, Places]) -> None:
        self._sets.pop(key, None)
        self._budget.forget((self, key))


def candidates_of(rows: Sequence[Row]) -> list[Candidate]:
    """The candidates in the rows of a statement, whose columns have their fields' names."""
    if not rows:
        return []
    names = rows[0].keys()
    fields = itemgetter(*map(names.index, Candidate._fields))  # looked up once: names are slow
    return [Candidate._make(fields(tuple(row))) for row in rows]  # a tuple's values are fast, too


class _WorkingSet:
    def __init__(self, places: Places, embedder: str) -> None:
        self._embedder = embedder
        self._places = places
        self._departures = 0
        self.lock = Lock()
        """Held by who reads or changes the columns: PostgreSQL's reads run in several threads."""
        self._forget()

    def _forget(self) -> None:
        """Begin anew, with everything to be read."""
        self._seen: dict[str, tuple[float, int]] = dict.fromkeys(self._places, (-1, 0))
        self._version: object = None
        """The number of the version that was read; None if there may be more to read."""
        self._settled = math.inf
        self._unsettled: dict[int, int] = {}
        """Revisions of the rows that are read once more, since others may yet be committed."""
        self.columns = Columns()

    @property
    def is_too_large(self) -> bool:
        return len(self.columns) - self.columns.outdated > MAX_RECORDS

    def catch_up(self, tx: Transaction) -> bool:
        """Read at most a page of changes in each place; return whether there are no more."""
        version = tx.version()
        if version.number == self._version:
            return True
        if version.departures != self._departures:
            self._forget()
            self._departures = version.departures
        self._settled = min(self._settled, version.settled)
        complete = True
        for place, (revision, row) in self._seen.items():
            asked = {
                "place": place,
                "revision": revision,
                "after": row,
                "limit": PAGE,
                "embedder": self._embedder,
            }
            changed = tx.execute("changed", **asked).fetchall()
            if changed:
                known, last = self._unsettled, changed[-1]
                new = changed
                if known:
                    new = [row for row in changed if known.get(row["row"]) != row["revision"]]
                self.columns.add(candidates_of(new))
                self._seen[place] = last["revision"], last["row"]
                if self._settled <= last["revision"]:
                    known.update((row["row"], row["revision"]) for row in changed)
            complete = complete and len(changed) < PAGE
        self._version = version.number if complete else None
        if complete and self._settled < math.inf:
            settled = self._settled
            for place, seen in self._seen.items():
                self._seen[place] = min(seen, (settled, -1))
            self._unsettled = {row: at for row, at in self._unsettled.items() if at >= settled}
            self._settled = math.inf
        return complete
