"""Holds memories that are searched repeatedly as columns in RAM, and updates them before each use.

A search of a few thousand records then takes some arithmetic instead of reading them. Every write
of a record, its vector or its rating raises a revision, which tells what has changed; writers do
not have to report changes.

Places and sessions are encoded as words: in the columns `place` and `session_place`, and in the
full-text index. The row numbers of a place are held in RAM as well. The full-text index could find
them, but it reads the list of all rows of a place for every word, which takes a millisecond or more
each time.

All tenants share one budget, which does not grow with their number.
"""

import math
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from local2.bounded_dict import BoundedDict
from local2.ledger.columns import Columns
from local2.ledger.engines import Database, Row
from local2.ledger.entries import Candidate, Positions
from local2.ledger.operations.rows import TenantRows, Transaction, as_json
from local2.ledger.search import Place, Search
from local2.protocol.memories import PERSONAL

HELD_RECORDS = 120_000
"""Maximum number of records held in working sets, at about 2 KB each."""
HELD_ROWS = 2_000_000
"""Maximum number of row numbers held for places, at 8 bytes each."""
HELD_TOPICS = 4_096
"""Maximum number of recently looked-up facts that are held: at most 16 MB."""
HELD_WORDS = 50_000
"""Maximum number of cached word counts."""
MAX_NEW_ROWS = 5_000
"""Maximum number of new rows that are read from the table; if there are more, the rows of each
place are read again with the index, which is faster then."""
MAX_RECORDS = 12_000
"""Maximum number of records in a memory that is searched as a whole; in a larger one, only
candidates are scored."""
PAGE = 500
"""Number of records read at a time, so that no other read waits long."""
OUTDATED_SHARE = 0.25
"""Share of outdated positions in the columns from which a memory is read again."""

AFTER_HEX = "y"
"""It sorts after everything that a place word may contain."""

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
    """Return the budgets that all ledgers over a database share."""
    return _BUDGETS.setdefault(database, Budgets())


def place_word(tenant: str, place: Place) -> str:
    """Return the word for scope, owner and kind, as in the column `place`."""
    return "p" + _word(tenant, *place)


def place_of(word: str) -> Place:
    """Return the place that a word stands for."""
    _, scope, owner, kind, _ = word.split("x")
    names = (bytes.fromhex(part).decode() for part in (scope, owner, kind))
    return msgspec.convert(tuple(names), Place)


def session_word(tenant: str, search: Search) -> str | None:
    """Return the word for the session if only one session is searched, else None."""
    if search.only_session is None or {place.scope for place in search.places} != {"session"}:
        return None
    return "s" + _word(tenant, search.places[0].owner, search.only_session)


def owner_of(place: str) -> str:
    """Return the encoded owner in a place word."""
    return place.split("x")[2]


def users_of_places(tenant: str, next_place: Callable[[str, str], str | None]) -> Iterator[str]:
    """Yield the users with personal memories; `next_place` returns the first place word between."""
    for scope in PERSONAL:
        after = "p" + _word(tenant, scope)
        until = after + AFTER_HEX
        while (place := next_place(after, until)) is not None:
            owner = owner_of(place)
            yield bytes.fromhex(owner).decode()
            after = "p" + _word(tenant, scope) + owner + AFTER_HEX


def _word(*parts: str) -> str:
    return "".join(f"{part.encode().hex().upper()}x" for part in parts)


class PlaceRows:
    """One tenant's row numbers by place; used inside reads.

    Rows are only added, and never change their place.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._places: dict[str, array[int]] = {}
        self._last = 0

    def count(self, tx: Transaction, places: Iterable[str], rows: Positions) -> int:
        """Return how many of the rows are in any of the places."""
        self._catch_up(tx)
        return sum(_count_common(self._rows_in(tx, place), rows) for place in places)

    def ratio_from(self, tx: Transaction, places: Iterable[str], row: int) -> float:
        """Return the ratio of all rows of the places to those from this row on."""
        self._catch_up(tx)
        every = [self._rows_in(tx, place) for place in places]
        newer = sum(len(rows) - bisect_left(rows, row) for rows in every)
        return sum(map(len, every)) / max(newer, 1)

    def _rows_in(self, tx: Transaction, place: str) -> "array[int]":
        if place not in self._places:
            found = tx.execute("rows_of_place", place=place, last=self._last)
            self._places[place] = array("q", sorted(row for (row,) in found))
        rows = self._places[place]
        self._budget.use((self, place), len(rows), partial(self._places.pop, place))
        return rows

    def _catch_up(self, tx: Transaction) -> None:
        last = tx.execute("last_row").fetchone()["last"]
        if last - self._last > MAX_NEW_ROWS:
            for place in self._places:
                self._budget.forget((self, place))
            self._places.clear()
        elif self._places:
            for row, place in tx.execute("rows_after", after=self._last):
                if place in self._places:
                    self._places[place].append(row)
        self._last = last


def _count_common(ordered: "array[int]", rows: Positions) -> int:
    """Return how many of `rows` are in `ordered`, which is sorted."""
    if not ordered:
        return 0
    own = np.frombuffer(ordered, np.int64)
    found = np.minimum(np.searchsorted(own, rows), len(own) - 1)
    return int((own[found] == rows).sum())


class WorkingSets:
    """One tenant's working sets, by the places that are searched."""

    def __init__(self, rows: TenantRows, budget: Budget) -> None:
        self._rows = rows
        self._budget = budget
        self._sets: dict[tuple[str, Places], _WorkingSet] = {}
        self._large = BoundedDict[Places, None](PAGE)
        """The memories that were too large; they hardly ever shrink."""

    async def fits(self, places: Places) -> bool:
        """Return whether a memory is small enough to be scored as a whole."""
        if any(held == places for _, held in self._sets):
            return True
        if places not in self._large:
            if await self._rows.read(_count_records, places) <= MAX_RECORDS:
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


def _count_records(tx: Transaction, places: Places) -> int:
    (count,) = tx.execute("count_in", places=as_json(places), limit=MAX_RECORDS + 1).fetchone()
    return int(count)


def candidates_of(rows: Sequence[Row]) -> list[Candidate]:
    """Return the candidates in the rows of a statement, whose columns have their fields' names."""
    if not rows:
        return []
    names = rows[0].keys()
    fields = itemgetter(*map(names.index, Candidate._fields))  # looked up once: names are slow
    return [Candidate._make(fields(row)) for row in rows]


class _WorkingSet:
    def __init__(self, places: Places, embedder: str) -> None:
        self._embedder = embedder
        self._places = places
        self._departures = 0
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
                    new = [one for one in changed if known.get(one["row"]) != one["revision"]]
                self.columns.add(candidates_of(new))
                self._seen[place] = last["revision"], last["row"]
                if self._settled <= last["revision"]:
                    known.update((one["row"], one["revision"]) for one in changed)
            complete = complete and len(changed) < PAGE
        self._version = version.number if complete else None
        if complete and self._settled < math.inf:
            settled = self._settled
            for place, seen in self._seen.items():
                self._seen[place] = min(seen, (settled, -1))
            self._unsettled = {row: at for row, at in self._unsettled.items() if at >= settled}
            self._settled = math.inf
        return complete
