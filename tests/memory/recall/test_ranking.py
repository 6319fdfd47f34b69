"""The order of results, and the score components behind it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from calling import caller_named
from local2.ledger.engines.sqlite.database import Database
from local2.memory.intake.conversations import Turn
from local2.memory.recall.ranking import Shares
from local2.memory.recall.recaller import RecallRequest
from local2.memory.recall.results import RecallItem
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import chat_message, remember
from stored import change

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


async def test_a_session_that_covers_more_of_the_question_lifts_its_messages(
    richard: MemoryService,
) -> None:
    await richard.intake.store_conversation([chat_message("Osmium 1.")], "poor")
    filler = [chat_message(f"Nothing at all, {n}.") for n in range(5)]
    await richard.intake.store_conversation(
        [chat_message("Osmium 2."), *filler, chat_message("It is dense, and a metal.")], "rich"
    )

    found = await shares(richard, "dense metal osmium")

    assert found["Osmium 2."].session > found["Osmium 1."].session > 0
    assert list(found).index("Osmium 2.") < list(found).index("Osmium 1.")


async def test_a_speaker_named_in_the_question_is_preferred(richard: MemoryService) -> None:
    await richard.intake.store_conversation([chat_message("Osmium 1.", name="Bob")], "s1")
    await richard.intake.store_conversation([chat_message("Osmium 2.", name="Ann Lee")], "s2")

    found = await shares(richard, "What did Ann say about osmium?")

    assert found["Osmium 2."].speaker > 0
    assert found["Osmium 1."].speaker == 0
    assert next(iter(found)) == "Osmium 2."


async def test_messages_of_people_rank_above_those_of_machines(richard: MemoryService) -> None:
    await richard.intake.store_conversation([chat_message("Osmium 1.", "tool", name="weigh")], "a")
    await richard.intake.store_conversation([chat_message("Osmium 2.", "assistant")], "b")
    await richard.intake.store_conversation([chat_message("Osmium 3.", "user")], "c")

    found = await shares(richard, "osmium")

    assert next(iter(found)) == "Osmium 3."
    assert found["Osmium 3."].density > found["Osmium 1."].density > 0
    assert found["Osmium 2."].density == 0


async def test_what_a_tool_reports_ranks_above_the_request_for_it(richard: MemoryService) -> None:
    report = '{"service": "preview server", "status": "running", "port": 4173}'
    talk = ["Start the preview server, please.", "The preview server is running."]
    said = [chat_message(talk[0]), chat_message(report, "tool"), chat_message(talk[1], "assistant")]
    await richard.intake.store_conversation(said, "s1")

    found = await items(richard, "Which port did the preview server report?")

    assert next(iter(found)) == report


async def test_ratings_lift_and_lower_rated_answers(richard: MemoryService) -> None:
    for number, name in enumerate(("bad", "plain", "good")):
        turn = Turn(query="?", answer=f"Osmium {number}.", at=NOW, session_id=name, query_id=name)
        await richard.intake.store_turn(turn)
    await richard.intake.store_rating("good", 1)
    await richard.intake.store_rating("bad", -1)

    found = await shares(richard, "osmium")

    answers = [text for text in found if text != "?"]
    assert answers == ["Osmium 2.", "Osmium 1.", "Osmium 0."]
    rated = [found[f"Osmium {number}."].feedback for number in range(3)]
    assert rated == [-0.1, 0.0, 0.1]


async def test_a_rating_does_not_lift_an_answer_without_words_of_the_question(
    richard: MemoryService,
) -> None:
    await richard.intake.store_turn(Turn(query="?", answer="Osmium.", at=NOW, query_id="q"))
    await richard.intake.store_rating("q", 1)

    assert await items(richard, "iridium") == {}


async def test_important_facts_rank_first(richard: MemoryService) -> None:
    for number, importance in enumerate((0.0, 1.0, 0.5)):
        await remember(richard, f"Osmium {number}.", importance=importance)

    found = await shares(richard, "osmium")

    assert list(found) == ["Osmium 1.", "Osmium 2.", "Osmium 0."]
    assert found["Osmium 2."].importance == 0
    assert found["Osmium 1."].importance == -found["Osmium 0."].importance > 0


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


async def test_the_newer_of_equal_records_ranks_first(richard: MemoryService) -> None:
    for number, days in enumerate((300, 0, 30)):
        moment = NOW - timedelta(days=days)
        await richard.intake.store_conversation(
            [chat_message(f"Osmium {number}.", timestamp=moment)], f"s{number}"
        )

    assert list(await items(richard, "osmium")) == ["Osmium 1.", "Osmium 2.", "Osmium 0."]


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


async def test_a_topic_key_in_the_question_finds_its_fact(richard: MemoryService) -> None:
    await richard.intake.store_conversation(
        [chat_message("The user opened the editor. The user likes the editor.")], "s1"
    )
    await remember(richard, "Vim", topic="user.editor_preference")

    found = await shares(richard, "What is user.editor_preference?")

    assert next(iter(found)) == "Vim"
    assert found["Vim"].topic > 0


async def test_a_topic_key_of_another_user_finds_nothing(
    memory: Memory, richard: MemoryService
) -> None:
    await remember(richard, "Vim", topic="user.editor_preference")

    eve = memory.of(caller_named("eve"))
    assert await items(eve, "What is user.editor_preference?") == {}


async def test_a_record_related_to_a_hit_is_returned_with_it(
    memory: Memory, richard: MemoryService, database: Database
) -> None:
    ids = [await remember(richard, text) for text in ("Ann collects osmium.", "The lab is cold.")]
    await remember(richard, "Bob sleeps.")
    for source, target in (ids, ids[::-1]):
        assert list(await items(richard, "osmium")) == ["Ann collects osmium."]
        await memory.ledger.facts.relate(source, "supports", target)

        found = await shares(richard, "osmium")

        assert list(found) == ["Ann collects osmium.", "The lab is cold."]
        assert found["The lab is cold."].related > 0
        await change(database, "DELETE FROM relation")


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


async def test_the_time_named_in_a_question_is_preferred_but_not_required(
    richard: MemoryService,
) -> None:
    for number, month in enumerate((3, 5, 7)):
        moment = datetime(2023, month, 15, tzinfo=UTC)
        await richard.intake.store_conversation(
            [chat_message(f"Osmium {number}.", timestamp=moment)], f"s{number}"
        )

    found = await shares(richard, "What did I say about osmium in May 2023?")

    assert next(iter(found)) == "Osmium 1."
    assert [found[f"Osmium {n}."].time > 0 for n in range(3)] == [False, True, False]


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
