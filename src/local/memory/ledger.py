"""The ledger: every memory as a row of SQL, behind handles that see one tenant each.

The tenant is bound to every statement here and nowhere else.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from local.database import Connection, Database, Row
from local.memory.keywords import match_expression
from local.memory.records import (
    Counts,
    Kind,
    NewRecord,
    Rating,
    Record,
    Waiting,
    Written,
)
from local.memory.sql import statements
from local.memory.topics import RecentTopics

SQL = statements()
PAGE = 1_000
"""Rows that one transaction changes at most, so that nobody's save waits long behind it."""

Parameters = dict[str, Any]


class Ledger:
    """One tenant's part of the database. Writes return once they are on disk."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._topics = RecentTopics()
        self.tenant = tenant

    async def topic(self, owner: str, topic: str) -> Record | None:
        """The active version of a standing fact, from memory if it was asked for lately."""
        if (kept := self._topics.get((owner, topic))) is not None:
            return kept
        version = self._topics.version
        asked = self._bound(owner=owner, topic=topic)
        row = await self._database.read(lambda c: c.execute(SQL["active_topic"], asked).fetchone())
        record = Record.from_row(row) if row else None
        if record is not None and version == self._topics.version:
            self._topics.keep(record)
        return record

    async def history(self, owner: str, topic: str) -> list[Record]:
        """Every version of a standing fact, newest first."""
        asked = self._bound(owner=owner, topic=topic)
        rows = await self._database.read(
            lambda c: c.execute(SQL["topic_history"], asked).fetchall()
        )
        return [Record.from_row(row) for row in rows]

    async def put_topic(self, record: NewRecord) -> Written:
        """Make `record` the active version of its topic; the same content changes nothing."""
        try:
            return await self._database.write(lambda c: self._put_topic(c, record))
        finally:
            self._topics.forget(record.owner, str(record.topic))

    async def add(self, record: NewRecord) -> Written:
        """Add a record unless its id is there already."""
        return await self._database.write(lambda c: self._insert(c, record))

    async def rate(self, rating: Rating) -> None:
        """Keep the rating of an answer, whether or not its episode is here yet; the last counts."""
        values = self._bound(
            query_id=rating.query_id,
            score=rating.score,
            comment=rating.comment,
            event_time=_stamp(rating.event_time),
        )
        await self._database.write(lambda c: c.execute(SQL["rate"], values).rowcount)

    async def active(self, ids: Sequence[str], *, kind: Kind, owner: str) -> dict[str, Record]:
        """Those of the records that are the owner's, of the kind, and not superseded."""
        asked = self._bound(ids=msgspec.json.encode(ids).decode(), kind=kind, owner=owner)
        rows = await self._database.read(
            lambda c: c.execute(SQL["active_by_ids"], asked).fetchall()
        )
        return {row["id"]: Record.from_row(row) for row in rows}

    async def search_text(
        self, query: str, *, kind: Kind, owner: str, limit: int, waiting_only: bool = False
    ) -> list[Record]:
        """Find records by their words, best first.

        Args:
            query: Free text; stop words do not count.
            kind: The kind of records to search.
            owner: Whose records.
            limit: How many at most.
            waiting_only: Only records whose vectors are not in the index yet.
        """
        expression = match_expression(query)
        if expression is None:
            return []
        asked = self._bound(match=expression, kind=kind, owner=owner, limit=limit)
        statement = SQL["search_waiting_text" if waiting_only else "search_text"]
        rows = await self._database.read(lambda c: c.execute(statement, asked).fetchall())
        return [Record.from_row(row) for row in rows]

    async def waiting(self, limit: int, *, embedder: str) -> list[Waiting]:
        """The oldest records that wait for the index, with vectors that `embedder` made."""
        asked = self._bound(limit=limit, embedder=embedder)
        rows = await self._database.read(lambda c: c.execute(SQL["waiting"], asked).fetchall())
        return [_waiting(row) for row in rows]

    async def sample_indexed(self, limit: int) -> list[Waiting]:
        """Some records that should be in the index, by chance, with their vectors."""
        asked = self._bound(limit=limit)
        rows = await self._database.read(
            lambda c: c.execute(SQL["sample_indexed"], asked).fetchall()
        )
        return [_waiting(row) for row in rows]

    async def has_waiting(self, *, kind: Kind, owner: str) -> bool:
        """Whether any of the owner's records of this kind is not in the index yet."""
        asked = self._bound(kind=kind, owner=owner)
        row = await self._database.read(lambda c: c.execute(SQL["has_waiting"], asked).fetchone())
        return bool(row[0])

    async def keep_vectors(
        self, records: Sequence[Waiting], vectors: Sequence[bytes], embedder: str
    ) -> None:
        """Keep the vectors that are now in the index, and mark their records as indexed."""
        marks = [self._bound(row=record.row) for record in records]
        kept = [
            {"row": record.row, "embedder": embedder, "data": data}
            for record, data in zip(records, vectors, strict=True)
            if record.vector is None
        ]

        def keep(connection: Connection) -> None:
            connection.executemany(SQL["keep_vector"], kept)
            connection.executemany(SQL["mark_indexed"], marks)

        await self._database.write(keep)

    async def to_remove(self, limit: int) -> list[str]:
        """Ids in the index that no longer belong there."""
        asked = self._bound(limit=limit)
        rows = await self._database.read(lambda c: c.execute(SQL["to_remove"], asked).fetchall())
        return [row["id"] for row in rows]

    async def removed(self, ids: Sequence[str]) -> None:
        """Mark records as gone from the index."""
        await self._each("mark_removed", ids)

    async def index_anew(self) -> None:
        """Let every record wait for the index again, as after the index was emptied."""
        last = await self._database.read(lambda c: c.execute(SQL["last_row"]).fetchone()[0])
        for first in range(1, last + 1, PAGE):
            rows = self._bound(first=first, last=first + PAGE - 1)
            await self._database.write(partial(_execute, SQL["all_waiting"], rows))

    async def index_again(self, ids: Sequence[str]) -> None:
        """Let these records wait for the index again."""
        for start in range(0, len(ids), PAGE):
            await self._each("wait_again", ids[start : start + PAGE])

    async def compared(self, present: set[str]) -> tuple[list[str], list[str]]:
        """What the index lacks, and what it has too much, if it holds the ids in `present`."""
        asked = self._bound()

        def compare(connection: Connection) -> tuple[list[str], list[str]]:
            expected = {row["id"] for row in connection.execute(SQL["indexed_ids"], asked)}
            return list(expected - present), list(present - expected)

        return await self._database.read(compare)

    async def counts(self) -> Counts:
        asked = self._bound()
        row = await self._database.read(lambda c: c.execute(SQL["counts"], asked).fetchone())
        records, waiting, out = row["records"], row["waiting"], row["out"]
        return Counts(records=records, waiting=waiting, indexed=records - waiting - out)

    def _put_topic(self, connection: Connection, record: NewRecord) -> Written:
        asked = self._bound(owner=record.owner, topic=record.topic)
        row = connection.execute(SQL["active_topic"], asked).fetchone()
        if row is None:
            return self._insert(connection, record)
        if row["content"] == record.content:
            return Written(id=row["id"], was_new=False)
        change = self._bound(id=row["id"], superseded_by=record.id)
        connection.execute(SQL["supersede"], change)
        self._audit(connection, "superseded", row["id"], record)
        self._insert(connection, record)
        return Written(id=record.id, was_new=True, superseded=row["id"])

    def _insert(self, connection: Connection, record: NewRecord) -> Written:
        values = msgspec.structs.asdict(record)
        values["metadata"] = msgspec.json.encode(record.metadata).decode()
        values["event_time"] = _stamp(record.event_time)
        added = connection.execute(SQL["insert_record"], self._bound(**values)).rowcount
        return Written(id=record.id, was_new=added == 1)

    def _audit(self, connection: Connection, action: str, record_id: str, cause: NewRecord) -> None:
        entry = self._bound(
            action=action,
            record_id=record_id,
            agent=cause.agent,
            detail=msgspec.json.encode({"superseded_by": cause.id}).decode(),
            event_time=_stamp(cause.event_time),
        )
        connection.execute(SQL["insert_audit"], entry)

    async def _each(self, statement: str, ids: Sequence[str]) -> None:
        values = [self._bound(id=id_) for id_ in ids]
        await self._database.write(lambda c: c.executemany(SQL[statement], values).rowcount)

    def _bound(self, **values: Any) -> Parameters:
        return {"tenant": self.tenant, **values}


def _execute(statement: str, values: Parameters, connection: Connection) -> int:
    return connection.execute(statement, values).rowcount


def _waiting(row: Row) -> Waiting:
    return Waiting(row=row["row"], id=row["id"], text=_indexed_text(row), vector=row["vector"])


def _indexed_text(row: Row) -> str:
    """What is embedded: a fact's key says what its value means."""
    return f"{row['topic']}: {row['content']}" if row["topic"] else str(row["content"])


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
