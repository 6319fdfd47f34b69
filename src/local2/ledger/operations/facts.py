"""Stores and reads facts, with and without a topic.

Facts that were recently looked up by topic are held in memory: agents need the same few on every
turn.
"""

import sys
from collections.abc import Collection
from datetime import datetime
from difflib import get_close_matches
from functools import partial

import msgspec

from local2.keys import fold_topic
from local2.ledger.operations.backlog import finish_claimed
from local2.ledger.operations.records import (
    Cause,
    add_records,
    add_to_audit,
    is_active,
    relate,
    store_fact,
    supersede,
)
from local2.ledger.operations.relations import move_relations
from local2.ledger.operations.tombstones import was_erased
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    record_of,
    records_of,
    writes,
)
from local2.ledger.operations.working_sets import Budget
from local2.ledger.records import (
    DERIVED_FROM,
    TENANT_OWNED,
    Actor,
    NewRecord,
    Record,
    Written,
    sources_of,
)
from local2.protocol.envelope import utc_now
from local2.protocol.memories import OwnerScope, RetirementReason

LARGEST_HELD = 4_096
"""Maximum length in characters of a fact that is held in memory."""
MAX_COMPARED, MAX_NEAR = 500, 3
"""Number of keys that are compared with one that is not in use, and of those that are named."""
ALIKE = 0.8
"""Minimum likeness of two keys of which one may be the other, mistyped (`difflib`)."""


