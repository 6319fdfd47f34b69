"""How memories are kept in order, on the wire: consolidation, the audit trail, and what is undone.

Nothing here has the content of a memory but the beginnings of the caller's own in a report.
"""

from datetime import datetime
from typing import Literal

import msgspec

from local.protocol.memories import By

ChangeAction = Literal["archived", "merged", "contradicted", "importance"]
"""What consolidation does: it retires a fact, or changes its importance."""


class ConsolidationChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change; `before` and `after` are importances."""

    action: ChangeAction
    id: str
    reason: str
    scope: str
    content: str
    topic: str | None = None
    memory_type: str | None = None
    superseded_by: str | None = None
    before: float | None = None
    after: float | None = None


class LeftAlone(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that contradicts another one, and why both stay."""

    id: str
    contradicts: str
    reason: str


class NotDone(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was not made, or not undone, and why."""

    id: str
    reason: str


class ConsolidationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a consolidation changed, or would change; `run` is for `undo`.

    `facts` is how many were looked at. `not_done` are changes that failed, or whose facts changed
    meanwhile.
    """

    run: str | None
    facts: int
    changes: list[ConsolidationChange]
    left: list[LeftAlone] = []
    not_done: list[NotDone] = []


class ConsolidationStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last consolidation of everything, and what goes on now.

    `ended_at` is None where it goes on or was killed. `looked_at`: so many facts were looked at by
    the one that is under way. `problem`: why the last one did not end.
    """

    run: str | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None
    changed: int = 0
    failed: int = 0
    under_way: bool = False
    looked_at: int = 0
    problem: str | None = None


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of state. `by` says whether the user who asks made it, or another one.

    `action` is why a record was retired, or `importance`, or `enriched` (what was merged into it
    gave it its sources), or `undone`. `number` orders entries. `superseded_by` took the record's
    place; `before` and `after` are importances, or what was undone.
    """

    number: int
    at: datetime
    action: str
    id: str
    kind: str | None = None
    topic: str | None = None
    memory_type: str | None = None
    scope: str | None = None
    agent: str | None = None
    by: By | None = None
    reason: str | None = None
    run: str | None = None
    superseded_by: str | None = None
    before: float | str | None = None
    after: float | str | None = None


class AuditTrail(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, newest first; `next` is what to give as `before` for those that follow."""

    entries: list[AuditEntry]
    next: int | None = None


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """`undone` are ids of records. `others` counts changes to what the caller may not see."""

    run: str
    undone: list[str]
    not_done: list[NotDone] = []
    others: int = 0
