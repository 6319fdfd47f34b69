"""Reads and changes facts for consolidation, and counts recalls.

Each read or write is limited to a few hundred rows, so that others do not wait long for it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from local2.ledger.operations.extraction import merge_sources
from local2.ledger.operations.facts import RecentTopics
from local2.ledger.operations.places import place_word
from local2.ledger.operations.records import Cause, add_to_audit, is_active, supersede
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    writes,
    writes_of,
)
from local2.ledger.records import Actor, stamp
from local2.ledger.search import Place
from local2.ledger.stored_vectors import Floats, unpacked
from local2.protocol.envelope import utc_now
from local2.protocol.memories import Durability, OwnerScope, SourceClass
from local2.protocol.memory_tools import ChangeAction

COMPARED_FACT_CHARACTERS = 2_000
"""Maximum length in characters of a fact that is compared with others."""


class ActiveFact(msgspec.Struct, frozen=True, kw_only=True):
    """An active fact, with what consolidation needs.

    `content` is empty if it is longer than `COMPARED_FACT_CHARACTERS`. `topic` is folded. `recalls`
    counts the recalls that `importance` does not reflect yet.
    """

    row: int
    id: str
    content: str
    topic: str | None
    memory_type: str | None
    durability: Durability
    importance: float
    source_class: SourceClass
    scope: OwnerScope
    owner: str
    stated_by: str | None
    agent: str | None
    session_id: str | None
    event_time: datetime
    extracted: bool
    recalls: int
    recalled_at: datetime | None

    @property
    def place(self) -> Place:
        return Place(self.scope, self.owner, "fact")


VectorsByEmbedder = dict[str, Floats]
"""The vectors of one record; it has several while another embedder replaces the current one."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change to a fact: the fact is retired, or its importance changes.

    `superseded_by` is empty if nothing replaces the fact.
    """

    action: ChangeAction
    fact: ActiveFact
    reason: str
    superseded_by: str = ""
    importance: float | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How often a record was recalled since the last count was stored, and when last."""

    row: int
    times: int
    last: datetime


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation run; without `ended_at` it is in progress, or was killed."""

    run: str
    began_at: datetime
    ended_at: datetime | None
    changed: int
    failed: int


class Upkeep(Part):
    """Consolidation of one tenant's facts, and the counts of recalls."""

    def __init__(self, rows: TenantRows, topics: RecentTopics) -> None:
        super().__init__(rows)
        self._topics = topics

    @writes_of(lambda _: [])
    def add_access(self, tx: Transaction, accesses: Iterable[Access]) -> None:
        """Add to the recall counts of records."""
        counted = (
            {"row": access.row, "times": access.times, "last": stamp(access.last)}
            for access in accesses
        )
        tx.execute_each("add_access", counted)

    @reads
    def next_place(self, tx: Transaction, after: Place | None) -> Place | None:
        """The next place that has active facts, None at the end."""
        word = "" if after is None else place_word(tx.tenant, after)
        row = tx.execute("next_place_of_facts", after=word).fetchone()
        return Place(row["scope"], row["owner"], "fact") if row else None

    @reads
    def count(self, tx: Transaction, place: Place) -> int:
        """The number of active facts in a place."""
        row = tx.execute("count_facts", place=place_word(tx.tenant, place)).fetchone()
        return int(row["facts"])

    @reads
    def facts(self, tx: Transaction, place: Place, after: int, limit: int) -> list[ActiveFact]:
        """The active facts of a place after a row, in order."""
        asked = {"place": place_word(tx.tenant, place), "after": after, "limit": limit}
        rows = tx.execute("rows_of_facts", **asked)
        return self._facts(tx, [row["row"] for row in rows])

    @reads
    def facts_at(self, tx: Transaction, rows: Sequence[int]) -> list[ActiveFact]:
        """The facts in these rows that are still active."""
        return self._facts(tx, rows)

    def _facts(self, tx: Transaction, rows: Sequence[int]) -> list[ActiveFact]:
        asked = {"rows": as_json(list(rows)), "longest": COMPARED_FACT_CHARACTERS}
        found = tx.execute("facts_at", **asked)
        return [
            msgspec.convert({**dict(row), "extracted": bool(row["extracted"])}, ActiveFact)
            for row in found
        ]

    @reads
    def contradictions(
        self, tx: Transaction, facts: Sequence[ActiveFact]
    ) -> list[tuple[ActiveFact, ActiveFact]]:
        """Pairs of a given fact and an active fact that it is stated to contradict."""
        by_id = {fact.id: fact for fact in facts}
        found = tx.execute("contradictions", ids=as_json(list(by_id))).fetchall()
        rows = dict.fromkeys(row["older"] for row in found)
        older = {fact.row: fact for fact in self._facts(tx, list(rows))}
        return [(by_id[row["newer"]], older[row["older"]]) for row in found]

    @reads
    def vectors(self, tx: Transaction, rows: Sequence[int]) -> dict[int, VectorsByEmbedder]:
        """The vectors of the records in these rows, of those that have any."""
        found: defaultdict[int, VectorsByEmbedder] = defaultdict(dict)
        for vector in tx.execute("vectors_at", rows=as_json(list(rows))):
            found[vector["row"]][vector["embedder"]] = unpacked(vector["data"])
        return found

    async def carry_out(self, changes: Sequence[Change], actor: Actor) -> list[bool]:
        """Make changes, with their audit rows, in one transaction; return which were made.

        A change is skipped if its fact, or the fact's replacement, has changed meanwhile.
        """
        at = utc_now()
        try:
            return await self._rows.write(
                lambda tx: [self._carry_out(tx, change, actor, at) for change in changes]
            )
        finally:
            for change in changes:
                self._topics.forget_topic(change.fact.scope, change.fact.owner, change.fact.topic)

    def _carry_out(self, tx: Transaction, change: Change, actor: Actor, at: datetime) -> bool:
        cause = Cause.by(
            actor,
            superseded_by=change.superseded_by,
            at=at,
            why="archived" if change.action == "importance" else change.action,
            reason=change.reason,
        )
        if change.action == "importance":
            fact = change.fact
            detail = {"before": fact.importance, "after": change.importance}
            changed = tx.execute("change_importance", id=fact.id, **detail).rowcount
            if changed:
                tx.execute("weigh_recalls", row=fact.row, recalls=fact.recalls)
                add_to_audit(tx, "importance", fact.id, cause, detail)
            return bool(changed)
        newer = change.superseded_by
        if newer and not is_active(tx, newer):
            return False
        retired = supersede(tx, change.fact.id, cause)
        if retired and change.action == "merged":
            merge_sources(tx, change.fact.id, newer, cause)
        return retired

    @writes
    def begin(self, tx: Transaction, run: str, began_at: datetime) -> None:
        """Record the start of a consolidation run."""
        tx.execute("begin_consolidation", run=run, began_at=stamp(began_at))

    @writes
    def end(
        self, tx: Transaction, run: str, ended_at: datetime, *, changed: int, failed: int
    ) -> None:
        """Record the end of a consolidation run, and its counts."""
        counts = {"changed": changed, "failed": failed}
        tx.execute("end_consolidation", run=run, ended_at=stamp(ended_at), **counts)

    @reads
    def last_run(self, tx: Transaction, now: datetime) -> Run | None:
        """The last consolidation run, ignoring runs that began in the future."""
        row = tx.execute("last_consolidation", now=stamp(now)).fetchone()
        return msgspec.convert(dict(row), Run) if row else None
