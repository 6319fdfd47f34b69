"""Notes and episodes: found by meaning, stored once, rated, and only for their owner."""

from datetime import UTC, datetime

import pytest

from calling import UNNAMED
from indexed import indexed
from local2.errors import InvalidArgumentsError
from local2.language.words import terms
from local2.memory.search_results import SearchResult
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.payloads import MemoryChange

pytestmark = pytest.mark.usefixtures("searchable")

GOLD = "Q: What is the chemical symbol of gold?\nA: The chemical symbol of gold is Au."
CAPITAL = "Q: What is the capital of Australia?\nA: The capital of Australia is Canberra."
TIDES = "Q: Why are there tides?\nA: The moon pulls at the oceans."


def contents(result: SearchResult) -> list[str]:
    return [hit.content for hit in result.hits]


async def test_an_episode_is_found_by_its_meaning(
    searchable: Memory, richard: MemoryService
) -> None:
    for text in (GOLD, CAPITAL, TIDES):
        await richard.write_episodic(text)
    await indexed(searchable)

    result = await richard.search_episodic("Australian geography")

    assert contents(result)[0] == CAPITAL
    assert (result.degraded, result.reason) == (False, None)
    assert 0.2 <= result.hits[0].score <= 1.0


async def test_hits_are_best_first_and_at_most_as_many_as_requested(
    searchable: Memory, richard: MemoryService
) -> None:
    for n in range(12):
        await richard.write_episodic(f"The capital of country number {n} is city number {n}.")
    await indexed(searchable)

    default = await richard.search_episodic("capital city of a country")
    three = await richard.search_episodic("capital city of a country", top_k=3)

    scores = [hit.score for hit in default.hits]
    assert len(scores) == searchable.settings.top_k
    assert scores == sorted(scores, reverse=True)
    assert three.hits == default.hits[:3]


async def test_the_same_content_and_query_id_is_the_same_episode(
    searchable: Memory, richard: MemoryService, announced: list[tuple[str, MemoryChange]]
) -> None:
    first = await richard.intake.store_episode(GOLD, {"query_id": "q1"})
    again = await richard.intake.store_episode(GOLD, {"query_id": "q1", "tool_calls": 9})

    assert (first.was_new, again.was_new) == (True, False)
    assert first.id == again.id
    assert (await searchable.ledger.counts()).records == 1
    assert announced == [("memory.saved", MemoryChange(id=first.id, kind="note"))]


async def test_the_same_content_with_another_query_id_is_another_episode(
    searchable: Memory, richard: MemoryService
) -> None:
    ids = {
        await richard.write_episodic(GOLD, {"query_id": "q1"}),
        await richard.write_episodic(GOLD, {"query_id": "q2"}),
        await richard.write_episodic(GOLD),
    }

    assert len(ids) == 3
    assert (await searchable.ledger.counts()).records == 3


async def test_a_hit_carries_the_metadata_of_its_episode(
    searchable: Memory, richard: MemoryService
) -> None:
    await richard.write_episodic(
        GOLD,
        {
            "session_id": "s7",
            "query_id": "q7",
            "timestamp_utc": "2026-11-20T23:30:00-02:00",
            "tool_calls": 2,
        },
    )
    await richard.intake.store_rating("q7", 0.5)
    await indexed(searchable)

    (hit,) = (await richard.search_episodic("chemical symbol of gold")).hits

    assert hit.metadata == {
        "session_id": "s7",
        "query_id": "q7",
        "timestamp_utc": "2026-11-21T01:30:00Z",
        "tool_calls": 2,
        "agent": "shell",
        "score": 0.5,
    }


async def test_without_metadata_time_and_session_are_those_of_the_call(
    searchable: Memory, richard: MemoryService
) -> None:
    searchable.clock = lambda: datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    richard_now = searchable.of(richard.caller)
    await richard_now.write_episodic(GOLD)
    await indexed(searchable)

    (hit,) = (await richard.search_episodic("chemical symbol of gold")).hits

    assert hit.metadata == {
        "session_id": "s1",
        "timestamp_utc": "2026-11-20T12:00:00Z",
        "agent": "shell",
    }


@pytest.mark.parametrize(
    "timestamp",
    [
        pytest.param("yesterday", id="no time"),
        pytest.param("0001-01-01T00:00:00+23:59", id="before the calendar begins"),
    ],
)
async def test_an_invalid_time_is_refused(richard: MemoryService, timestamp: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="timestamp_utc"):
        await richard.write_episodic(GOLD, {"timestamp_utc": timestamp})


async def test_good_feedback_lifts_an_episode_among_similar_ones(
    searchable: Memory, richard: MemoryService
) -> None:
    for number, query_id in enumerate(("bad", "unrated", "good")):
        await richard.write_episodic(f"{GOLD} ({number})", {"query_id": query_id})
    await richard.intake.store_rating("good", 1)
    await richard.intake.store_rating("bad", -1)
    await indexed(searchable)

    hits = (await richard.search_episodic("chemical symbol of gold")).hits

    assert [hit.metadata["query_id"] for hit in hits] == ["good", "unrated", "bad"]
    good, unrated, bad = (hit.score for hit in hits)
    assert 1 >= good > unrated > bad > 0, "the feedback is in the score"


async def test_an_episode_repeated_in_every_session_takes_one_place(
    searchable: Memory, richard: MemoryService
) -> None:
    for number in range(9):
        await richard.write_episodic(GOLD, {"query_id": f"q{number}"})
    other = await richard.write_episodic("The chemical symbol of silver is Ag.")
    await indexed(searchable)

    hits = (await richard.search_episodic("chemical symbol of gold")).hits

    assert [hit.content for hit in hits][:1] == [GOLD]
    assert [hit.id for hit in hits][1:] == [other]


async def test_users_do_not_find_each_others_episodes(
    searchable: Memory, richard: MemoryService, eve: MemoryService
) -> None:
    await richard.write_episodic(GOLD)
    await indexed(searchable)

    assert contents(await eve.search_episodic("chemical symbol of gold")) == []
    assert contents(await searchable.of(UNNAMED).search_episodic("symbol of gold")) == []
    assert contents(await richard.search_episodic("chemical symbol of gold")) == [GOLD]


async def test_a_min_score_applies_to_episodes_found_by_meaning_alone(
    searchable: Memory, richard: MemoryService
) -> None:
    searchable.recaller.min_score = 0.999
    await richard.write_episodic("The chemical symbol of gold is Au.")
    await indexed(searchable)

    meant = await richard.search_episodic("Which letters stand for that precious metal?")
    worded = await richard.search_episodic("chemical symbol of gold")

    assert contents(meant) == []
    assert contents(worded) == ["The chemical symbol of gold is Au."]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        pytest.param("Does gold tarnish near salt?", [], id="a quarter"),
        pytest.param(
            "Does gold have a chemical half life?", ["Gold is a chemical element."], id="half"
        ),
    ],
)
async def test_an_episode_with_a_distant_meaning_needs_enough_common_words(
    searchable: Memory, richard: MemoryService, question: str, found: list[str]
) -> None:
    searchable.recaller.min_score = 0.999
    await richard.write_episodic("Gold is a chemical element.")
    await indexed(searchable)

    assert len(terms(question)) == 4
    assert contents(await richard.search_episodic(question)) == found


async def test_topics_are_not_episodes(searchable: Memory, richard: MemoryService) -> None:
    await richard.write_topic("user.favourite_metal", "gold, chemical symbol Au")
    await indexed(searchable)

    assert contents(await richard.search_episodic("chemical symbol of gold")) == []
