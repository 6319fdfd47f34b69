"""Which records the vector index holds, their vectors, and the tasks that fill it.

Each read or write is limited to a thousand rows, so that others do not wait long for it.
"""

import json
from collections.abc import Sequence

import msgspec

from local2.errors import VectorError
from local2.ledger.columns import SPOKEN_KINDS
from local2.ledger.engines import NewVector, Row
from local2.ledger.operations.backlog import PAGE
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    writes_of,
)
from local2.ledger.records import Task, TaskKind
from local2.ledger.stored_vectors import packed, unpacked
from local2.protocol.memories import Kind

MESSAGE_CHARACTERS = 400
"""Number of leading characters of a message that are embedded: more of them blur the vector."""
RECORD_CHARACTERS = 1_000
"""Number of leading characters that are embedded of a record that is no message."""
PADDED_CHARACTERS = 300
"""Length up to which a shorter message is padded with the end of the message before it."""
REPLACED = "Another embedder has begun to serve."


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A record that waits to be indexed; if its `vector` is known, `text` is empty."""

    row: int
    id: str
    text: str
    vector: bytes | None


def indexed_text(kind: Kind, text: str, before: str | None) -> str:
    """The text to embed: the beginning of `text`, padded with the message before it.

    A short message often answers the one before. Its own words must come first.
    """
    if kind not in SPOKEN_KINDS:
        return text[:RECORD_CHARACTERS]
    room = PADDED_CHARACTERS - len(text)
    if before is None or room <= 0:
        return text[:MESSAGE_CHARACTERS]
    return f"{text}\n{before[-room:]}"


def labelled(label: str | None, text: str) -> str:
    """A text prefixed with its speaker or key."""
    return f"{label}: {text}" if label else text


class IndexedRecords(Part):
    """One tenant's indexed records: those that are searched and have no pending task `index`."""

    def __init__(self, rows: TenantRows) -> None:
        super().__init__(rows)
        self.is_shared = rows.is_shared
        self.next: str | None = None
        """Embedder of the index that is being filled to replace the current one; every indexed
        record is added to it, too, unless stacks share the ledger."""

    @reads
    def waiting(
        self, tx: Transaction, tasks: Sequence[Task], *, embedder: str, kind: TaskKind = "index"
    ) -> list[Waiting]:
        """The records of these tasks, if still pending, with their vectors by `embedder`."""
        rows = as_json([task.row for task in tasks])
        asked = {"rows": rows, "embedder": embedder, "kind": kind}
        return [_waiting(row) for row in tx.execute("to_index", **asked)]

    @reads
    def sample_indexed(self, tx: Transaction, limit: int, *, embedder: str) -> list[Waiting]:
        """A random sample of the records that the index should hold, with their vectors."""
        found = tx.execute("sample_indexed", limit=limit, embedder=embedder)
        return [_waiting(row) for row in found]

    @writes_of(lambda *_, **__: [])
    def store_vectors(
        self,
        tx: Transaction,
        records: Sequence[Waiting],
        vectors: Sequence[bytes],
        embedder: str,
        *,
        kind: TaskKind = "index",
    ) -> None:
        """Store the new vectors, and finish the tasks of all records.

        `vectors` are those of the records without one, in order. Vectors of embedders that no
        longer have an index are deleted. A record that was superseded while its vector was made is
        removed from the index again; if it was erased, its vector is not stored.

        Raises:
            VectorError: Another stack has let another embedder serve. Nothing has changed.
        """
        if kind == "index" and tx.is_shared:
            serving_now = tx.execute("hold_embedder").fetchone()
            if serving_now is not None and serving_now["name"] != embedder:
                raise VectorError(REPLACED)
        embedded = [record for record in records if record.vector is None]
        tx.keep_vectors(
            [
                NewVector(record.row, record.id, embedder, packed(data))
                for record, data in zip(embedded, vectors, strict=True)
            ]
        )
        if kind == "index":
            serving = as_json([name for name in (embedder, self.next) if name])
            rows = as_json([record.row for record in embedded])
            tx.execute("drop_vectors_of_others", rows=rows, embedders=serving)
        for record in records:
            finished = tx.execute("finish_task", kind=kind, row=record.row)
            if not finished.rowcount:
                tx.execute("unindex_superseded", row=record.row, id=record.id)
            elif kind == "index" and self.next is not None and not tx.is_shared:
                tx.execute("add_task", kind="embed", row=record.row)

    @reads
    def indexed(self, tx: Transaction) -> int:
        """The number of records that the index should hold now, without waiting ones."""
        return int(tx.execute("counts").fetchone()["indexed"])

    async def queue_all(self) -> None:
        """Add the task `index` for every record, for example after the index was emptied."""
        row = await self._rows.one("last_row")
        last = row["last"] if row else 0
        rows = self._rows.resting_on(())  # a stack's first start does this: others go on writing
        for first in range(1, last + 1, PAGE):
            await rows.change("queue_all", first=first, last=first + PAGE - 1)

    async def queue(self, ids: Sequence[str], *, kind: TaskKind = "index") -> None:
        """Add the task `index` for these records, or `embed` for the next index."""
        rows = self._rows.resting_on(())  # each record is read in the statement that adds its task
        for start in range(0, len(ids), PAGE):
            page = ids[start : start + PAGE]
            records = [{"id": id_, "kind": kind} for id_ in page]
            await rows.write(Transaction.execute_each, "queue_one", records)

    @reads
    def count_to_embed(self, tx: Transaction) -> int:
        """The number of records that wait for the next index."""
        return int(tx.execute("count_kind", kind="embed").fetchone()["waiting"])

    async def drop_embed_tasks(self) -> None:
        """Delete the tasks for the next index, which was given up or serves now.

        That index lacks the records whose tasks were set aside, so these get the task `index`.
        """

        def withdraw(tx: Transaction, state: str) -> int:
            asked = {"kind": "embed", "state": state, "limit": PAGE}
            if state == "aside":
                tx.execute("index_aside", limit=PAGE)
            return tx.execute("withdraw_kind", **asked).rowcount

        rows = self._rows.resting_on(())  # each start of a stack does this: others go on writing
        for state in ("waits", "later", "aside"):
            while await rows.write(withdraw, state) == PAGE:
                pass

    async def keep_vectors_of(self, embedder: str) -> None:
        """Delete the vectors of all other embedders, a page at a time."""
        embedders = as_json([embedder])
        row = await self._rows.one("vectors_of_others", embedders=embedders)
        last = (row["last"] if row else None) or 0
        for first in range(1, last + 1, PAGE):
            rows = as_json(list(range(first, first + PAGE)))
            await self._rows.change("drop_vectors_of_others", rows=rows, embedders=embedders)

    @reads
    def compare_ids(self, tx: Transaction, present: set[str]) -> tuple[list[str], list[str]]:
        """Compare the index with the ledger: return missing ids and surplus ids.

        `present` are the ids in the index.
        """
        expected = {row["id"] for row in tx.execute("indexed_ids")}
        return list(expected - present), list(present - expected)


def _waiting(row: Row) -> Waiting:
    text = ""
    if row["vector"] is None:
        before = None if row["before"] is None else labelled(row["before_label"], row["before"])
        own = labelled(row["topic"] or row["label"], row["content"])
        text = indexed_text(row["kind"], "\n".join([*json.loads(row["queries"]), own]), before)
    vector = None if row["vector"] is None else unpacked(row["vector"]).tobytes()
    return Waiting(row=row["row"], id=row["id"], text=text, vector=vector)
