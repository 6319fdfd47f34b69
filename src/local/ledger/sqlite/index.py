"""The ledger's side of the vector index: what waits for it, and what it should hold."""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from heapq import merge
from itertools import chain, islice, zip_longest

from local.ledger.records import Waiting, indexed_text, labelled
from local.ledger.sqlite.database import Connection, Row
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.working_sets import owner_of

PAGE = 1_000
"""Rows that one transaction changes at most, so that nobody's save waits long behind it."""
PLACES = 16
"""Whose records are looked at together; the others come next."""
FIRST = ""


class IndexQueue:
    """One tenant's records on their way into the index, and out of it."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self.tenant = rows.tenant
        self._place = FIRST

    async def waiting(
        self, limit: int, *, embedder: str, but: Collection[int] = ()
    ) -> list[Waiting]:
        """Records that wait for the index, with vectors that `embedder` made.

        Each owner's newest, as many of the one as of the other while they have any; none of the
        rows in `but`, which are under way.
        """
        under_way = json.dumps(list(but))

        def take(connection: Connection) -> list[Row]:
            owners: defaultdict[str, list[list[int]]] = defaultdict(list)
            for place in self._next_places(connection):
                found = self._rows.execute(
                    connection, "waiting_rows", place=place, limit=limit, but=under_way
                )
                owners[owner_of(place)].append([row["row"] for row in found])
            queues = [merge(*queues, reverse=True) for queues in owners.values()]
            turns = chain.from_iterable(zip_longest(*queues))
            rows = list(islice((row for row in turns if row is not None), limit))
            return self._rows.execute(
                connection, "waiting", rows=json.dumps(rows), embedder=embedder
            ).fetchall()

        return [_waiting(row) for row in await self._rows.read(take)]

    def _next_places(self, connection: Connection) -> list[str]:
        """Those whose turn it is of the places where records wait."""
        for after in dict.fromkeys((self._place, FIRST)):
            found = self._rows.execute(connection, "waiting_places", after=after, limit=PLACES)
            if places := [row["place"] for row in found]:
                self._place = places[-1] if len(places) == PLACES else FIRST
                return places
        return []

    async def sample_indexed(self, limit: int) -> list[Waiting]:
        """Some records that should be in the index, by chance, with their vectors."""
        return [_waiting(row) for row in await self._rows.all("sample_indexed", limit=limit)]

    async def store_vectors(
        self, records: Sequence[Waiting], vectors: Sequence[bytes], embedder: str
    ) -> None:
        """Mark records as indexed, and store the vectors of those that had none, in their order."""
        without = [record for record in records if record.vector is None]

        def store(connection: Connection) -> None:
            for record, data in zip(without, vectors, strict=True):
                self._rows.execute(
                    connection, "keep_vector", row=record.row, embedder=embedder, data=data
                )
            for record in records:
                self._rows.execute(connection, "mark_indexed", row=record.row)

        await self._rows.write(store)

    async def indexed(self) -> int:
        """How many records the index should hold, as far as it has caught up."""
        row = await self._rows.one("count_indexed")
        return int(row["indexed"]) if row else 0

    async def to_remove(self, limit: int) -> list[str]:
        """Ids in the index that no longer belong there."""
        return [row["id"] for row in await self._rows.all("to_remove", limit=limit)]

    async def removed(self, ids: Sequence[str]) -> None:
        """Mark records as gone from the index."""
        await self._rows.change_each("mark_removed", ({"id": id_} for id_ in ids))

    async def index_anew(self) -> None:
        """Let every record wait for the index again, as after the index was emptied."""
        row = await self._rows.one("last_row")
        last = row["last"] if row else 0
        for first in range(1, last + 1, PAGE):
            await self._rows.change("all_waiting", first=first, last=first + PAGE - 1)

    async def index_again(self, ids: Sequence[str]) -> None:
        """Let these records wait for the index again."""
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            await self._rows.change_each("wait_again", ({"id": id_} for id_ in page))

    async def compared(self, present: set[str]) -> tuple[list[str], list[str]]:
        """What the index lacks, and what it has too much, if it holds the ids in `present`."""

        def compare(connection: Connection) -> tuple[list[str], list[str]]:
            expected = {row["id"] for row in self._rows.execute(connection, "indexed_ids")}
            return list(expected - present), list(present - expected)

        return await self._rows.read(compare)


def _waiting(row: Row) -> Waiting:
    text = _indexed_text(row) if row["vector"] is None else ""
    return Waiting(row=row["row"], id=row["id"], text=text, vector=row["vector"])


def _indexed_text(row: Row) -> str:
    before = None if row["before"] is None else labelled(row["before_label"], row["before"])
    return indexed_text(row["kind"], labelled(row["topic"] or row["label"], row["content"]), before)
