"""Turn recalled episodes and notes into hits, leaving out those that hardly match the question."""

import msgspec

from local2.ledger.records import source_class_of
from local2.memory.intake.echoes import UNANSWERED
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
    """The items with content that are near in meaning or have the question's words."""
    hits = []
    for item in recalled.items:
        record = item.record
        is_near = item.cosine is not None and item.cosine >= recalled.min_score
        if UNANSWERED in record.metadata or not (is_near or item.covered >= MIN_COVERED):
            continue
        columns = {name: getattr(record, name) for name in RECORD_FIELDS}
        metadata = {
            **{key: value for key, value in record.metadata.items() if key != "score"},
            "timestamp_utc": record.event_time.isoformat().replace("+00:00", "Z"),
            **{name: value for name, value in columns.items() if value is not None},
        }
        hits.append(
            Hit(
                id=record.id,
                content=record.content,
                score=item.score,
                metadata=metadata,
                source_class=source_class_of(record),
                outdated_by=item.outdated_by,
                contradicts=item.contradicts,
            )
        )
    return SearchResult(hits=hits, degraded=recalled.degraded, reason=recalled.reason)
