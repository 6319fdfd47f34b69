"""Reads the audit (who changed which state, when and why), and undoes the changes of a run."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local2.ledger.records import stamp
from local2.ledger.sqlite.database import Row, SqlConnection
from local2.ledger.sqlite.extraction import Sources
from local2.ledger.sqlite.record_rows import Cause, RecordRows
from local2.ledger.sqlite.records import RecentTopics
from local2.ledger.sqlite.rows import TenantRows, as_json
from local2.ledger.upkeep import Actor, AuditPage, AuditRow, Undone
from local2.protocol.envelope import Caller, utc_now

READ_ROWS = 1_000
"""Number of rows per read; other reads wait for it."""
MAX_READS = 20
"""Maximum number of reads per page; a caller who may see few rows gets a page that is not full."""
AFTER_ALL = 2**62
"""A row number higher than any other."""
CHANGED = "it has changed since"
DENIED = "denied"
"""Audit action of a denied request; its row has the name of the request instead of a record id."""

MaySee = Callable[[AuditRow], bool]


class Audit:
    """One tenant's audit."""

    def __init__(self, rows: TenantRows, records: RecordRows, topics: RecentTopics) -> None:
        self._rows = rows
        self._records = records
        self._sources = Sources(rows, records)
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
        """Return the newest rows that `may_see` permits, optionally of one record or one run."""
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

    async def deny(self, action: str, caller: Caller, reason: str, at: datetime) -> None:
        """Record that a request was denied."""
        cause = Cause(agent=caller.agent, user=caller.user, superseded_by="", at=at, reason=reason)
        await self._rows.write(lambda c: self._records.add_to_audit(c, DENIED, action, cause, {}))

    async def _read(self, record_id: str | None, run: str | None, before: int) -> list[AuditRow]:
        def read(connection: SqlConnection) -> list[AuditRow]:
            rows = self._row_numbers(connection, record_id, run, before)
            found = self._rows.execute(connection, "audit_entries", rows=as_json(rows))
            return [_audit_row(row) for row in found]

        return await self._rows.read(read)

    def _row_numbers(
        self, connection: SqlConnection, record_id: str | None, run: str | None, before: int
    ) -> list[int]:
        asked = {"before": before, "limit": READ_ROWS}
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
        """Undo changes in one transaction, except those whose state has changed since.

        Each undone change adds a row to the audit.
        """
        try:
            return await self._rows.write(
                lambda c: [Undone(row=one, problem=self._undo(c, one, actor)) for one in changes]
            )
        finally:
            for one in changes:
                self._topics.forget_topic(one.scope, one.owner, one.topic)

    def _undo(self, connection: SqlConnection, change: AuditRow, actor: Actor) -> str | None:
        """Undo one change; return why that is not possible, else None."""
        if change.action == "importance":
            problem = self._restore_importance(connection, change)
        elif change.action == "enriched":
            problem = self._remove_sources(connection, change)
        else:
            problem = self._restore_fact(connection, change)
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

    def _restore_importance(self, connection: SqlConnection, change: AuditRow) -> str | None:
        changed = self._rows.execute(
            connection,
            "change_importance",
            id=change.record_id,
            before=change.detail["after"],
            after=change.detail["before"],
        )
        return None if changed.rowcount else CHANGED

    def _remove_sources(self, connection: SqlConnection, change: AuditRow) -> str | None:
        added = change.record_id, change.detail["messages"], change.detail["targets"]
        if not self._sources.has(connection, *added):
            return CHANGED
        self._sources.remove(connection, *added)
        return None

    def _restore_fact(self, connection: SqlConnection, change: AuditRow) -> str | None:
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
            return "another fact has its topic"
        return None


def _audit_row(row: Row) -> AuditRow:
    return msgspec.convert({**dict(row), "detail": json.loads(row["detail"])}, AuditRow)
