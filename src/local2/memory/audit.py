"""Read the audit trail as one caller may see it, and undo changes of state."""

from local2.errors import InvalidArgumentsError, quoted
from local2.ledger.ledger import Ledger
from local2.ledger.operations.audit import AuditRow
from local2.ledger.records import DENIED, TENANT_OWNED, Actor
from local2.memory.changes import Changes
from local2.memory.scopes import may_write, owner_of, owns
from local2.protocol.envelope import Caller
from local2.protocol.memories import ChangedBy
from local2.protocol.memory_tools import AuditEntry, AuditTrail, NotDone, UndoReport

CHANGES_PER_TRANSACTION = 100
"""Number of changes that are undone in one transaction."""
MAX_REPORTED = 2_000
"""Maximum number of undone changes, and of others, that are reported. Also the size of a page."""
UNDOABLE = frozenset(
    {
        "archived",
        "merged",
        "contradicted",
        "superseded",
        "edited",
        "withdrawn",
        "hidden",
        "pinned",
        "unpinned",
        "importance",
        "enriched",
    }
)
UNDONE = "undone"
FORMER_STATE = {"importance": "before", UNDONE: "action"}
"""The field of a change's detail that has the former state, by action."""
IN_PLACE = frozenset({"importance", "enriched", "pinned", "unpinned"})
"""Actions that change an active record; all others retire it."""


class Audit:
    """The audit trail of the caller's own records and of the tenant's."""

    def __init__(self, ledger: Ledger, changes: Changes, caller: Caller) -> None:
        self._ledger = ledger
        self._changes = changes
        self._caller = caller

    async def trail(
        self,
        limit: int,
        *,
        record_id: str | None = None,
        run: str | None = None,
        before: int | None = None,
    ) -> AuditTrail:
        """Changes of state, newest first: all of them, or those of a record or a run."""
        page = await self._ledger.audit.page(
            self._may_see, limit, record_id=record_id, run=run, before=before
        )
        entries = []
        for row in page.rows:
            by: ChangedBy | None = None
            if row.user is not None:
                is_own = row.user == owner_of(self._caller)
                by = "self" if is_own else "unnamed" if row.user == TENANT_OWNED else "other"
            entries.append(
                AuditEntry(
                    number=row.row,
                    at=row.event_time,
                    action=row.action,
                    id=row.record_id,
                    kind=row.kind,
                    topic=row.topic,
                    memory_type=row.memory_type,
                    scope=row.scope,
                    agent=row.agent,
                    by=by,
                    reason=row.reason,
                    run=row.run,
                    superseded_by=row.detail.get("superseded_by") or None,
                    before=row.detail.get(FORMER_STATE.get(row.action, "")),
                    after=row.detail.get("after") if row.action == "importance" else None,
                )
            )
        return AuditTrail(entries=entries, next=page.next)

    async def undo(self, run: str) -> UndoReport:
        """Undo a run's changes to the caller's records, except to records changed since.

        Changes in scopes that the caller may not write to are left to those who may.

        Raises:
            InvalidArgumentsError: The run does not exist.
        """
        mine: list[AuditRow] = []
        others = 0

        def is_own_change(row: AuditRow) -> bool:
            """Whether the caller may undo a change; those that others may undo are counted."""
            nonlocal others
            if row.action == UNDONE:
                return False
            is_own = self._may_see(row) and (
                row.scope is None or may_write(row.scope, self._caller)
            )
            others += not is_own
            return is_own

        before: int | None = None
        while True:
            page = await self._ledger.audit.page(
                is_own_change, MAX_REPORTED, run=run, before=before
            )
            mine += page.rows
            before = page.next
            if before is None:
                break
        if not mine and not others:
            raise InvalidArgumentsError(
                f"run: there is no run {quoted(run)}.", remedy="`local2 audit` lists the runs."
            )
        actor = Actor(agent=self._caller.agent, user=owner_of(self._caller), run=run)
        undone: list[str] = []
        not_done = [
            NotDone(id=row.record_id, reason=f"{row.action} cannot be undone")
            for row in mine
            if row.action not in UNDOABLE
        ]
        mine = [row for row in mine if row.action in UNDOABLE]
        for start in range(0, len(mine), CHANGES_PER_TRANSACTION):
            tried = await self._ledger.audit.undo(
                mine[start : start + CHANGES_PER_TRANSACTION], actor
            )
            succeeded = [change.row for change in tried if change.problem is None]
            undone += [row.record_id for row in succeeded]
            not_done += [
                NotDone(id=change.row.record_id, reason=change.problem)
                for change in tried
                if change.problem
            ]
            self._changes.restored([row for row in succeeded if row.action not in IN_PLACE])
        undone = list(dict.fromkeys(undone))
        return UndoReport(
            run=run, undone=undone[:MAX_REPORTED], not_done=not_done[:MAX_REPORTED], others=others
        )

    def _may_see(self, row: AuditRow) -> bool:
        """Whether the caller may see a change: to own records, or made by the caller."""
        if row.scope is not None and row.owner is not None:
            return owns(row.scope, row.owner, self._caller) or self._is_by_caller(row)
        return self._is_by_caller(row) or (row.action == DENIED and self._caller.role == "admin")

    def _is_by_caller(self, row: AuditRow) -> bool:
        return self._caller.user is not None and row.user == self._caller.user
