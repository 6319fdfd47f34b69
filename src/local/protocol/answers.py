"""What the memory's tools answer: the `data` of their results, for programs.

Answers about facts, relations and documents are with these, in `memories`.
"""

from datetime import datetime

import msgspec

from local.protocol.memories import By, Owning, SourceClass
from local.protocol.payloads import Json


class RememberedFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    was_new: bool


class SavedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """`topic` is the key as it was first written, `superseded` the id of the version replaced."""

    id: str
    topic: str
    was_new: bool
    superseded: str | None


class RecalledTopic(msgspec.Struct, frozen=True, kw_only=True):
    """`by` says whether the user who asks stated it, `source_class` in which capacity."""

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
    """`degraded`: some memories could only be found by their words; `reason` says why."""

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
    """`merges` is how many notes it stands for; 0: it is one itself."""

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

    `name` is who said it or which tool answered, `source_ref` the id that who stored it gave it.
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
    """Messages in the order in which they were told; `earlier`: there are more before them."""

    session_id: str
    messages: list[SessionMessage]
    earlier: bool
    notes: list[Note]
    memories: list[TopMemory]
