"""Browsing on the wire: all that a caller may see, the newest first, page by page.

Browsing is served by services, not tools, because a tool's result is published to everybody.
"""

from datetime import date, datetime
from typing import Annotated, Literal

import msgspec

from local2.protocol.envelope import Name, Role
from local2.protocol.memories import (
    Durability,
    Kind,
    MemoryType,
    OwnerScope,
    RetirementReason,
    SourceClass,
    StatedBy,
)
from local2.protocol.payloads import ServiceRequest

RecordState = Literal["active", "replaced", "retired", "hidden", "anonymised"]
"""Whether a record stands: `replaced` by another one, `retired` with nothing in its place, `hidden`
so that it is never recalled, or `anonymised` some time after it was retired. What was erased is not
shown at all."""
MAX_OWNERS = 1_000
"""Maximum number of users, and of agents, in an overview."""
MAX_SESSIONS = 50
"""Maximum number of sessions in an overview."""
MAX_PAGE = 100
"""Maximum number of memories, and of sessions, on a page."""
CONTENT_CHARACTERS = 1_000
"""Maximum characters of a memory's content on a page, which then fits into a message of 1 MB;
`memory_history` returns it whole."""

Words = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class Browse(ServiceRequest, frozen=True, kw_only=True):
    """`memory.browse`: the caller's own memories, and those for everybody; None is no condition.

    `words`: all of them are in the text; the memories that were stored last then come first.
    `agent`: who stored them. `topic`: how their keys begin. `since` and `until` are dates or times.
    `after`: `next` of the page before.
    """

    words: Words | None = None
    kinds: tuple[Kind, ...] | None = None
    types: tuple[MemoryType, ...] | None = None
    scopes: tuple[OwnerScope, ...] | None = None
    states: tuple[RecordState, ...] = ("active",)
    sources: tuple[SourceClass, ...] | None = None
    agent: Name | None = None
    session_id: Name | None = None
    topic: Name | None = None
    since: str | None = None
    until: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class BrowseAll(Browse, frozen=True, kw_only=True):
    """`memory.browse.all`: the same for the memories of all users of the tenant.

    `of`: only those of this user and of the user's sessions; "" is what belongs to no user.
    """

    of: Name | None = None


class BrowsedMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory on a page.

    `cut`: there is more of its content. `user`: whose it is, if it is not the tenant's or an
    agent's. `by`: whether the calling user or somebody else stated it. `agent`: who stored it.
    `recalls`: how often it was recalled.
    """

    id: str
    kind: Kind
    state: RecordState
    scope: OwnerScope
    content: str
    event_time: datetime
    cut: bool = False
    user: str | None = None
    by: StatedBy
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    topic: str | None = None
    label: str | None = None
    role: str | None = None
    memory_type: MemoryType | None = None
    source_class: SourceClass
    durability: Durability
    importance: float
    score: float | None = None
    pinned: bool | None = None
    superseded_by: str | None = None
    retired_at: datetime | None = None
    retired_why: RetirementReason | None = None
    recalls: int = 0
    recalled_at: datetime | None = None


class BrowsedPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of memories. It may have fewer than were asked for; `next` continues it."""

    memories: list[BrowsedMemory]
    next: str | None = None


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """Who the caller is, and what the caller may do.

    `role`: None without accounts. `actions`: the tools and services that the role permits; None:
    all of them.
    """

    tenant: str
    user: str | None = None
    role: Role | None = None
    actions: list[str] | None = None


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories of a scope and kind stand, how many no longer do, and the newest's time."""

    scope: OwnerScope
    kind: Kind
    active: int
    past: int
    last: datetime


class GrowthRequest(ServiceRequest, frozen=True, kw_only=True):
    """`memory.growth`: of so many days, today included."""

    days: Annotated[int, msgspec.Meta(ge=1, le=366)] = 30


class DayCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories of a kind have this day (UTC) as theirs, whether or not they stand."""

    day: date
    kind: Kind
    added: int


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How much a memory has grown, the earliest day first; empty days are left out."""

    days: list[DayCount]


class OwnerCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many memories of a user or an agent stand, and the time of the newest."""

    name: str
    active: int
    last: datetime


class SessionCount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many messages a session has, and the times of the first and the last."""

    session_id: str
    user: str | None = None
    messages: int
    first: datetime
    last: datetime


class ListSessions(ServiceRequest, frozen=True, kw_only=True):
    """`memory.sessions`: the sessions, those that were used last first.

    `after`: `next` of the page before.
    """

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class SessionsPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of sessions. It may have fewer than were asked for; `next` continues it."""

    sessions: list[SessionCount]
    next: str | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory consists of.

    `users` and `agents` have memories of their own, those with the newest first; "" is what belongs
    to no user. `sessions` are up to 50 of those that were used last.
    """

    counts: list[KindCount]
    users: list[OwnerCount]
    agents: list[OwnerCount]
    sessions: list[SessionCount]
