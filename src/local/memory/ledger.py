"""The ledger: every memory as a row of SQL. Writes return once they are on disk."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from local.database import Connection, Row
from local.memory.recall.features import Features, features
from local.memory.records import Counts, NewRecord, Record, Written, folded, stamp
from local.memory.rows import TenantRows
from local.memory.topics import RecentTopics
from local.protocol.envelope import utc_now
from local.protocol.kinds import Owning

TOGETHER = 1_000
"""Records of one transaction, where there are many; it takes about a fifth of a second."""
LONG = 20_000
"""Characters whose features take 5 ms."""


class Ledger:
    """One tenant's records: facts with their histories, everything else once an id."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._topics = RecentTopics()
        self.tenant = rows.tenant

    async def topic(self, scope: Owning, owner: str, topic: str) -> Record | None:
        """The active version of a standing fact, from memory if it was asked for lately."""
        topic = folded(topic)
        if (kept := self._topics.get((scope, owner, topic))) is not None:
            return kept
        version = self._topics.version
        row = await self._rows.one("active_topic", scope=scope, owner=owner, topic=topic)
        record = Record.from_row(row) if row else None
        if record is not None and version == self._topics.version:
            self._topics.keep(record)
        return record

    async def history(self, scope: Owning, owner: str, topic: str) -> list[Record]:
        """Every version of a standing fact, newest first."""
        rows = await self._rows.all("topic_history", scope=scope, owner=owner, topic=folded(topic))
        return [Record.from_row(row) for row in rows]

    async def chain(self, *record_ids: str) -> list[Record]:
        """Records with all that they replaced and all that replaced them, newest first."""
        rows = await self._rows.all("chain", ids=msgspec.json.encode(record_ids).decode())
        return [Record.from_row(row) for row in rows]

    async def put_fact(self, record: NewRecord) -> Written:
        """Make `record` an active fact, the only one of its topic if it has one.

        What is there already, word for word, is not written again.
        """
        try:
            return await self._rows.write(lambda c: self.put_fact_in(c, record))
        finally:
            self._topics.forget(record)

    def put_fact_in(self, connection: Connection, record: NewRecord) -> Written:
        """As `put_fact`, inside a write; for facts without a topic."""
        record = self._with_known_topic(connection, record)
        topic = folded(record.topic) if record.topic else None
        place = {"scope": record.scope, "owner": record.owner, "topic": topic}
        same = self._rows.execute(
            connection, "same_fact", **place, content=record.content
        ).fetchone()
        if same is not None and topic in {None, same["folded_topic"]}:
            return Written(id=same["id"], was_new=False, topic=record.topic)
        older = self._rows.execute(connection, "active_topic", **place).fetchone()
        cause = Cause(agent=record.agent, superseded_by=record.id, at=record.event_time)
        replaced = [row["id"] for row in (older, same) if row is not None]
        for record_id in replaced:
            self.supersede_in(connection, record_id, cause)
        self.add_in(connection, record)
        return Written(id=record.id, was_new=True, replaced=tuple(replaced), topic=record.topic)

    def _with_known_topic(self, connection: Connection, record: NewRecord) -> NewRecord:
        """The record under its topic as that was first written."""
        if record.topic is None:
            return record
        place = {"scope": record.scope, "owner": record.owner, "topic": folded(record.topic)}
        known = self._rows.execute(connection, "topic_as_written", **place).fetchone()
        return msgspec.structs.replace(record, topic=known["topic"]) if known else record

    async def retire(self, older: Record, newer: Record, *, agent: str) -> bool:
        """Let `newer` take the place of `older`; False if either is active no more."""
        cause = Cause(agent=agent, superseded_by=newer.id, at=utc_now())

        def retire(connection: Connection) -> bool:
            still = self._rows.execute(connection, "active_fact", id=newer.id).fetchone()
            return bool(still) and self.supersede_in(connection, older.id, cause)

        try:
            return await self._rows.write(retire)
        finally:
            self._topics.forget(older)

    async def add(self, record: NewRecord) -> Written:
        """Add a record unless its id is there already."""
        return await self._rows.write(lambda c: self.add_in(c, record))

    async def add_all(self, records: Sequence[NewRecord]) -> list[Written]:
        """Add records, all or none; those whose ids are there already stay as they are."""
        return await self._rows.write(lambda c: [self.add_in(c, record) for record in records])

    async def add_many(self, records: Sequence[NewRecord]) -> list[Written]:
        """As `add_all`, in several transactions, so that nobody's write waits long behind them."""
        parts = (records[n : n + TOGETHER] for n in range(0, len(records), TOGETHER))
        return [written for part in parts for written in await self.add_all(part)]

    async def put_document(self, source: str, chunks: Sequence[NewRecord]) -> "Rewritten":
        """Make these the active chunks of a document, whose `source_ref`s are "source#number".

        A chunk that is there already, in the same place, stays as it is.
        """
        return await self._rows.write(lambda c: self._put_document(c, source, chunks))

    async def unjudged(self, limit: int, *, after: int = 0) -> list[Record]:
        """The oldest facts behind a row that nobody has compared with older ones yet."""
        rows = await self._rows.all("unjudged", limit=limit, after=after)
        return [Record.from_row(row) for row in rows]

    async def judged(self, record_id: str) -> None:
        await self._rows.change("judged", id=record_id)

    async def relate(self, source: str, type_: str, target: str) -> None:
        """Note how one record bears on another, once."""
        await self._rows.change("relate", source=source, type=type_, target=target)

    async def counts(self) -> Counts:
        row = await self._rows.one("counts")
        assert row is not None  # noqa: S101 - a row of counts is always there
        records, waiting, out = row["records"], row["waiting"], row["out"]
        return Counts(records=records, waiting=waiting, indexed=records - waiting - out)

    def _put_document(
        self, connection: Connection, source: str, chunks: Sequence[NewRecord]
    ) -> "Rewritten":
        first, last = f"{source}#1", f"{source}#:"
        older = {
            row["source_ref"]: row
            for row in self._rows.execute(connection, "active_chunks", first=first, last=last)
            if row["source_ref"].removeprefix(f"{source}#").isdecimal()
        }
        written = [
            self._put_chunk(connection, chunk, older.pop(chunk.source_ref, None))
            for chunk in chunks
        ]
        cause = Cause(
            agent=chunks[-1].agent, superseded_by=written[-1].id, at=chunks[-1].event_time
        )
        surplus = [row["id"] for row in older.values()]
        for record_id in surplus:
            self.supersede_in(connection, record_id, cause)
        return Rewritten(written=written, surplus=surplus)

    def _put_chunk(self, connection: Connection, chunk: NewRecord, older: Row | None) -> Written:
        if older is None:
            return self.add_in(connection, chunk)
        if (older["label"], older["content"]) == (chunk.label, chunk.content):
            return Written(id=older["id"], was_new=False)
        cause = Cause(agent=chunk.agent, superseded_by=chunk.id, at=chunk.event_time)
        self.supersede_in(connection, older["id"], cause)
        self.add_in(connection, chunk)
        return Written(id=chunk.id, was_new=True, replaced=(older["id"],))

    def add_in(self, connection: Connection, record: NewRecord) -> Written:
        """As `add`, inside a write."""
        values = {name: getattr(record, name) for name in NewRecord.__struct_fields__}
        values["metadata"] = msgspec.json.encode(record.metadata).decode()
        values["event_time"] = stamp(record.event_time)
        values["folded_topic"] = folded(record.topic) if record.topic else None
        added = self._rows.execute(connection, "insert_record", **values)
        if added.rowcount == 1:
            read = record.features or _features(record)
            self._rows.execute(
                connection, "keep_features", record=added.lastrowid, **read._asdict()
            )
        return Written(id=record.id, was_new=added.rowcount == 1)

    def supersede_in(self, connection: Connection, record_id: str, cause: "Cause") -> bool:
        """Let another record take its place, inside a write; False if it is active no more."""
        changed = self._rows.execute(
            connection, "supersede", id=record_id, superseded_by=cause.superseded_by
        ).rowcount
        if changed:
            self._rows.execute(
                connection,
                "insert_audit",
                action="superseded",
                record_id=record_id,
                agent=cause.agent,
                detail=msgspec.json.encode({"superseded_by": cause.superseded_by}).decode(),
                event_time=stamp(cause.at),
            )
        return changed == 1


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each chunk of a document; `surplus` are the ids of older ones after them."""

    written: list[Written]
    surplus: list[str]


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record is superseded, for the audit."""

    agent: str | None
    superseded_by: str
    at: datetime


def read_ahead(record: NewRecord) -> NewRecord:
    """The record with its features, if its text is long: a write holds up all those behind it."""
    if len(record.content) < LONG:
        return record
    return msgspec.structs.replace(record, features=_features(record))


def _features(record: NewRecord) -> Features:
    return features(record.content, topic=record.topic, label=record.label, at=record.event_time)
