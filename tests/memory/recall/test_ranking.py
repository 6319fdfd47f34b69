"""The order of results, and the score components behind it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from calling import caller_named
from local2.memory.intake.conversations import Turn
from local2.memory.recall.ranking import Shares
from local2.memory.recall.recaller import RecallRequest
from local2.memory.recall.results import RecallItem
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import chat_message, remember

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def clock(memory: Memory) -> None:
    memory.clock = lambda: NOW


async def items(service: MemoryService, query: str, **ask: Any) -> dict[str, RecallItem]:
    """Return the items found, by content, best first."""
    ask = {"query": query, "top_k": 20, "repetitions": True, **ask}
    return {
        item.record.content: item for item in (await service.recall(RecallRequest(**ask))).items
    }


async def shares(service: MemoryService, query: str, **ask: Any) -> dict[str, Shares]:
    return {text: item.shares for text, item in (await items(service, query, **ask)).items()}


async def test_a_message_ranks_higher_the_more_of_the_question_it_contains(
    richard: MemoryService,
) -> None:
    texts = ["Osmium.", "Osmium is a metal.", "Osmium is a very dense metal."]
    for number, text in enumerate(texts):
        await richard.intake.store_conversation([chat_message(text)], f"s{number}")

    found = await items(richard, "dense metal osmium")

    assert list(found) == texts[::-1]
    scores = [item.score for item in found.values()]
    assert scores == sorted(set(scores), reverse=True)


async def test_a_short_message_is_found_by_the_words_of_the_one_before_it(
    richard: MemoryService,
) -> None:
    await richard.intake.store_conversation(
        [chat_message("Which metal does Ann collect?"), chat_message("Only iridium.")], "s1"
    )
    await richard.intake.store_conversation([chat_message("Only tungsten.")], "s2")

    found = await shares(richard, "Which metal does Ann collect?")

    assert list(found) == ["Which metal does Ann collect?", "Only iridium."]
    assert found["Only iridium."].around > 0
    assert found["Only iridium."].coverage > 0
    assert found["Only iridium."].words == 0


async def test_what_is_from_the_time_that_a_question_names_has_the_words_that_name_it(
    richard: MemoryService,
) -> None:
    on_that_day = "Nobody fell into the harbour."
    said = {
        on_that_day: NOW - timedelta(days=1),
        "Bought a lamp.": NOW - timedelta(days=2),
        "The dentist is on Thursday.": NOW - timedelta(days=40),
        "The last train leaves at ten.": NOW - timedelta(days=60),
    }
    for number, (text, at) in enumerate(said.items()):
        await richard.intake.store_conversation([chat_message(text, timestamp=at)], f"s{number}")

    first, *others = await items(richard, "What did I do last Thursday?")

    assert first == on_that_day
    assert set(others) == {"The dentist is on Thursday.", "The last train leaves at ten."}
    assert list(await items(richard, "What is on Thursday?")) == ["The dentist is on Thursday."]


async def test_a_long_message_gains_little_from_its_neighbours(richard: MemoryService) -> None:
    long = "Only iridium. " + "Here is more of it. " * 300
    await richard.intake.store_conversation(
        [chat_message("Which metal does Ann collect?"), chat_message("Only iridium.")], "s1"
    )
    await richard.intake.store_conversation(
        [chat_message("Which metal does Ann collect?"), chat_message(long)], "s2"
    )

    found = await shares(richard, "Which metal does Ann collect?")

    assert found["Only iridium."].around > 5 * found[long].around > 0
    assert found["Only iridium."].coverage > 5 * found[long].coverage


async def test_words_that_stand_together_far_into_a_long_message_count(
    richard: MemoryService,
) -> None:
    filler = "The rain has not let up since Sunday. " * 30
    together = f"{filler}The surveyor weighed the osmium. {filler}"
    apart = f"The surveyor came. {filler}{filler}Osmium is dense. {filler}The scales weighed it."
    for number, text in enumerate((apart, together)):
        await richard.intake.store_conversation([chat_message(text)], f"s{number}")

    found = await shares(richard, "Has a surveyor weighed osmium?")

    assert list(found) == [together, apart]
    assert found[together].coverage > 1.5 * found[apart].coverage > 0


async def test_a_message_gains_nothing_from_those_of_another_session(
    richard: MemoryService,
) -> None:
    await richard.intake.store_conversation([chat_message("Which metal does Ann collect?")], "s1")
    await richard.intake.store_conversation([chat_message("Only iridium.")], "s2")
    await richard.intake.store_conversation([chat_message("Has anybody seen Bob?")], "s1")

    found = await shares(richard, "Which metal does Ann collect?")

    assert list(found) == ["Which metal does Ann collect?", "Has anybody seen Bob?"]


async def test_what_a_tool_reports_ranks_above_the_request_for_it(richard: MemoryService) -> None:
    report = '{"service": "preview server", "status": "running", "port": 4173}'
    talk = ["Start the preview server, please.", "The preview server is running."]
    said = [chat_message(talk[0]), chat_message(report, "tool"), chat_message(talk[1], "assistant")]
    await richard.intake.store_conversation(said, "s1")

    found = await items(richard, "Which port did the preview server report?")

    assert next(iter(found)) == report


async def test_a_rating_does_not_lift_an_answer_without_words_of_the_question(
    richard: MemoryService,
) -> None:
    await richard.intake.store_turn(Turn(query="?", answer="Osmium.", at=NOW, query_id="q"))
    await richard.intake.store_rating("q", 1)

    assert await items(richard, "iridium") == {}


@pytest.mark.parametrize(
    ("days", "standard", "ephemeral"),
    [
        pytest.param(0, 0, 0, id="new"),
        pytest.param(14, -0.0013, -0.15, id="two weeks"),
        pytest.param(365, -0.025, -0.3, id="a year"),
    ],
)
async def test_core_facts_keep_their_score_and_ephemeral_ones_fade(
    memory: Memory, richard: MemoryService, days: int, standard: float, ephemeral: float
) -> None:
    for number, durability in enumerate(("ephemeral", "standard", "core")):
        await remember(richard, f"Osmium {number}.", durability=durability)
    memory.clock = lambda: NOW + timedelta(days=days)

    found = await shares(richard, "osmium")

    core = found["Osmium 2."].age
    assert core >= 0
    lost = [found[f"Osmium {number}."].age - core for number in (1, 0)]
    assert lost == pytest.approx([standard, ephemeral], abs=1.1e-4)
    if days:
        assert list(found) == ["Osmium 2.", "Osmium 1.", "Osmium 0."]


async def test_a_record_dated_in_the_future_counts_as_new(
    richard: MemoryService,
) -> None:
    for number, days in enumerate((0, 4_000)):
        moment = NOW + timedelta(days=days)
        await richard.intake.store_conversation(
            [chat_message(f"Osmium {number}.", timestamp=moment)], f"s{number}"
        )

    found = await shares(richard, "osmium")

    assert found["Osmium 0."].age == found["Osmium 1."].age > 0


async def test_a_topic_key_of_another_user_finds_nothing(
    memory: Memory, richard: MemoryService
) -> None:
    await remember(richard, "Vim", topic="user.editor_preference")

    eve = memory.of(caller_named("eve"))
    assert await items(eve, "What is user.editor_preference?") == {}


async def test_relations_do_not_lead_to_records_that_the_caller_may_not_see(
    memory: Memory, richard: MemoryService
) -> None:
    eve = memory.of(caller_named("eve"))
    source = await remember(richard, "Ann collects osmium.")
    replaced = await remember(richard, "The lab is cold.", topic="user.lab")
    await remember(richard, "The lab is warm.", topic="user.lab")
    for target in (await remember(eve, "The safe is open."), replaced):
        await memory.ledger.facts.relate(source, "supports", target)

    assert list(await items(richard, "osmium")) == ["Ann collects osmium."]


async def test_after_the_top_places_sessions_without_a_place_are_preferred(
    richard: MemoryService,
) -> None:
    long = "Here is more of it. " * 300
    talk = [chat_message(f"Osmium {n}. {long}", timestamp=NOW) for n in range(30)]
    await richard.intake.store_conversation(talk, "talkative")
    older = chat_message(f"Osmium 99. {long}", timestamp=NOW - timedelta(days=400))
    await richard.intake.store_conversation([older], "quiet")

    found = [item.record.session_id for item in (await items(richard, "osmium")).values()]

    assert len(found) == 20
    assert [place for place, session in enumerate(found) if session == "quiet"] == [10]
