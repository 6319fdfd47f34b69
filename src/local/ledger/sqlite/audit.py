"""The audit: who changed which state, when and why; and how the changes of a run are undone."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local.ledger.records import stamp
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.extraction import Sources
from local.ledger.sqlite.record_columns import as_json
from local.ledger.sqlite.records import RecentTopics
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows
from local.ledger.upkeep import Actor, AuditPage, AuditRow, Undone
from local.protocol.envelope import Caller, utc_now

READ = 1_000
"""Rows of one read, which others wait behind."""
READS = 20
"""Reads of one page at most: where a caller may see next to nothing, it ends before it is full."""
LAST = 2**62
CHANGED = "it has changed since"
DENIED = "denied"
"""What was denied takes the place of a record's id."""

Seen = Callable[[AuditRow], bool]


class Audit:
    """One tenant's audit."""

    def __init__(self, rows: TenantRows, records: RecordRows, topics: RecentTopics) -> None:
        self._rows = rows
        self._records = records
        self._sources = Sources(rows, records)
        self._topics = topics

    async def page(
        self,
        seen: Seen,
        limit: int,
        *,
        record_id: str | None = None,
        run: str | None = None,
        before: int | None = None,
    ) -> AuditPage:
        """Return the newest rows that `seen` permits: all, or those of a record or of a run."""
        found: list[AuditRow] = []
        position = LAST if before is None else before
        for _ in range(READS):
            rows = await self._read(record_id, run, position)
            for row in rows:
                if seen(row) and record_id in {None, row.record_id}:
                    found.append(row)
                if len(found) == limit:
                    return AuditPage(rows=found, next=row.row)
            if len(rows) < READ:
                return AuditPage(rows=found, next=None)
            position = rows[-1].row
        return AuditPage(rows=found, next=position)

    async def deny(self, action: str, caller: Caller, reason: str, at: datetime) -> None:
        """Record that a request was denied."""
        cause = Cause(agent=caller.agent, user=caller.user, superseded_by="", at=at, reason=reason)
        await self._rows.write(lambda c: self._records.add_to_audit(c, DENIED, action, cause, {}))

    async def _read(self, record_id: str | None, run: str | None, before: int) -> list[AuditRow]:
        def read(connection: SqlConnection) -> list[AuditRow]:
            rows = self._row_numbers(connection, record_id, run, before)
            found = self._rows.execute(connection, "audit_entries", rows=as_json(rows))
            return [_row_of(row) for row in found]

        return await self._rows.read(read)

    def _row_numbers(
        self, connection: SqlConnection, record_id: str | None, run: str | None, before: int
    ) -> list[int]:
        asked = {"before": before, "limit": READ}
        if run is not None:
            found = self._rows.execute(connection, "audit_rows_of_run", run=run, **asked)
        elif record_id is not None:
            found = self._rows.execute(
                connection, "audit_rows_of_record", record=record_id, **asked
            )
        else:
            found = self._rows.execute(connection, "newest_audit_rows", **asked)
        return [row["row"] for row in found]

    async def undo(self, changes: Sequence[AuditRow], actor: Actor) -> list[Undone]:
        """Undo changes, except where something has changed the state since.

        All in one transaction, each with a row of its own in the audit.
        """
        try:
            return await self._rows.write(
                lambda c: [Undone(row=one, problem=self._undo(c, one, actor)) for one in changes]
            )
        finally:
            for one in changes:
                self._topics.forget_topic(one.scope, one.owner, one.topic)

    def _undo(self, connection: SqlConnection, change: AuditRow, actor: Actor) -> str | None:
        """Undo one change, or return why not."""
        if change.action == "importance":
            problem = self._weigh(connection, change)
        elif change.action == "enriched":
            problem = self._part(connection, change)
        else:
            problem = self._restore(connection, change)
        if problem is None:
            cause = Cause(
                agent=actor.agent,
                user=actor.user,
                superseded_by="",
                at=utc_now(),
                reason=f"{change.action} is undone",
                run=actor.run,
            )
            detail = {"action": change.action, "row": change.row}
            self._records.add_to_audit(connection, "undone", change.record_id, cause, detail)
        return problem

    def _weigh(self, connection: SqlConnection, change: AuditRow) -> str | None:
        changed = self._rows.execute(
            connection,
            "change_importance",
            id=change.record_id,
            before=change.detail["after"],
            after=change.detail["before"],
        )
        return None if changed.rowcount else CHANGED

    def _part(self, connection: SqlConnection, change: AuditRow) -> str | None:
        given = change.record_id, change.detail["messages"], change.detail["targets"]
        if not self._sources.has(connection, *given):
            return CHANGED
        self._sources.remove(connection, *given)
        return None

    def _restore(self, connection: SqlConnection, change: AuditRow) -> str | None:
        """Make a retired fact active again, and index it."""
        retired = self._rows.execute(
            connection,
            "retired_fact",
            id=change.record_id,
            superseded_by=change.detail.get("superseded_by"),
            why=change.action,
            retired_at=stamp(change.event_time),
        ).fetchone()
        if retired is None:
            return CHANGED
        if not self._records.restore(connection, retired):
            return "another fact stands under its topic"
        return None


def _row_of(row: Row) -> AuditRow:
    return msgspec.convert({**dict(row), "detail": json.loads(row["detail"])}, AuditRow)
