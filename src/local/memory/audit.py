"""What one caller may know of changes of state, and the undo of these changes."""

from local.errors import InvalidArgumentsError, quoted
from local.ledger.door import Ledger
from local.ledger.records import TENANT_OWNED
from local.ledger.upkeep import Actor, AuditRow
from local.memory.changes import Changes
from local.memory.scopes import owns
from local.protocol.answers import AuditEntry, AuditTrail, NotDone, UndoReport
from local.protocol.envelope import Caller
from local.protocol.memories import By

TOGETHER = 100
"""Changes that are undone in one transaction."""
SHOWN = 2_000
"""Of what was undone, or not, so much is reported."""
UNDOABLE = frozenset({"archived", "merged", "contradicted", "superseded", "importance", "enriched"})
UNDONE = "undone"
DENIED = "denied"
"""The reason of all that is denied to a role."""
WAS = {"importance": "before", UNDONE: "action"}
"""The parts of a change's detail with the former state, beside the record's replacement."""
STATES = frozenset({"importance", "enriched"})
"""They change an active record; the others retire it."""


class Audit:
    """The audit as one caller may see it: of the caller's own records, and of everybody's."""

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
        """Return changes of state, newest first: all, or those of a record or of a run."""
        page = await self._ledger.audit.page(
            self._may_see, limit, record_id=record_id, run=run, before=before
        )
        return AuditTrail(entries=[self._entry(row) for row in page.rows], next=page.next)

    async def undo(self, run: str) -> UndoReport:
        """Undo what a run changed in the caller's records, except where they have changed since.

        Raises:
            InvalidArgumentsError: There is no such run.
        """
        mine, others = await self._changes_of(run)
        if not mine and not others:
            raise InvalidArgumentsError(
                f"run: there is no run {quoted(run)}.", remedy="`local2 audit` lists runs."
            )
        actor = Actor(agent=self._caller.agent, user=self._caller.user or TENANT_OWNED, run=run)
        undone: list[str] = []
        not_done = [
            NotDone(id=row.record_id, reason=f"{row.action} cannot be undone")
            for row in mine
            if row.action not in UNDOABLE
        ]
        mine = [row for row in mine if row.action in UNDOABLE]
        for start in range(0, len(mine), TOGETHER):
            tried = await self._ledger.audit.undo(mine[start : start + TOGETHER], actor)
            made = [one.row for one in tried if one.problem is None]
            undone += [row.record_id for row in made]
            not_done += [
                NotDone(id=one.row.record_id, reason=one.problem) for one in tried if one.problem
            ]
            self._changes.restored([row for row in made if row.action not in STATES])
        undone = list(dict.fromkeys(undone))
        return UndoReport(run=run, undone=undone[:SHOWN], not_done=not_done[:SHOWN], others=others)

    async def _changes_of(self, run: str) -> tuple[list[AuditRow], int]:
        """Return what may be undone of a run, and how many changes the caller may not see."""
        others = 0

        def mine(row: AuditRow) -> bool:
            nonlocal others
            if row.action == UNDONE:
                return False
            seen = self._may_see(row)
            others += not seen
            return seen

        found: list[AuditRow] = []
        before = None
        while True:
            page = await self._ledger.audit.page(mine, SHOWN, run=run, before=before)
            found += page.rows
            before = page.next
            if before is None:
                return found, others

    def _may_see(self, row: AuditRow) -> bool:
        """Return whether the caller may see it: own records, and the caller's changes to others."""
        if row.scope is not None and row.owner is not None:
            return owns(row.scope, row.owner, self._caller) or self._did(row)
        return self._did(row) or (row.action == DENIED and self._caller.role == "admin")

    def _did(self, row: AuditRow) -> bool:
        return self._caller.user is not None and row.user == self._caller.user

    def _entry(self, row: AuditRow) -> AuditEntry:
        detail = row.detail
        return AuditEntry(
            number=row.row,
            at=row.event_time,
            action=row.action,
            id=row.record_id,
            kind=row.kind,
            topic=row.topic,
            memory_type=row.memory_type,
            scope=row.scope,
            agent=row.agent,
            by=self._by(row),
            reason=row.reason,
            run=row.run,
            superseded_by=detail.get("superseded_by") or None,
            before=detail.get(WAS.get(row.action, "")),
            after=detail.get("after") if row.action == "importance" else None,
        )

    def _by(self, row: AuditRow) -> By | None:
        """Return whether the caller made the change; None where no user did."""
        if row.user is None:
            return None
        return "self" if row.user == (self._caller.user or TENANT_OWNED) else "other"
