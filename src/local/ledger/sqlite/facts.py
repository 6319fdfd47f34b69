"""Facts: standing ones under their topics, and what retires them.

Standing facts that were asked for lately are held in memory: agents ask for the same few again and
again, on every turn.
"""

from collections.abc import Collection
from functools import partial

from local.ledger.records import NewRecord, Record, Written, folded
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.held import Budget
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows, record_of
from local.protocol.envelope import utc_now
from local.protocol.memories import Owning


class Facts:
    """One tenant's facts."""

    def __init__(self, rows: TenantRows, records: RecordRows, topics: "RecentTopics") -> None:
        self._rows = rows
        self._records = records
        self._topics = topics

    async def topic(self, scope: Owning, owner: str, topic: str) -> Record | None:
        """The active version of a standing fact, from memory if it was asked for lately."""
        topic = folded(topic)
        if (kept := self._topics.get((scope, owner, topic))) is not None:
            return kept
        version = self._topics.version
        row = await self._rows.one("active_topic", scope=scope, owner=owner, topic=topic)
        record = record_of(row) if row else None
        if record is not None and version == self._topics.version:
            self._topics.keep(record)
        return record

    async def history(self, scope: Owning, owner: str, topic: str) -> list[Record]:
        """Every version of a standing fact, newest first."""
        rows = await self._rows.all("topic_history", scope=scope, owner=owner, topic=folded(topic))
        return [record_of(row) for row in rows]

    async def store(self, record: NewRecord, *, again: bool = False) -> Written:
        """Make `record` an active fact, the only one of its topic if it has one.

        What is there already, word for word, is not written again; with `again` it is replaced.
        """
        try:
            return await self._rows.write(
                lambda c: self._records.store_fact(c, record, again=again)
            )
        finally:
            self._topics.forget(record)

    async def judge(
        self,
        fact: Record,
        *,
        supports: Collection[Record] = (),
        replaces: Collection[Record] = (),
        contradicts: Collection[Record] = (),
        agent: str,
    ) -> list[Record]:
        """Carry out the verdicts on what a fact does to older ones, which finishes its task.

        Returns those that it has replaced. One that is replaced itself meanwhile does nothing.
        """
        cause = Cause(
            agent=agent,
            superseded_by=fact.id,
            at=utc_now(),
            reason="a newer fact was judged to replace it",
        )

        def carry_out(connection: SqlConnection) -> list[Record]:
            self._rows.execute(connection, "finish_task", kind="judge", row=fact.row)
            if not self._rows.execute(connection, "active_fact", id=fact.id).fetchone():
                return []
            for older in supports:
                self._records.relate(connection, fact.id, "supports", older.id)
            for older in contradicts:
                self._records.relate(connection, fact.id, "contradicts", older.id)
            return [one for one in replaces if self._records.supersede(connection, one.id, cause)]

        try:
            return await self._rows.write(carry_out)
        finally:
            for older in replaces:
                self._topics.forget(older)

    async def relate(self, source: str, type_: str, target: str) -> None:
        """Note how one record bears on another, once."""
        await self._rows.change("relate", source=source, type=type_, target=target)


Key = tuple[str, str, str]

LARGEST = 4_096
"""Characters of a fact that is held."""


class RecentTopics:
    """The facts asked for lately, as the ledger has them; only one process writes the ledger.

    `version` changes with every write. Who reads the ledger keeps what it found only if the version
    is still the same: otherwise an older value could be kept after a newer one was committed.
    """

    def __init__(self, budget: Budget) -> None:
        self.version = 0
        self._budget = budget
        self._records: dict[Key, Record] = {}

    def get(self, key: Key) -> Record | None:
        """The fact under (scope, owner, folded topic), if it is kept."""
        record = self._records.get(key)
        if record is not None:
            self._use(key)
        return record

    def keep(self, record: Record) -> None:
        if len(record.content) > LARGEST:
            return
        self._records[_key(record)] = record
        self._use(_key(record))

    def forget(self, record: NewRecord) -> None:
        """This fact was replaced, or another took its place."""
        self.forget_topic(record.scope, record.owner, record.topic)

    def forget_topic(self, scope: str | None, owner: str | None, topic: str | None) -> None:
        """What stands under this key has changed."""
        self.version += 1
        self._drop((scope or "", owner or "", folded(topic or "")))

    def forget_all(self) -> None:
        """Any of them may have been replaced or erased."""
        self.version += 1
        for key in list(self._records):
            self._drop(key)

    def _use(self, key: Key) -> None:
        self._budget.use((self, key), 1, partial(self._records.pop, key, None))

    def _drop(self, key: Key) -> None:
        self._records.pop(key, None)
        self._budget.forget((self, key))


def _key(record: NewRecord) -> Key:
    return record.scope, record.owner, folded(record.topic or "")
