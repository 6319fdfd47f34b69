"""What crosses the ledger's door when memories are kept in order: facts, changes, the audit."""

from datetime import datetime

import msgspec

from local.ledger.search import Place
from local.protocol.answers import ChangeAction
from local.protocol.memories import Durability, Owning, SourceClass
from local.protocol.payloads import Json

LONGEST = 2_000
"""Characters of a fact that is compared with others."""


class ActiveFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as consolidation sees it.

    `content` is empty where it is longer than `LONGEST`; `topic` is folded. `recalls` counts those
    that its importance does not know of yet.
    """

    row: int
    id: str
    content: str
    topic: str | None
    memory_type: str | None
    durability: Durability
    importance: float
    source_class: SourceClass
    scope: Owning
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


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with a fact: it is retired, or its importance changes.

    `superseded_by` is empty where nothing takes its place.
    """

    action: ChangeAction
    fact: ActiveFact
    reason: str
    superseded_by: str = ""
    importance: float | None = None


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who changes something, and in which run."""

    agent: str | None
    user: str | None = None
    run: str | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How often a record was recalled since this was last written, and when last."""

    row: int
    times: int
    last: datetime


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation; one that has not ended goes on, or was killed."""

    run: str
    began_at: datetime
    ended_at: datetime | None
    changed: int
    failed: int


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A change of state as it was noted, with what the record is today.

    `detail` has what it was before.
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
    scope: Owning | None
    owner: str | None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows, newest first; `next` is where to go on, None at the end."""

    rows: list[AuditRow]
    next: int | None


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of undoing one change; `problem` says why it was not undone."""

    row: AuditRow
    problem: str | None = None
