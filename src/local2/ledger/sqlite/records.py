"""Stores and reads records of any kind, facts with and without a topic, and document chunks.

Facts that were recently looked up by topic are held in memory: agents need the same few on every
turn.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from functools import partial
from itertools import accumulate, islice

from local2.keys import fold_topic
from local2.ledger.records import (
    DERIVED_FROM,
    TENANT_OWNED,
    Counts,
    DocumentPart,
    NewRecord,
    Record,
    Rewritten,
    Shown,
    Written,
)
from local2.ledger.sqlite.database import Row
from local2.ledger.sqlite.record_rows import Cause, relate, store_fact, store_records, supersede
from local2.ledger.sqlite.rows import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    record_of,
    writes,
)
from local2.ledger.sqlite.working_sets import Budget, users_of_places
from local2.protocol.envelope import utc_now
from local2.protocol.memories import OwnerScope

RECORDS_PER_TRANSACTION = 1_000
"""Maximum number of records in one transaction; so many take about a fifth of a second."""
LARGEST_HELD = 4_096
"""Maximum length in characters of a fact that is held in memory."""
BETWEEN_CHUNKS = "\n\n"
"""What separates the chunks of a document that is read: each is a paragraph."""


class Records(Part):
    """One tenant's records."""

    async def store(self, records: Sequence[NewRecord]) -> list[Written]:
        """Add records; records whose ids exist already stay as they are.

        Many records take several transactions, so that other writes do not wait long.
        """
        written: list[Written] = []
        for start in range(0, len(records), RECORDS_PER_TRANSACTION):
            part = records[start : start + RECORDS_PER_TRANSACTION]
            written += await self._rows.write(store_records, part)
        return written

    async def at(self, rows: Sequence[int]) -> list[Record]:
        """Return the records in these rows."""
        found = await self._rows.all("records", rows=as_json(rows))
        return [record_of(row) for row in found]

    async def chain(self, *record_ids: str) -> list[Record]:
        """Return all versions of these records, the newest first."""
        rows = await self._rows.all("chain", ids=as_json(record_ids))
        return [record_of(row) for row in rows]

    @reads
    def users(self, tx: Transaction, limit: int) -> list[str]:
        """Return up to about `limit` users with personal memories; "" stands for no user."""

        def next_place(after: str, until: str) -> str | None:
            asked = {"after": after, "until": until}
            row = tx.execute("next_place", **asked).fetchone()
            return row["place"] if row else None

        users = users_of_places(tx.tenant, next_place)
        return list(dict.fromkeys(islice(users, limit)))

    async def shown(
        self, record_ids: Sequence[str], *, excluded_turn: str | None, characters: int
    ) -> list[Shown]:
        """Return the beginnings of these records, of those in their turns, and of their sources.

        `excluded_turn` is a turn whose records are left out.
        """
        rows = await self._rows.all(
            "shown",
            ids=as_json(record_ids),
            turn=excluded_turn,
            characters=characters,
            derived_from=DERIVED_FROM,
        )
        return [Shown(id=row["id"], content=row["content"]) for row in rows]

    async def counts(self) -> Counts:
        """Return the numbers of all records, of indexed ones and of those waiting for it."""
        row = await self._rows.one("counts")
        assert row is not None  # noqa: S101 - a row of counts is always there
        return Counts(records=row["records"], indexed=row["indexed"], waiting=row["waiting"])


class Facts(Part):
    """One tenant's facts."""

    def __init__(self, rows: TenantRows, topics: "RecentTopics") -> None:
        super().__init__(rows)
        self._topics = topics

    async def topic(self, scope: OwnerScope, owner: str, topic: str) -> Record | None:
        """Return the active fact of a topic, from memory if it was used recently."""
        topic = fold_topic(topic)
        if (held := self._topics.get((scope, owner, topic))) is not None:
            return held
        version = self._topics.version
        row = await self._rows.one("active_topic", scope=scope, owner=owner, topic=topic)
        record = record_of(row) if row else None
        if record is not None and version == self._topics.version:
            self._topics.keep(record)
        return record

    async def history(self, scope: OwnerScope, owner: str, topic: str) -> list[Record]:
        """Return every version of a topic's fact, the newest first."""
        rows = await self._rows.all(
            "topic_history", scope=scope, owner=owner, topic=fold_topic(topic)
        )
        return [record_of(row) for row in rows]

    async def store(
        self, record: NewRecord, *, again: bool = False, and_unnamed: bool = False
    ) -> Written:
        """Make `record` an active fact; if it has a topic, the only active fact of that topic.

        A fact with the same words is not written again; with `again`, it is replaced. With
        `and_unnamed`, a user's fact also replaces that of the topic without a user.
        """
        owners = {record.owner, TENANT_OWNED if and_unnamed else record.owner}
        try:
            return await self._rows.write(store_fact, record, owners=owners, again=again)
        finally:
            for owner in owners:
                self._topics.forget_topic(record.scope, owner, record.topic)

    async def judge(
        self,
        fact: Record,
        *,
        supports: Collection[Record] = (),
        replaces: Collection[Record] = (),
        contradicts: Collection[Record] = (),
        agent: str,
    ) -> list[Record]:
        """Apply the verdicts on how a fact relates to older facts, and finish its task.

        Returns the facts that it replaced. If the fact was itself replaced meanwhile, nothing is
        applied.
        """
        cause = Cause(
            agent=agent,
            superseded_by=fact.id,
            at=utc_now(),
            reason="a newer fact was judged to replace it",
        )

        def carry_out(tx: Transaction) -> list[Record]:
            tx.execute("finish_task", kind="judge", row=fact.row)
            if not tx.execute("active_fact", id=fact.id).fetchone():
                return []
            for older in supports:
                relate(tx, fact.id, "supports", older.id)
            for older in contradicts:
                relate(tx, fact.id, "contradicts", older.id)
            return [one for one in replaces if supersede(tx, one.id, cause)]

        try:
            return await self._rows.write(carry_out)
        finally:
            for older in replaces:
                self._topics.forget(older)

    async def relate(self, source: str, type_: str, target: str) -> None:
        """Store a relation between two records, unless it exists."""
        await self._rows.change("relate", source=source, type=type_, target=target)


