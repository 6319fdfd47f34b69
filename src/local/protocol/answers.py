"""The answers of the memory's tools: the `data` of their results, for programs.

Answers about facts, relations and documents are with these, in `memories`. The tools that maintain
memories (consolidating, the audit trail, undoing, erasing) reveal none of their content except the
beginnings of the caller's own in a report.
"""

from datetime import datetime
from typing import Literal

import msgspec

from local.protocol.memories import By, Owning, SourceClass
from local.protocol.payloads import Json


class RememberedFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class SavedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """`topic` is the key as it was first written, `superseded` the id of the replaced version."""

    id: str
    topic: str
    was_new: bool
    superseded: str | None


class RecalledTopic(msgspec.Struct, frozen=True, kw_only=True):
    """`by` is whether the user who asks stated it, `source_class` in which capacity."""

    topic: str
    found: bool
    content: str | None
    id: str | None = None
    by: By | None = None
    source_class: SourceClass | None = None


class SavedMemory(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was found. `score` runs from 0 to 1."""

    id: str
    content: str
    score: float
    metadata: Json
    source_class: SourceClass


class FoundMemories(msgspec.Struct, frozen=True, kw_only=True):
    """`degraded`: some memories could be found by their words only; `reason` is why."""

    hits: list[Hit]
    degraded: bool
    reason: str | None


class TopMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`by`: stated by the user who asks, or by another."""

    id: str
    content: str
    importance: float
    event_time: datetime
    scope: Owning
    by: By
    source_class: SourceClass
    topic: str | None = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """`merges` is how many notes it replaces; 0 for a single note."""

    position: int
    role: str
    content: str
    event_time: datetime
    merges: int = 0


class SessionNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The session's notes in their order; `merged` of them were just made one."""

    notes: list[Note]
    was_new: bool
    merged: int


class SessionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call; `args` is empty where they are not known, or too long."""

    id: str
    name: str
    args: Json


class SessionMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as chat models take it.

    `name` is the person or tool that wrote it, `source_ref` the id that its sender gave it.
    """

    role: str
    content: str
    id: str
    event_time: datetime
    name: str | None = None
    source_ref: str | None = None
    query_id: str | None = None
    tool_calls: list[SessionCall] = []
    tool_call_id: str | None = None


class SessionContent(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in the order of the conversation; `earlier`: there are more before them."""

    session_id: str
    messages: list[SessionMessage]
    earlier: bool
    notes: list[Note]
    memories: list[TopMemory]


ChangeAction = Literal["archived", "merged", "contradicted", "importance"]
"""The actions of consolidation: it retires a fact, or changes its importance."""


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
    """The changes of a consolidation, made or planned; `run` is for `undo`.

    `facts` is how many were examined. `not_done` are changes that failed, or whose facts changed
    meanwhile.
    """

    run: str | None
    facts: int
    changes: list[ConsolidationChange]
    left: list[LeftAlone] = []
    not_done: list[NotDone] = []


class ConsolidationStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last consolidation of all facts, and the one in progress.

    `ended_at` is None while it goes on, or if it was killed. `looked_at` is how many facts the one
    in progress has examined. `problem`: why the last one did not end.
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
    """One change of state. `by` is whether the user who asks made it, or another one.

    `action` is why a record was retired, or `importance`, or `enriched` (a merged record gave it
    its sources), or `undone`. `number` orders entries. `superseded_by` took the record's place;
    `before` and `after` are importances, or what was undone.
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
    """Entries, newest first; give `next` as `before` to read the entries that follow."""

    entries: list[AuditEntry]
    next: int | None = None


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """`undone` are ids of records. `others` counts changes to what the caller may not see."""

    run: str
    undone: list[str]
    not_done: list[NotDone] = []
    others: int = 0


class ErasureCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place that was searched for the erased content, and how much is still there.

    `note` is what remains to be done, and by whom.
    """

    name: str
    found: int
    note: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The erased records, counted by their names for people; of a dry run, the planned ones.

    `complete`: no trace was found afterwards. `may_come_back`: an import may store it again.
    """

    erased: dict[str, int]
    at: datetime
    dry_run: bool
    complete: bool
    may_come_back: bool
    checks: list[ErasureCheck] = []

    @property
    def total(self) -> int:
        return sum(self.erased.values())
