"""Reads the audit (who changed which state, when and why), and undoes the changes of a run."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local2.ledger.engines import Row
from local2.ledger.operations.extraction import has_sources, remove_sources
from local2.ledger.operations.facts import RecentTopics
from local2.ledger.operations.records import Cause, add_to_audit, restore, supersede
from local2.ledger.operations.relations import move_relations
from local2.ledger.operations.transactions import (
    AFTER_ALL,
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    writes,
)
from local2.ledger.records import DENIED, Actor, stamp
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.memories import OwnerScope
from local2.protocol.payloads import Json

READ_ROWS = 1_000
"""Number of rows per read; other reads wait for it."""
MAX_READS = 20
"""Maximum number of reads per page; a caller who may see few rows gets a page that is not full."""
CHANGED = "it has changed since"
PINS = frozenset({"pinned", "unpinned"})


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded change of state, with the current columns of the record.

    `detail` holds the former state.
    """

    row: int
    action: str
    record_id: str
    event_time: datetime
    agent: str | None
    user: str | None
    reason: str | None
    run: str | None
    detail: Json
    kind: str | None
    topic: str | None
    memory_type: str | None
    scope: OwnerScope | None
    owner: str | None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of audit rows, newest first; `next` is where to continue, None at the end."""

    rows: list[AuditRow]
    next: int | None


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """The result of undoing one change; `problem`: why it was not undone."""

    row: AuditRow
    problem: str | None = None


MaySee = Callable[[AuditRow], bool]


class LedgerAudit(Part):
    """One tenant's audit."""

    def __init__(self, rows: TenantRows, topics: RecentTopics) -> None:
        super().__init__(rows)
        self._topics = topics

    async def page(
        self,
        may_see: MaySee,
        limit: int,
        *,
        record_id: str | None = None,
        run: str | None = None,
        before: int | None = None,
    ) -> AuditPage:
        """The newest rows that `may_see` permits, optionally of one record or one run."""
        found: list[AuditRow] = []
        position = AFTER_ALL if before is None else before
        for _ in range(MAX_READS):
            rows = await self._read(record_id, run, position)
            for row in rows:
                if may_see(row) and record_id in {None, row.record_id}:
                    found.append(row)
                if len(found) == limit:
                    return AuditPage(rows=found, next=row.row)
            if len(rows) < READ_ROWS:
                return AuditPage(rows=found, next=None)
            position = rows[-1].row
        return AuditPage(rows=found, next=position)

    @writes
    def deny(self, tx: Transaction, action: str, caller: Caller, reason: str, at: datetime) -> None:
        """Record that a request was denied."""
        cause = Cause(agent=caller.agent, user=caller.user, at=at, reason=reason)
        add_to_audit(tx, DENIED, action, cause, {})

    @reads
    def _read(
        self, tx: Transaction, record_id: str | None, run: str | None, before: int
    ) -> list[AuditRow]:
        asked = {"before": before, "limit": READ_ROWS}
        if run is not None:
            found = tx.execute("audit_rows_of_run", run=run, **asked)
        elif record_id is not None:
            found = tx.execute("audit_rows_of_record", record=record_id, **asked)
        else:
            found = tx.execute("newest_audit_rows", **asked)
        entries = tx.execute("audit_entries", rows=as_json([row["row"] for row in found]))
        return [
            msgspec.convert({**dict(row), "detail": json.loads(row["detail"])}, AuditRow)
            for row in entries
        ]

    async def undo(self, changes: Sequence[AuditRow], actor: Actor) -> list[Undone]:
        """Undo changes in one transaction, except those whose state has changed since.

        Each undone change adds a row to the audit.
        """
        try:
            return await self._rows.write(
                lambda tx: [
                    Undone(row=change, problem=self._undo(tx, change, actor)) for change in changes
                ]
            )
        finally:
            for change in changes:
                self._topics.forget_topic(change.scope, change.owner, change.topic)

    def _undo(self, tx: Transaction, change: AuditRow, actor: Actor) -> str | None:
        """Undo one change; return why that is not possible, else None."""
        if not change.detail and change.action not in PINS:
            return "it has been anonymised since"
        if change.action == "importance":
            changed = tx.execute(
                "change_importance",
                id=change.record_id,
                before=change.detail["after"],
                after=change.detail["before"],
            )
            problem = None if changed.rowcount else CHANGED
        elif change.action == "enriched":
            added = change.record_id, change.detail["messages"], change.detail["targets"]
            problem = None if has_sources(tx, *added) else CHANGED
            if problem is None:
                remove_sources(tx, *added)
        elif change.action in PINS:
            was_pinned = change.action == "unpinned"
            changed = tx.execute("set_pinned", id=change.record_id, pinned=was_pinned or None)
            problem = None if changed.rowcount else CHANGED
        elif change.action == "edited":
            # The former version stands again instead of the one that its user wrote.
            cause = Cause(
                agent=actor.agent,
                user=actor.user,
                superseded_by=change.record_id,
                at=utc_now(),
                why="edited",
                reason="the edit is undone",
            )
            edited = change.detail["superseded_by"]
            former = _retired(tx, change)  # if it cannot return, what replaced it stays
            if former is None or not supersede(tx, edited, cause):
                return CHANGED
            problem = _restore(tx, former)
            if problem is None:
                move_relations(tx, edited, change.record_id)
        else:
            former = _retired(tx, change)
            problem = _restore(tx, former) if former is not None else CHANGED
        if problem is None:
            cause = Cause.by(actor, at=utc_now(), reason=f"{change.action} is undone")
            detail = {"action": change.action, "row": change.row}
            add_to_audit(tx, "undone", change.record_id, cause, detail)
        return problem


def _retired(tx: Transaction, change: AuditRow) -> Row | None:
    """The record that a change retired, if it has not changed since."""
    row: Row | None = tx.execute(
        "retired_record",
        id=change.record_id,
        superseded_by=change.detail.get("superseded_by"),
        why=change.action,
        retired_at=stamp(change.event_time),
    ).fetchone()
    return row


def _restore(tx: Transaction, retired: Row) -> str | None:
    """Make a retired record active again, and index it; return why that is not possible."""
    return None if restore(tx, retired) else "another memory has its topic or its place"
