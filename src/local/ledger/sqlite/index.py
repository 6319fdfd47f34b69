"""The ledger's side of the vector index: what it takes of a record, and what it should hold."""

import json
from collections.abc import Sequence
from functools import partial

from local.ledger.index import Waiting, indexed_text, labelled
from local.ledger.sqlite.backlog import PAGE
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.rows import TenantRows
from local.ledger.tasks import Task, TaskKind


class IndexedRecords:
    """One tenant's records in the index: those that are searched and have no task `index`."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self.tenant = rows.tenant
        self.next: str | None = None
        """The embedder of the index that is filled beside the other: it gets what that one gets."""

    async def waiting(
        self, tasks: Sequence[Task], *, embedder: str, kind: TaskKind = "index"
    ) -> list[Waiting]:
        """The records of these tasks that still wait, with vectors that `embedder` made."""
        rows = json.dumps([task.row for task in tasks])
        asked = {"rows": rows, "embedder": embedder, "kind": kind}
        return [_waiting(row) for row in await self._rows.all("to_index", **asked)]

    async def sample_indexed(self, limit: int, *, embedder: str) -> list[Waiting]:
        """Some records that should be in the index, by chance, with their vectors."""
        found = await self._rows.all("sample_indexed", limit=limit, embedder=embedder)
        return [_waiting(row) for row in found]

    async def store_vectors(
        self,
        records: Sequence[Waiting],
        vectors: Sequence[bytes],
        embedder: str,
        *,
        kind: TaskKind = "index",
    ) -> None:
        """Store the vectors of those that had none, in their order, and finish the tasks of all.

        Vectors of embedders that have no index any more are deleted. One that was superseded while
        its vector was on its way is taken out of the index again; of one that was erased meanwhile
        none is stored.
        """
        without = [record for record in records if record.vector is None]

        def store(connection: SqlConnection) -> None:
            for record, data in zip(without, vectors, strict=True):
                vector = {"row": record.row, "id": record.id, "embedder": embedder, "data": data}
                self._rows.execute(connection, "keep_vector", **vector)
                if kind == "index":
                    kept = json.dumps([name for name in (embedder, self.next) if name])
                    self._rows.execute(
                        connection, "drop_other_vectors", row=record.row, embedders=kept
                    )
            for record in records:
                finished = self._rows.execute(connection, "finish_task", kind=kind, row=record.row)
                if not finished.rowcount:
                    self._rows.execute(
                        connection, "unindex_superseded", row=record.row, id=record.id
                    )
                elif kind == "index" and self.next is not None:
                    self._rows.execute(connection, "add_task", kind="embed", row=record.row)

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

    async def index_again(self, ids: Sequence[str], *, kind: TaskKind = "index") -> None:
        """Let these records wait for the index again, or for the next one (`embed`)."""
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            await self._rows.change_each("index_again", ({"id": id_, "kind": kind} for id_ in page))

    async def to_embed(self) -> int:
        """How many records wait for the next index."""
        row = await self._rows.one("count_kind", kind="embed")
        return int(row["waiting"]) if row else 0

    async def embed_no_more(self) -> None:
        """Nothing waits for the next index any more: there is none.

        What was set aside has no place in it: where that index serves by now, it waits as ever.
        """

        def withdraw(state: str, connection: SqlConnection) -> int:
            asked = {"kind": "embed", "state": state, "limit": PAGE}
            if state == "aside":
                self._rows.execute(connection, "index_aside", limit=PAGE)
            return self._rows.execute(connection, "withdraw_kind", **asked).rowcount

        for state in ("waits", "later", "aside"):
            while await self._rows.write(partial(withdraw, state)) == PAGE:
                pass

    async def keep_vectors_of(self, embedder: str) -> None:
        """Delete the vectors of all other embedders, a page at a time."""
        kept = json.dumps([embedder])
        row = await self._rows.one("vectors_of_others", embedders=kept)
        last = (row["last"] if row else None) or 0
        for first in range(1, last + 1, PAGE):
            await self._rows.change(
                "drop_vectors_of_others", first=first, last=first + PAGE - 1, embedders=kept
            )

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
