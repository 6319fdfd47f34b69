"""Turn recalled episodes and notes into hits, leaving out those that hardly match the question."""

import msgspec

from local2.ledger.records import source_class_of
from local2.memory.intake.echoes import UNANSWERED
from local2.memory.recall.items import RecallItem
from local2.memory.recall.recaller import RecallResult
from local2.protocol.memory_tools import Hit

RECORD_FIELDS = ("session_id", "query_id", "agent", "score")
"""Fields of a record that are added to the metadata of its hit."""
MIN_COVERED = 0.3
"""Minimum fraction of the question's words that makes an episode a hit at any cosine."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first. `degraded`: some could only be found by their words; `reason`: why."""

    hits: list[Hit]
    degraded: bool = False
    reason: str | None = None


def search_result(recalled: RecallResult) -> SearchResult:
    """Return the items with content that are near in meaning or have the question's words."""
    hits = [
        _hit(item)
        for item in recalled.items
        if UNANSWERED not in item.record.metadata
        and (item.covered >= MIN_COVERED or _is_near(item, recalled.min_score))
    ]
    return SearchResult(hits=hits, degraded=recalled.degraded, reason=recalled.reason)


def _is_near(item: RecallItem, min_score: float) -> bool:
    return item.cosine is not None and item.cosine >= min_score


def _hit(item: RecallItem) -> Hit:
    record = item.record
    metadata = {
        **{key: value for key, value in record.metadata.items() if key != "score"},
        "timestamp_utc": record.event_time.isoformat().replace("+00:00", "Z"),
        **{name: value for name in RECORD_FIELDS if (value := getattr(record, name)) is not None},
    }
    return Hit(
        id=record.id,
        content=record.content,
        score=item.score,
        metadata=metadata,
        source_class=source_class_of(record),
        outdated_by=item.outdated_by,
        contradicts=item.contradicts,
    )
