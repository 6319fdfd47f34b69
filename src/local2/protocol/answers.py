"""The answers of the memory's tools: the `data` of their results, for programs.

Answers about recalled items, relations and documents are in `memories`. The maintenance tools
(consolidation, audit, undo, erasure) never reveal the content of memories, except for the
beginnings of the caller's own ones in a report.
"""

from datetime import datetime
from typing import Literal

import msgspec

from local2.protocol.memories import OwnerScope, SourceClass, StatedBy
from local2.protocol.payloads import Json


class RememberedFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class SavedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A saved topic: its key as first written; `superseded` is the id of the replaced version."""

    id: str
    topic: str
    was_new: bool
    superseded: str | None


class RecalledTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's value; `by`: whether the calling user or somebody else stated it."""

    topic: str
    found: bool
    content: str | None
    id: str | None = None
    by: StatedBy | None = None
    source_class: SourceClass | None = None


class SavedMemory(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A found episode or note, with a score from 0 to 1.

    `outdated_by`: the id of a later statement of another value. `contradicts`: the id of a user's
    statement of another value, which is stronger.
    """

    id: str
    content: str
    score: float
    metadata: Json
    source_class: SourceClass
    outdated_by: str | None = None
    contradicts: str | None = None


class FoundMemories(msgspec.Struct, frozen=True, kw_only=True):
    """The hits; `degraded`: some memories could be found only by their words, for this `reason`."""

    hits: list[Hit]
    degraded: bool
    reason: str | None


class TopMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the memories that matter most; `by`: who stated it, relative to the calling user."""

    id: str
    content: str
    importance: float
    event_time: datetime
    scope: OwnerScope
    by: StatedBy
    source_class: SourceClass
    topic: str | None = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A session's note; `merges` is the number of notes that it replaces, 0 for an original one."""

    position: int
    role: str
    content: str
    event_time: datetime
    merges: int = 0


class SessionNotes(msgspec.Struct, frozen=True, kw_only=True):
    """The session's notes in order; `merged` is how many were just merged into one."""

    notes: list[Note]
    was_new: bool
    merged: int


class SessionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call whose result is a message after it; `args` is empty if unknown or too long."""

    id: str
    name: str
    args: Json


class SessionMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored message as `load_session` returns it, in the form of chat models.

    `name`: the person or tool that wrote it. `source_ref`: the id that its sender gave it.
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
    """A session's newest messages, in order; `earlier`: there are more messages before these."""

    session_id: str
    messages: list[SessionMessage]
    earlier: bool
    notes: list[Note]
    memories: list[TopMemory]


ChangeAction = Literal["archived", "merged", "contradicted", "importance"]
"""What consolidation did to a fact: retired it (and why), or changed its importance."""


class ConsolidationChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a consolidation; `before` and `after` are importances."""

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
    """The changes of a consolidation, made or planned; `undo` takes the `run`.

    `facts`: the number of facts examined. `left`: contradictions that stay. `not_done`: changes
    that failed, or whose facts have changed in the meantime.
    """

    run: str | None
    facts: int
    changes: list[ConsolidationChange]
    left: list[LeftAlone] = []
    not_done: list[NotDone] = []


class ConsolidationStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last consolidation of all facts, and the one in progress.

    `ended_at`: None while it runs, or if it was killed. `looked_at`: the number of facts that the
    one in progress has examined. `problem`: why the last one did not finish.
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
    """One change of a record's state. `by`: whether the calling user or somebody else made it.

    `number` orders the entries. `action`: why a record was retired, or `importance`, `enriched` (it
    received the sources of a merged record) or `undone`. `superseded_by`: the record that replaced
    it. `before` and `after`: importances, or what was undone.
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
    by: StatedBy | None = None
    reason: str | None = None
    run: str | None = None
    superseded_by: str | None = None
    before: float | str | None = None
    after: float | str | None = None


class AuditTrail(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, newest first; pass `next` as `before` to read the following ones."""

    entries: list[AuditEntry]
    next: int | None = None


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """`undone` contains record ids; `others` counts changes that the caller may not see."""

    run: str
    undone: list[str]
    not_done: list[NotDone] = []
    others: int = 0


class ErasureCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place that was searched for the erased content, and how much was found.

    `note`: what remains to be done, and by whom.
    """

    name: str
    found: int
    note: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of erased records by a readable name; in a dry run, those to be erased.

    `complete`: no trace was found afterwards. `may_come_back`: an import may store the same content
    again.
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
