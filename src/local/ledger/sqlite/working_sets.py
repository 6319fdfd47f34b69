"""The memories that are asked again and again, as columns in memory, brought up to date each time.

A question about a memory of a few thousand records then costs some arithmetic instead of reading
them. What changed is told by the ledger itself, by a revision that every write of a record, of its
vector or of its rating raises; so nobody has to remember to tell.
"""

from collections import OrderedDict
from functools import partial

import msgspec

from local.ledger.columns import Columns
from local.ledger.entries import Candidate
from local.ledger.sqlite.database import Connection, data_version
from local.ledger.sqlite.rows import TenantRows

MOST = 12_000
"""Records of a memory that is searched whole; of a larger one only candidates are looked at."""
KEPT = 60_000
"""Records of all memories together, at about 2 KB each; beyond, the one asked longest ago goes."""
PAGE = 500
"""Records read at a time, so that nobody else's read waits long."""
OUTDATED = 0.25

Places = tuple[str, ...]


class WorkingSets:
    """One tenant's, by the places that a search may find."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._sets: OrderedDict[Places, _WorkingSet] = OrderedDict()
        self._large: OrderedDict[Places, None] = OrderedDict()

    async def fits(self, places: Places) -> bool:
        """Whether a memory is small enough to be searched whole; a large one hardly shrinks."""
        if places in self._sets:
            return True
        if places not in self._large:
            if await self._rows.read(partial(self._count, places)) <= MOST:
                return True
            self._note_large(places)
        return False

    async def of(self, places: Places) -> Columns | None:
        """A memory as it is now; None if it has become too large."""
        known = self._sets.setdefault(places, _WorkingSet(self._rows, places))
        self._sets.move_to_end(places)
        while not await self._rows.read(known.catch_up):
            pass
        size = len(known.columns)
        if size > MOST or known.columns.outdated > OUTDATED * size:
            self._sets.pop(places, None)  # to be read anew
            if size - known.columns.outdated > MOST:
                self._note_large(places)
                return None
        while len(self._sets) > 1 and sum(len(s.columns) for s in self._sets.values()) > KEPT:
            self._sets.popitem(last=False)
        return known.columns

    def _count(self, places: Places, connection: Connection) -> int:
        (count,) = self._rows.execute(
            connection, "count_in", places=_json(places), limit=MOST + 1
        ).fetchone()
        return int(count)

    def _note_large(self, places: Places) -> None:
        self._large[places] = None
        if len(self._large) > PAGE:
            self._large.popitem(last=False)


class _WorkingSet:
    def __init__(self, rows: TenantRows, places: Places) -> None:
        self._rows = rows
        self._seen = dict.fromkeys(places, (-1, 0))
        self._version = 0
        self.columns = Columns()

    def catch_up(self, connection: Connection) -> bool:
        """Read what changed, a page of each place at most; whether that was all."""
        version = data_version(connection)
        if version == self._version:
            return True
        whole = True
        for place, (revision, row) in self._seen.items():
            asked = {"place": place, "revision": revision, "after": row, "limit": PAGE}
            changed = self._rows.execute(connection, "changed", **asked).fetchall()
            if changed:
                self.columns.add(Candidate._make(each[:-1]) for each in map(tuple, changed))
                self._seen[place] = changed[-1]["revision"], changed[-1]["row"]
            whole = whole and len(changed) < PAGE
        self._version = version if whole else 0
        return whole


def _json(places: Places) -> str:
    return msgspec.json.encode(places).decode()
