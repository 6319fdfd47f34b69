"""Explain to one caller why a question finds some memories, and not another one.

An explanation follows the real recall (`Trace`); no rule is repeated here. What the ledger ruled
out before ranking is found by asking it again with one condition at a time.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from local2.ledger.ledger import Ledger
from local2.ledger.records import Record
from local2.ledger.search import Search
from local2.memory.recall.ranking import Trace
from local2.memory.recall.recaller import Recaller, RecallRequest, RecallResult
from local2.memory.scopes import may_see, view, visible_places
from local2.protocol.envelope import Caller
from local2.protocol.explaining import (
    EXPLAINED_CHARACTERS,
    Condition,
    Explain,
    Explained,
    ExplainedMemory,
    Outcome,
)
from local2.protocol.memories import Kind
from local2.protocol.memory_tools import Explanation

WHY: Mapping[Outcome, str] = {
    "returned": "It is in the answer.",
    "beyond_top_k": "It matches, but those that rank above it took the places.",
    "below_min_relevance": "It matches, but its score is too far below the best one.",
    "repeated": "A better one says the same in the same words.",
    "overruled": "It matches, but a rule of ranking left it out for others.",
    "unmatched": "Neither its meaning nor a word, a key or a relation matches the question.",
    "not_a_candidate": "In a memory of this size, only the best by words and by meaning are "
    "compared, and it is not among them.",
    "excluded": "The question does not search where it is.",
    "retired": "It does not stand, or did not at that time.",
    "not_visible": "This caller sees no memory with this id.",
}


async def explain(ledger: Ledger, recaller: Recaller, caller: Caller, asked: Explain) -> Explained:
    """Recall, and explain the best matching memories and the one that was asked about.

    It does not count as a recall.

    Raises what `Recaller.recall` raises.
    """
    record = None
    if asked.id is not None:
        known = (await ledger.records.by_id([asked.id])).get(asked.id)
        record = known if known is not None and may_see(known, caller) else None
    trace = Trace(wanted=asked.considered, row=record.row if record else None)
    request = RecallRequest.of(asked.recall)
    recalled = await recaller.recall(caller, request, trace)
    assert trace.search is not None  # noqa: S101 - recall has run
    best = [ranked.row for ranked in trace.ranked[: asked.considered]]
    records = {found.row: found for found in await ledger.records.at(best)}
    about: ExplainedMemory | None = None
    if record is not None:
        fields = _fields_of(record.row, trace, recalled)
        if not fields:
            outcome, conditions = await _why_no_candidate(ledger, caller, record, trace.search)
            fields = {"outcome": outcome, "why": WHY[outcome], "conditions": conditions}
        about = _view(record, caller, **fields)
    elif asked.id is not None:
        why = WHY["not_visible"]
        about = ExplainedMemory(id=asked.id, outcome="not_visible", why=why)
    return Explained(
        memories=[
            _view(records[row], caller, **_fields_of(row, trace, recalled))
            for row in best
            if row in records
        ],
        asked=about,
        candidates=trace.candidates,
        matching=trace.matching,
        min_score=recalled.min_score,
        degraded=recalled.degraded,
        rerank_used=recalled.rerank_used,
        reason=recalled.reason,
    )


async def _why_no_candidate(
    ledger: Ledger, caller: Caller, record: Record, search: Search
) -> tuple[Outcome, tuple[Condition, ...]]:
    """Why a record that the caller may see was not compared with the question."""
    conditions: dict[Condition, tuple[str, ...]] = {
        "scope": ("places",),
        "session": ("only_session", "excluded_session"),
        "since": ("since",),
        "until": ("until",),
        "source": ("source",),
        "current_turn": ("current_query_id",),
    }
    everywhere = visible_places(caller, get_args(Kind))
    without_any = Search(
        text=search.text, places=tuple(everywhere), as_of=search.as_of, owner=search.owner
    )
    searches = ledger.searches
    if not await searches.may_find(without_any, record.row):
        return "retired", ()
    excluding = []
    for condition, names in conditions.items():
        values = {name: getattr(search, name) for name in names}
        with_one = msgspec.structs.replace(without_any, **values)
        if not await searches.may_find(with_one, record.row):
            excluding.append(condition)
    return ("excluded", tuple(excluding)) if excluding else ("not_a_candidate", ())


def _view(record: Record, caller: Caller, **fields: Any) -> ExplainedMemory:
    content = record.content[:EXPLAINED_CHARACTERS]
    return view(record, caller, ExplainedMemory, content=content, **fields)


def _fields_of(row: int, trace: Trace, recalled: RecallResult) -> dict[str, Any]:
    """What became of a record in a recall, for `ExplainedMemory`; empty if it was no candidate."""
    outcome: Outcome
    other: dict[str, Any]
    places = (place for place, item in enumerate(recalled.items, 1) if item.record.row == row)
    place = next(places, None)
    ranks = (rank for rank, ranked in enumerate(trace.ranked, 1) if ranked.row == row)
    if (rank := next(ranks, None)) is not None:
        ranked = trace.ranked[rank - 1]
        score = ranked.score if place is None else recalled.items[place - 1].score
        outcome = trace.left_out.get(row, "beyond_top_k") if place is None else "returned"
        reranked = score if score != ranked.score else None
        other = {"rank": rank, "place": place, "reranked": reranked}
    elif trace.unmatched is not None and trace.unmatched.row == row:
        ranked = trace.unmatched
        outcome = "overruled" if trace.dropped_by else "unmatched"
        other = {"stage": trace.dropped_by}
    elif place is not None:  # a former value, below the fact that replaced it
        return {"outcome": "returned", "why": WHY["returned"], "place": place}
    else:
        return {}
    return {
        "outcome": outcome,
        "why": WHY[outcome],
        "score": ranked.score,
        "explanation": Explanation(shares=msgspec.to_builtins(ranked.shares), weight=ranked.weight),
        "cosine": ranked.cosine,
        "covered": ranked.covered,
        **other,
    }
