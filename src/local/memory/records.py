"""What the ledger holds: kinds of records, their Structs, their ids, the rule for topic keys."""

import hashlib
import re
from datetime import datetime
from typing import Any, Literal, Self

import msgspec

from local.database import Row
from local.errors import InvalidArgumentsError
from local.protocol.payloads import Json

Kind = Literal["chat_message", "tool_output", "document_chunk", "fact", "episode"]

TENANT_OWNED = ""
"""Owner of what belongs to the whole tenant, and of what a caller without a user writes."""

TOPIC_RULE = (
    "A topic key starts with user., project. or constraint. and goes on in lower-case words "
    "joined by dots, e.g. user.language_preference."
)
_TOPIC = re.compile(r"(user|project|constraint)(\.[a-z0-9]+(_[a-z0-9]+)*)+")
_TOPIC_LENGTH = 200


class NewRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to be written. Its columns are the ledger's, but for the tenant."""

    id: str
    kind: Kind
    content: str
    event_time: datetime
    owner: str = TENANT_OWNED
    topic: str | None = None
    metadata: Json = msgspec.field(default_factory=dict)
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None


class Record(NewRecord, frozen=True, kw_only=True):
    """A record as it stands; `score` is the feedback on it, from -1 to 1."""

    superseded_by: str | None = None
    score: float | None = None

    @classmethod
    def from_row(cls, row: Row) -> Self:
        return cls(
            id=row["id"],
            kind=row["kind"],
            content=row["content"],
            event_time=datetime.fromisoformat(row["event_time"]),
            owner=row["owner"],
            topic=row["topic"],
            metadata=msgspec.json.decode(row["metadata"]),
            agent=row["agent"],
            session_id=row["session_id"],
            query_id=row["query_id"],
            superseded_by=row["superseded_by"],
            score=row["score"],
        )


class Rating(msgspec.Struct, frozen=True, kw_only=True):
    query_id: str
    score: float
    comment: str | None
    event_time: datetime


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a write came to; `superseded` is the id of the version it replaced."""

    id: str
    was_new: bool
    superseded: str | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A record that waits for its place in the index; `vector` where one is known already."""

    row: int
    id: str
    text: str
    vector: bytes | None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    records: int
    indexed: int
    waiting: int


def checked_topic(topic: str) -> str:
    """Return the key if it follows the rule.

    Raises:
        InvalidArgumentsError: It does not; the message says the rule.
    """
    if len(topic) > _TOPIC_LENGTH or not _TOPIC.fullmatch(topic):
        raise InvalidArgumentsError(f"topic: {topic[:80]!r} is not a topic key.", remedy=TOPIC_RULE)
    return topic


def owner_of_topic(topic: str, user: str | None) -> str:
    """`user.*` belongs to the user, the rest to the tenant."""
    return (user or TENANT_OWNED) if topic.startswith("user.") else TENANT_OWNED


def content_id(*parts: Any) -> str:
    """An id made of the content itself: the same parts give the same id, whenever they come."""
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()
