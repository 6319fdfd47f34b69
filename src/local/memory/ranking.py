"""How hits are scored and ordered: a cosine, or the share of the best keyword match."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from local.memory.records import Record, TextMatch
from local.protocol.payloads import Json
from local.protocol.vectors import VectorHit

WORDS_WEIGHT = 0.5
"""Score of the best keyword match: words alone are weaker evidence than a close meaning."""
WEAKEST_SHARE = 0.3
"""Keyword matches below this share of the best one are noise."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was found. `score` runs from 0 to 1; see SearchResult for its meaning."""

    id: str
    content: str
    score: float
    metadata: Json


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first.

    `score` is the cosine similarity of question and episode; for an episode whose vector is not
    there yet, and for all while `degraded`, it is half the share of the best keyword match.
    """

    hits: list[Hit]
    degraded: bool = False
    reason: str | None = None


def by_meaning(
    found: Sequence[VectorHit], records: Mapping[str, Record], *, min_score: float
) -> list[Hit]:
    """Hits of the index that the ledger confirms and whose cosine is high enough."""
    return [
        _hit(records[hit.id], hit.cosine)
        for hit in found
        if hit.id in records and hit.cosine >= min_score
    ]


def by_words(matches: Sequence[TextMatch]) -> list[Hit]:
    """Keyword matches, scored by their share of the best one."""
    if not matches:
        return []
    best = max(match.strength for match in matches)
    shares = [(match.record, match.strength / best if best > 0 else 1.0) for match in matches]
    return [
        _hit(record, share * WORDS_WEIGHT) for record, share in shares if share >= WEAKEST_SHARE
    ]


def ranked(hits: Sequence[Hit], *, feedback_weight: float, top_k: int) -> list[Hit]:
    """The best of the hits, each once; good feedback lifts a hit among similar ones."""
    best: dict[str, Hit] = {}
    for hit in hits:
        if hit.id not in best or best[hit.id].score < hit.score:
            best[hit.id] = hit

    def worth(hit: Hit) -> float:
        return hit.score + feedback_weight * float(hit.metadata.get("score", 0.0))

    return sorted(best.values(), key=worth, reverse=True)[:top_k]


def _hit(record: Record, score: float) -> Hit:
    about: dict[str, Any] = {
        "session_id": record.session_id,
        "query_id": record.query_id,
        "agent": record.agent,
        "score": record.score,
    }
    metadata = {
        **record.metadata,
        "timestamp_utc": record.event_time.isoformat().replace("+00:00", "Z"),
        **{key: value for key, value in about.items() if value is not None},
    }
    return Hit(
        id=record.id, content=record.content, score=round(max(score, 0.0), 4), metadata=metadata
    )
