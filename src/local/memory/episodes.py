"""Episodes: one question with its answer, or a note; how they are made, and shown when found."""

from datetime import datetime
from typing import Any

import msgspec

from local.errors import InvalidArgumentsError
from local.memory.recall.keywords import coverage
from local.memory.recall.recaller import Item, Recalled
from local.memory.records import (
    TENANT_OWNED,
    Kind,
    NewRecord,
    checked_text,
    content_id,
    in_utc,
)
from local.protocol.caller import Caller
from local.protocol.payloads import Json

EPISODE: Kind = "episode"
STRONG = 0.3
"""An episode with this share of the question's words stands by itself, near in meaning or not."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was found. `score` runs from 0 to 1."""

    id: str
    content: str
    score: float
    metadata: Json


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first. `degraded`: some could only be found by their words; `reason` says why."""

    hits: list[Hit]
    degraded: bool = False
    reason: str | None = None


def new_episode(content: str, metadata: Json, caller: Caller, now: datetime) -> NewRecord:
    """The record of an episode; the same content and query_id make the same id.

    Args:
        content: The text to be found by its meaning.
        metadata: Kept with it; `session_id`, `query_id` and `timestamp_utc` are taken out of it.
        caller: Whose it is.
        now: When it happened, if `timestamp_utc` does not say so.

    Raises:
        InvalidArgumentsError: The content is blank, or `timestamp_utc` is no time.
    """
    extra = dict(metadata)
    query_id = extra.pop("query_id", None)
    owner = caller.user or TENANT_OWNED
    return NewRecord(
        id=content_id(EPISODE, owner, query_id, checked_text(content, "content")),
        kind=EPISODE,
        owner=owner,
        content=content,
        agent=caller.agent,
        session_id=extra.pop("session_id", None) or caller.session_id,
        query_id=query_id,
        event_time=_moment(extra.pop("timestamp_utc", None)) or now,
        metadata=extra,
    )


def search_result(query: str, recalled: Recalled) -> SearchResult:
    """The hits that are near enough in meaning, or have enough of the question's words."""
    hits = [
        _hit(item)
        for item in recalled.items
        if (item.compared and item.shares.meaning >= recalled.min_score)
        or coverage(query, item.record.content) >= STRONG
    ]
    return SearchResult(hits=hits, degraded=recalled.degraded, reason=recalled.reason)


def _hit(item: Item) -> Hit:
    record = item.record
    about: dict[str, Any] = {
        "session_id": record.session_id,
        "query_id": record.query_id,
        "agent": record.agent,
        "score": record.score,
    }
    metadata = {
        **{key: value for key, value in record.metadata.items() if key != "score"},
        "timestamp_utc": record.event_time.isoformat().replace("+00:00", "Z"),
        **{key: value for key, value in about.items() if value is not None},
    }
    return Hit(id=record.id, content=record.content, score=item.score, metadata=metadata)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return in_utc(datetime.fromisoformat(text), "timestamp_utc")
    except (ValueError, InvalidArgumentsError) as error:
        raise InvalidArgumentsError(f"timestamp_utc: {text!r} is not an ISO 8601 time.") from error