class LedgerFacts(Part):
    """One tenant's facts."""

    def __init__(self, rows: TenantRows, topics: "RecentTopics") -> None:
        super().__init__(rows)
        self._topics = topics

    async def topic(self, scope: OwnerScope, owner: str, topic: str) -> Record | None:
        """The active fact of a topic, from memory if it was used recently."""
        topic = fold_topic(topic)
        if (held := self._topics.get((scope, owner, topic))) is not None:
            return held
        version = self._topics.version
        row = await self._rows.one("active_topic", scope=scope, owner=owner, topic=topic)
        record = record_of(row) if row else None
        if record is not None and version == self._topics.version:
            self._topics.keep(record)
        return record

    @reads
    def topics_like(self, tx: Transaction, scope: OwnerScope, owner: str, topic: str) -> list[str]:
        """The keys in use that are near to one, the nearest first; the first letter is right."""
        topic = fold_topic(topic)
        beginning = topic[: topic.find(".") + 2]
        rows = tx.execute(
            "topics_beginning_with",
            scope=scope,
            owner=owner,
            beginning=beginning,
            beyond=f"{beginning}{chr(sys.maxunicode)}",
            limit=MAX_COMPARED,
        )
        written = {fold_topic(row["topic"]): str(row["topic"]) for row in rows}
        alike = get_close_matches(topic, written, n=MAX_NEAR, cutoff=ALIKE)
        return [written[key] for key in alike]

    @reads
    def history(self, tx: Transaction, scope: OwnerScope, owner: str, topic: str) -> list[Record]:
        """Every version of a topic's fact, the newest first."""
        place = {"scope": scope, "owner": owner, "topic": fold_topic(topic)}
        return records_of(tx.execute("topic_history", **place))

    async def store(
        self,
        record: NewRecord,
        *,
        again: bool = False,
        and_unnamed: bool = False,
        replaces: Collection[Record] = (),
    ) -> Written:
        """Make `record` an active fact; if it has a topic, the only active fact of that topic.

        A fact with the same words is not written again; with `again`, it is replaced. With
        `and_unnamed`, a user's fact also replaces that of the topic without a user. The stored or
        known fact replaces those of `replaces` that are still active.
        """
        owners = {record.owner, TENANT_OWNED if and_unnamed else record.owner}
        touched = owners.union(older.owner for older in replaces)

        def carry_out(tx: Transaction) -> Written:
            written = store_fact(tx, record, owners=owners, again=again)
            if written.erased:
                return written
            cause = msgspec.structs.replace(
                Cause.of(record), superseded_by=written.id, reason="the caller replaced it by id"
            )
            replaced = [
                older.id
                for older in replaces
                if older.id != written.id and supersede(tx, older.id, cause)
            ]
            return msgspec.structs.replace(written, replaced=(*written.replaced, *replaced))

        try:
            return await self._rows.resting_on(touched).write(carry_out)
        finally:
            for owner in owners:
                self._topics.forget_topic(record.scope, owner, record.topic)
            for older in replaces:
                self._topics.forget(older)

    async def edit(self, older: Record, newer: NewRecord, reason: str, actor: Actor) -> Written:
        """Replace a record with a version that its user wrote; `undo` takes the actor's run.

        The version is related to its sources: it is erased with the last of them. If the record is
        no longer active, nothing is written.
        """
        cause = Cause.by(
            actor, at=newer.event_time, reason=reason, superseded_by=newer.id, why="edited"
        )

        def carry_out(tx: Transaction) -> Written:
            if was_erased(tx, newer):
                return Written(id=newer.id, was_new=False, erased=True)
            if not supersede(tx, older.id, cause):
                return Written(id=newer.id, was_new=False)
            add_records(tx, [newer])
            tx.execute("keep_pinned", newer=newer.id, older=older.id)
            for source in sources_of(newer):
                relate(tx, newer.id, DERIVED_FROM, source)
            move_relations(tx, older.id, newer.id)
            return Written(id=newer.id, was_new=True, replaced=(older.id,), topic=newer.topic)

        try:
            return await self._rows.write(carry_out)
        finally:
            self._topics.forget(older)

    async def pin(
        self, facts: Collection[Record], reason: str, actor: Actor, at: datetime, *, pinned: bool
    ) -> list[str]:
        """Pin facts, or take that back; return the ids of those that this changed."""
        cause = Cause.by(actor, at=at, reason=reason)

        def carry_out(tx: Transaction) -> list[str]:
            changed = []
            for fact in facts:
                if tx.execute("set_pinned", id=fact.id, pinned=pinned or None).rowcount:
                    action = "pinned" if pinned else "unpinned"
                    add_to_audit(tx, action, fact.id, cause, {})
                    changed.append(fact.id)
            return changed

        try:
            return await self._rows.write(carry_out)
        finally:
            for fact in facts:
                self._topics.forget(fact)

    async def withdraw(
        self,
        facts: Collection[Record],
        reason: str,
        actor: Actor,
        at: datetime,
        *,
        why: RetirementReason = "withdrawn",
    ) -> list[Record]:
        """Retire records that nothing replaces, with the copies of facts in other scopes.

        Returns those that were still active, and the copies.
        """
        cause = Cause.by(actor, at=at, reason=reason, why=why)

        def carry_out(tx: Transaction) -> list[Record]:
            return [
                record
                for fact in facts
                for record in (fact, *records_of(tx.execute("copies_of_fact", id=fact.id)))
                if supersede(tx, record.id, cause)
            ]

        retired: Collection[Record] = ()
        try:
            retired = await self._rows.write(carry_out)
            return list(retired)
        finally:
            for fact in (*facts, *retired):
                self._topics.forget(fact)

    @reads
    def withdrawals(self, tx: Transaction, ids: Collection[str]) -> dict[str, str]:
        """Why records were edited, withdrawn, hidden or contradicted, by their ids."""
        rows = tx.execute("withdrawals", ids=as_json(list(ids)))
        return {row["record_id"]: row["reason"] for row in rows}

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
            if not is_active(tx, fact.id):
                tx.execute("finish_task", kind="judge", row=fact.row)
                return []
            finish_claimed(tx, "judge", fact.row)
            for older in supports:
                relate(tx, fact.id, "supports", older.id)
            for older in contradicts:
                relate(tx, fact.id, "contradicts", older.id)
            return [older for older in replaces if supersede(tx, older.id, cause)]

        try:
            return await self._rows.write(carry_out)
        finally:
            for older in replaces:
                self._topics.forget(older)

    @writes
    def relate(self, tx: Transaction, source: str, type_: str, target: str) -> None:
        """Store a relation between two records, unless it exists."""
        relate(tx, source, type_, target)


Key = tuple[str, str, str]


class RecentTopics:
    """A cache of recently looked-up facts; if others write the ledger, too, nothing is held.

    `version` changes with every write. A reader caches what it found only if the version is
    unchanged: otherwise an old value could stay in the cache after a newer one was committed.
    """

    def __init__(self, budget: Budget, *, is_shared: bool = False) -> None:
        self.version = 0
        self._is_shared = is_shared
        self._budget = budget
        self._records: dict[Key, Record] = {}

    def get(self, key: Key) -> Record | None:
        """The fact of (scope, owner, folded topic), if it is cached."""
        record = self._records.get(key)
        if record is not None:
            self._use(key)
        return record

    def keep(self, record: Record) -> None:
        if self._is_shared or len(record.content) > LARGEST_HELD:
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
