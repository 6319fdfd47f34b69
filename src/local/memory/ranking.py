"""How hits are scored and ordered: by a cosine, or by the words shared with the question."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from local.memory.keywords import coverage
from local.memory.records import Record
from local.protocol.payloads import Json
from local.protocol.vectors import VectorHit

WORDS_WEIGHT = 0.5
"""Score of a text with every word of the question: weaker evidence than a close meaning."""
RECALLED_DISCOUNT = 0.3
"""A question asked again and again is nearer to itself than to what answers it."""
WEAKEST_SHARE = 0.3
"""A text with a smaller share of the question's words is noise."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was found. `score` runs from 0 to 1; see SearchResult for its meaning."""

    id: str
    content: str
    score: float
    metadata: Json


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first.

    `score` is the cosine similarity of question and episode; for an episode whose vector is not
    there yet, and for all where the index cannot be asked, half the share of the question's words.
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


def by_words(query: str, records: Sequence[Record]) -> list[Hit]:
    """Keyword matches, scored by the share of the question's words that they have."""
    shares = [(record, coverage(query, record.content)) for record in records]
    return [
        _hit(record, share * WORDS_WEIGHT) for record, share in shares if share >= WEAKEST_SHARE
    ]


def ranked(hits: Sequence[Hit], *, feedback_weight: float, top_k: int) -> list[Hit]:
    """The best of the hits, each once; good feedback lifts a hit among similar ones.

    What was itself answered from memory comes after what it was answered from, and only once.
    """

    def worth(hit: Hit) -> float:
        discount = RECALLED_DISCOUNT if _was_recalled(hit) else 0.0
        return hit.score + feedback_weight * float(hit.metadata.get("score", 0.0)) - discount

    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=worth, reverse=True):
        best.setdefault(hit.content if _was_recalled(hit) else hit.id, hit)
    return list(best.values())[:top_k]


def _was_recalled(hit: Hit) -> bool:
    return hit.metadata.get("recalled") is True


def _hit(record: Record, score: float) -> Hit:
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
    return Hit(
        id=record.id, content=record.content, score=round(max(score, 0.0), 4), metadata=metadata
    )
