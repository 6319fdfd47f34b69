"""What was shown, on the wire: by recalls, where they are logged, and before each answer."""

from datetime import datetime
from typing import Annotated

import msgspec

from local2.protocol.envelope import Name
from local2.protocol.memories import Kind
from local2.protocol.payloads import ServiceRequest

MAX_SHOWINGS = 100
"""Maximum number of showings on a page."""
SHOWN_CHARACTERS = 300
"""Maximum characters of a memory's content on a page."""


class FindShowings(ServiceRequest, frozen=True, kw_only=True):
    """`memory.shown`: what was shown to the caller, the latest first.

    Exactly one of these is named: the session, the query of a turn, or the id of a memory that was
    shown. `after`: `next` of the page before.
    """

    session_id: Name | None = None
    query_id: Name | None = None
    id: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_SHOWINGS)] = 50
    after: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ShownMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that was shown, and its score in a recall. What it says, if the caller sees it."""

    id: str
    score: float | None = None
    kind: Kind | None = None
    content: str | None = None
    topic: str | None = None
    event_time: datetime | None = None


class ShowingFound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which memories were shown at a time, best first, to an agent.

    By a recall, which asked `question`, or before an answer: the id of its episode.
    """

    shown_at: datetime
    memories: list[ShownMemory]
    question: str | None = None
    answer: str | None = None
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None


class ShowingsPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of showings; `next` continues it."""

    showings: list[ShowingFound]
    next: int | None = None
