"""An explanation says what became of any memory in a recall, and the recall stays the same."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from calling import caller_named
from indexed import indexed
from local2.ledger.operations.extraction import ExtractedFact
from local2.ledger.records import EXTRACTED_FROM, NewRecord
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.browsing import Browse
from local2.protocol.envelope import utc_now
from local2.protocol.explaining import Explain, Explained, ExplainedMemory
from local2.protocol.memory_tools import Recall
from recalling import chat_message, remember

QUESTION = "Where was the osmium sent?"


async def explain(
    service: MemoryService, id_: str | None = None, query: str = QUESTION, **asked: Any
) -> Explained:
    return await service.explain(Explain(recall=Recall(query=query, **asked), id=id_))


async def asked_about(service: MemoryService, id_: str, **asked: Any) -> ExplainedMemory:
    explained = await explain(service, id_, **asked)
    assert explained.asked is not None
    return explained.asked


async def send(service: MemoryService, *contents: str, session: str = "s1") -> list[str]:
    messages = [chat_message(content) for content in contents]
    return (await service.intake.store_conversation(messages, session)).ids


@pytest.mark.usefixtures("either_size")
async def test_the_answer_of_a_recall_is_explained_by_the_places_and_scores_it_has(
    searchable: Memory, richard: MemoryService
) -> None:
    await send(richard, "The osmium was sent to Rome.", "Osmium is heavy.", "Tea is green.")
    await remember(richard, "The osmium was sent by ship.")
    await indexed(searchable)

    recalled = await richard.recall(RecallRequest.of(Recall(query=QUESTION, top_k=3)))
    explained = await explain(richard, top_k=3)

    returned = [memory for memory in explained.memories if memory.outcome == "returned"]
    assert [(memory.id, memory.place, memory.score) for memory in returned] == [
        (item.record.id, place, item.score) for place, item in enumerate(recalled.items, start=1)
    ]
    for memory, item in zip(returned, recalled.items, strict=True):
        assert memory.explanation is not None
        assert memory.explanation.shares == msgspec.to_builtins(item.shares)
        assert memory.explanation.weight == item.weight
    ranks = [memory.rank for memory in explained.memories]
    assert ranks == list(range(1, explained.matching + 1))
    assert explained.candidates >= explained.matching


@pytest.mark.usefixtures("either_size")
async def test_any_memory_is_explained_by_what_became_of_it(
    searchable: Memory, richard: MemoryService
) -> None:
    best, heavy = await send(richard, "The osmium was sent to Rome.", "Osmium is heavy.")
    (elsewhere,) = await send(richard, "Was the osmium sent?", session="s2")
    same = await remember(richard, "the osmium was sent to ROME")
    retired = await remember(richard, "The osmium was never sent.")
    hidden = await remember(richard, "The osmium was sent in secret.")
    eve = searchable.of(caller_named("eve"))
    others = await remember(eve, "The osmium was sent to Eve.")
    await richard.facts.retire([retired], "wrong")
    await richard.facts.hide([hidden], "secret")
    await indexed(searchable)

    first = await asked_about(richard, best)
    assert (first.outcome, first.rank, first.place) in {("returned", 1, 1), ("repeated", 2, None)}
    twice = {first.outcome, (await asked_about(richard, same)).outcome}
    assert twice == {"returned", "repeated"}

    beyond = await asked_about(richard, heavy, top_k=1)
    assert (beyond.outcome, beyond.place) == ("beyond_top_k", None)
    assert beyond.rank is not None
    assert beyond.rank > 1
    assert beyond.explanation is not None
    assert (await asked_about(richard, heavy, min_relevance=1.0)).outcome == "below_min_relevance"

    in_session = await asked_about(richard, elsewhere, scope="session")
    assert (in_session.outcome, in_session.conditions) == ("excluded", ("session",))
    facts_only = await asked_about(richard, elsewhere, source_kinds=["fact"])
    assert (facts_only.outcome, facts_only.conditions) == ("excluded", ("scope",))
    early = (utc_now() - timedelta(days=2)).isoformat()
    before = await asked_about(richard, elsewhere, as_of=early, scope="session")
    assert (before.outcome, set(before.conditions)) == ("excluded", {"session", "until"})

    gone = await asked_about(richard, retired)
    assert (gone.outcome, gone.retired_why) == ("retired", "withdrawn")
    secret = await asked_about(richard, hidden)
    assert (secret.outcome, secret.retired_why) == ("retired", "hidden")
    unseen, unknown = [await asked_about(richard, id_) for id_ in (others, "no-such-id")]
    assert msgspec.structs.replace(unseen, id="") == msgspec.structs.replace(unknown, id="")
    assert (unseen.outcome, unseen.content) == ("not_visible", "")


async def test_a_memory_that_no_channel_finds_does_not_match(
    searchable: Memory, richard: MemoryService
) -> None:
    (message,) = await send(richard, "Tea is green.")
    await indexed(searchable)

    explained = await asked_about(richard, message)

    assert (explained.outcome, explained.rank, explained.stage) == ("unmatched", None, None)
    assert explained.cosine is not None
    assert explained.explanation is not None


async def test_a_large_memory_compares_only_the_best_candidates(
    searchable: Memory, richard: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.ledger.operations.working_sets.MAX_RECORDS", -1)
    monkeypatch.setattr("local2.ledger.operations.searches.NEAREST", 1)
    monkeypatch.setattr("local2.ledger.operations.searches.MIN_VISIBLE", 1)
    await remember(richard, "The osmium was sent to Rome.")
    tea = await remember(richard, "Tea is green.")
    await indexed(searchable)

    assert (await asked_about(richard, tea)).outcome == "not_a_candidate"


async def test_a_rule_that_leaves_a_memory_out_is_named(
    searchable: Memory, richard: MemoryService
) -> None:
    (message,) = await send(richard, "The osmium was sent to Rome.")
    fact = NewRecord(
        id="extracted",
        kind="fact",
        content="The osmium was sent to Rome by ship.",
        owner="richard",
        scope="user",
        event_time=utc_now(),
        metadata={EXTRACTED_FROM: [message]},
    )
    await searchable.ledger.extraction.store(
        [ExtractedFact(record=fact, sources=[message])], [], sources=[message], owners=["richard"]
    )
    await indexed(searchable)

    explained = await asked_about(richard, "extracted")

    assert (explained.outcome, explained.stage) == ("overruled", "lower_echoes")


async def test_an_explanation_does_not_count_as_a_recall(
    searchable: Memory, richard: MemoryService
) -> None:
    await send(richard, "The osmium was sent to Rome.")
    await indexed(searchable)

    await explain(richard)
    await searchable.accesses.write()

    (memory,) = (await richard.browsing.page(Browse())).memories
    assert memory.recalls == 0
