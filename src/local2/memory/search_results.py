"""What searches return: episodes as hits, and the results of several scopes as text for prompts."""

import msgspec

from local2.language.questions import asking
from local2.ledger.records import Record, source_class_of
from local2.memory.intake.echoes import UNANSWERED
from local2.memory.intake.episodes import split_episode
from local2.memory.recall.recaller import RecallResult
from local2.memory.recall.results import label_of
from local2.memory.scopes import stated_by, view
from local2.protocol.envelope import Caller
from local2.protocol.memories import Scope
from local2.protocol.memory_tools import Hit, LaterStatement
from local2.quoting import fact_line, section, with_later

RECORD_FIELDS = ("session_id", "query_id", "agent", "score")
"""Fields of a record that are added to the metadata of its hit."""
MIN_COVERED = 0.3
"""Minimum fraction of the question's words that makes an episode a hit at any cosine."""
HEADINGS: dict[Scope, str] = {
    "session": "memories-of-this-session",
    "history": "memories-of-earlier-sessions",
    "user": "memories-of-the-user",
    "agent": "memories-of-the-agent",
    "tenant": "memories-for-everybody",
    "any": "memories",
}


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first. `degraded`: some could only be found by their words; `reason`: why."""

    hits: list[Hit]
    degraded: bool = False
    reason: str | None = None


def search_result(recalled: RecallResult, caller: Caller) -> SearchResult:
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
                later=tuple(_beside(later, caller) for later in item.later),
            )
        )
    return SearchResult(hits=hits, degraded=recalled.degraded, reason=recalled.reason)


def _beside(record: Record, caller: Caller) -> LaterStatement:
    """What stands beside a hit: of a turn, it is what the user said, unless the user only asked."""
    later = view(record, caller, LaterStatement)
    if later.source_class == "answered" and asking(split_episode(record.content)[0]) < 1:
        return msgspec.structs.replace(later, source_class="stated")
    return later


class ScopedResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search in several scopes."""

    query: str
    caller: Caller
    scopes: dict[Scope, RecallResult]

    def text(self) -> str:
        """A section for each scope with results; empty if nothing was found.

        Each memory is quoted with its source and what was said later, and never takes more than one
        line.
        """
        sections = []
        for scope, result in self.scopes.items():
            lines = [
                with_later(
                    fact_line(
                        item.record.content,
                        label_of(item.record),
                        stated_by(item.record, self.caller),
                        source_class_of(item.record),
                        question=self.query,
                    )
                    + (" (outdated)" if item.outdated_by else ""),
                    [view(later, self.caller, LaterStatement) for later in item.later],
                )
                for item in result.items
            ]
            if lines:
                sections.append(section(HEADINGS[scope], lines))
        return "\n".join(sections)
