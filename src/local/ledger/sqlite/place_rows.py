"""The rows of places, in memory: whose a few hundred rows are is then arithmetic.

The full-text index can say it, too, but looks into the list of all rows of a place for each of
them, which takes a millisecond or more for every new word of a question.
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np

from local.ledger.entries import Positions
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.rows import TenantRows

KEPT = 2_000_000
"""Rows of all places together, 8 bytes each; beyond, the place asked for longest ago goes."""
FEW = 5_000
"""New rows that are read with the table; more are found faster with the index."""


class PlaceRows:
    """One tenant's. Rows are only ever added, and stay in their place; used inside reads only."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._places: OrderedDict[str, array[int]] = OrderedDict()
        self._last = 0

    def count(self, connection: Connection, places: Iterable[str], rows: Positions) -> int:
        """How many of the rows are in one of the places."""
        self._catch_up(connection)
        return sum(_common(self._of(connection, place), rows) for place in places)

    def _of(self, connection: Connection, place: str) -> "array[int]":
        if place not in self._places:
            found = self._rows.execute(connection, "rows_of_place", place=place, last=self._last)
            self._places[place] = array("q", sorted(row for (row,) in found))
            while len(self._places) > 1 and sum(map(len, self._places.values())) > KEPT:
                self._places.popitem(last=False)
        self._places.move_to_end(place)
        return self._places[place]

    def _catch_up(self, connection: Connection) -> None:
        last = self._rows.execute(connection, "last_row").fetchone()["last"]
        if last - self._last > FEW:
            self._places.clear()
        elif self._places:
            for row, place in self._rows.execute(connection, "rows_after", after=self._last):
                if place in self._places:
                    self._places[place].append(row)
        self._last = last


def _common(ordered: "array[int]", rows: Positions) -> int:
    """How many of the rows there are among others, which are in order."""
    if not ordered:
        return 0
    own = np.frombuffer(ordered, np.int64)
    found = np.minimum(np.searchsorted(own, rows), len(own) - 1)
    return int((own[found] == rows).sum())
