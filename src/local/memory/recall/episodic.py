"""Episodes as `search_memory` returns them: of what was recalled, what says something."""

from typing import Any

import msgspec

from local.memory.intake.echoes import UNANSWERED
from local.memory.recall.recaller import RecallItem, RecallResult
from local.protocol.payloads import Json

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


def search_result(recalled: RecallResult) -> SearchResult:
    """The hits that say something, and are near in meaning or have the question's words."""
    hits = [
        _hit(item)
        for item in recalled.items
        if UNANSWERED not in item.record.metadata
        and (
            (item.compared and item.shares.meaning >= recalled.min_score) or item.covered >= STRONG
        )
    ]
    return SearchResult(hits=hits, degraded=recalled.degraded, reason=recalled.reason)


def _hit(item: RecallItem) -> Hit:
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