Key = tuple[str, str, str]


class RecentTopics:
    """A cache of recently looked-up facts; it is valid because only one process writes the ledger.

    `version` changes with every write. A reader caches what it found only if the version is
    unchanged: otherwise an old value could stay in the cache after a newer one was committed.
    """

    def __init__(self, budget: Budget) -> None:
        self.version = 0
        self._budget = budget
        self._records: dict[Key, Record] = {}

    def get(self, key: Key) -> Record | None:
        """Return the fact of (scope, owner, folded topic), if it is cached."""
        record = self._records.get(key)
        if record is not None:
            self._use(key)
        return record

    def keep(self, record: Record) -> None:
        if len(record.content) > LARGEST_HELD:
            return
        self._records[_key(record)] = record
        self._use(_key(record))

    def forget(self, record: NewRecord) -> None:
        """Drop this fact, which was replaced or erased."""
        self.forget_topic(record.scope, record.owner, record.topic)

    def forget_topic(self, scope: str | None, owner: str | None, topic: str | None) -> None:
        """Drop the fact of this topic, which has changed."""
        self.version += 1
        self._drop((scope or "", owner or "", fold_topic(topic or "")))

    def forget_all(self) -> None:
        """Drop all facts, since any of them may have been replaced or erased."""
        self.version += 1
        for key in list(self._records):
            self._drop(key)

    def _use(self, key: Key) -> None:
        self._budget.use((self, key), 1, partial(self._records.pop, key, None))

    def _drop(self, key: Key) -> None:
        self._records.pop(key, None)
        self._budget.forget((self, key))


def _key(record: NewRecord) -> Key:
    return record.scope, record.owner, fold_topic(record.topic or "")


class Documents(Part):
    """One tenant's documents."""

    @reads
    def read(self, tx: Transaction, source: str, offset: int, limit: int) -> DocumentPart | None:
        """Return up to `limit` characters of a document from `offset` on; None if it is unknown."""
        return self._read(tx, source, offset, limit)

    @writes
    def store(self, tx: Transaction, source: str, chunks: Sequence[NewRecord]) -> Rewritten:
        """Make these the active chunks of a document; their `source_ref`s are "source#number".

        A chunk that equals the present one of its number is not written again.
        """
        return self._store(tx, source, chunks)

    def _active(self, tx: Transaction, source: str, statement: str) -> list[Row]:
        """Return the active chunks, in their order."""
        first, last = f"{source}#1", f"{source}#:"
        numbered = {
            int(number): row
            for row in tx.execute(statement, first=first, last=last)
            if (number := row["source_ref"].removeprefix(f"{source}#")).isdecimal()
        }
        return [row for _, row in sorted(numbered.items())]

    def _read(self, tx: Transaction, source: str, offset: int, limit: int) -> DocumentPart | None:
        chunks = self._active(tx, source, "chunk_lengths")
        if not chunks:
            return None
        lengths = (row["length"] + len(BETWEEN_CHUNKS) for row in chunks)
        *begins, end = accumulate(lengths, initial=0)
        first = bisect_right(begins, offset) - 1
        rows = [row["row"] for row in chunks[first : bisect_left(begins, offset + limit)]]
        found = tx.execute("records", rows=as_json(rows))
        contents = {row["row"]: row["content"] for row in found}
        text = "".join(contents[row] + BETWEEN_CHUNKS for row in rows)
        total, begin = end - len(BETWEEN_CHUNKS), begins[first]
        text = text[offset - begin : min(offset + limit, total) - begin]
        return DocumentPart(label=chunks[0]["label"], total=total, text=text)

    def _store(self, tx: Transaction, source: str, chunks: Sequence[NewRecord]) -> Rewritten:
        stored = self._active(tx, source, "active_chunks")
        older = {row["source_ref"]: row for row in stored}
        written = [_written_chunk(chunk, older.pop(chunk.source_ref, None)) for chunk in chunks]
        for chunk, result in zip(chunks, written, strict=True):
            for record_id in result.replaced:
                supersede(tx, record_id, Cause.of(chunk))
        new = [one for one, result in zip(chunks, written, strict=True) if result.was_new]
        store_records(tx, new)
        cause = Cause(
            agent=chunks[-1].agent,
            superseded_by=written[-1].id,
            at=chunks[-1].event_time,
            reason="the document became shorter",
        )
        surplus = [row["id"] for row in older.values()]
        for record_id in surplus:
            supersede(tx, record_id, cause)
        return Rewritten(written=written, surplus=surplus)


def _written_chunk(chunk: NewRecord, older: Row | None) -> Written:
    if older is None:
        return Written(id=chunk.id, was_new=True)
    if (older["label"], older["content"]) == (chunk.label, chunk.content):
        return Written(id=older["id"], was_new=False)
    return Written(id=chunk.id, was_new=True, replaced=(older["id"],))
