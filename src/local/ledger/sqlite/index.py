"""The ledger's side of the vector index: what it takes of a record, and what it should hold."""

import json
from collections.abc import Sequence

from local.ledger.records import Waiting, indexed_text, labelled
from local.ledger.sqlite.backlog import PAGE
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.rows import TenantRows
from local.ledger.tasks import Task


class IndexedRecords:
    """One tenant's records in the index: those that are searched and have no task `index`."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self.tenant = rows.tenant

    async def waiting(self, tasks: Sequence[Task], *, embedder: str) -> list[Waiting]:
        """The records of these tasks that still wait, with vectors that `embedder` made."""
        rows = json.dumps([task.row for task in tasks])
        return [
            _waiting(row) for row in await self._rows.all("to_index", rows=rows, embedder=embedder)
        ]

    async def sample_indexed(self, limit: int) -> list[Waiting]:
        """Some records that should be in the index, by chance, with their vectors."""
        return [_waiting(row) for row in await self._rows.all("sample_indexed", limit=limit)]

    async def store_vectors(
        self, records: Sequence[Waiting], vectors: Sequence[bytes], embedder: str
    ) -> None:
        """Store the vectors of those that had none, in their order, and finish the tasks of all.

        One that was superseded while its vector was on its way is taken out of the index again;
        of one that was erased meanwhile none is stored.
        """
        without = [record for record in records if record.vector is None]

        def store(connection: SqlConnection) -> None:
            for record, data in zip(without, vectors, strict=True):
                kept = {"row": record.row, "id": record.id, "embedder": embedder, "data": data}
                self._rows.execute(connection, "keep_vector", **kept)
            for record in records:
                finished = self._rows.execute(
                    connection, "finish_task", kind="index", row=record.row
                )
                if not finished.rowcount:
                    self._rows.execute(
                        connection, "unindex_superseded", row=record.row, id=record.id
                    )

        await self._rows.write(store)

    async def indexed(self) -> int:
        """How many records the index should hold, as far as it has caught up."""
        row = await self._rows.one("counts")
        return int(row["indexed"]) if row else 0

    async def index_anew(self) -> None:
        """Let every record wait for the index again, as after the index was emptied."""
        row = await self._rows.one("last_row")
        last = row["last"] if row else 0
        for first in range(1, last + 1, PAGE):
            await self._rows.change("index_anew", first=first, last=first + PAGE - 1)

    async def index_again(self, ids: Sequence[str]) -> None:
        """Let these records wait for the index again."""
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            await self._rows.change_each("index_again", ({"id": id_} for id_ in page))

    async def compared(self, present: set[str]) -> tuple[list[str], list[str]]:
        """What the index lacks, and what it has too much, if it holds the ids in `present`."""

        def compare(connection: SqlConnection) -> tuple[list[str], list[str]]:
            expected = {row["id"] for row in self._rows.execute(connection, "indexed_ids")}
            return list(expected - present), list(present - expected)

        return await self._rows.read(compare)


def _waiting(row: Row) -> Waiting:
    text = _indexed_text(row) if row["vector"] is None else ""
    return Waiting(row=row["row"], id=row["id"], text=text, vector=row["vector"])


def _indexed_text(row: Row) -> str:
    before = None if row["before"] is None else labelled(row["before_label"], row["before"])
    said = labelled(row["topic"] or row["label"], row["content"])
    return indexed_text(row["kind"], "\n".join([*json.loads(row["queries"]), said]), before)
