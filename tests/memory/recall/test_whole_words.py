"""Words are found whole, with any of their endings, and never inside other words."""

import pytest

from calling import caller_named
from indexed import indexed
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import chat_message, recall

pytestmark = pytest.mark.usefixtures("either_size")

RICHARD = caller_named("richard")


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        pytest.param("data", "The database is down.", False, id="a word inside another"),
        pytest.param("data", "All data is gone.", True, id="the word"),
        pytest.param("Ann's", "Sleep well, said Sam.", False, id="a possessive is no word"),
        pytest.param("Ann's metal", "Ann has osmium.", True, id="whose it is"),
        pytest.param("deploy", "It was deployed.", True, id="an ending"),
        pytest.param("databases", "The database is down.", True, id="a plural"),
        pytest.param("port", "An important report.", False, id="in the middle of others"),
    ],
)
async def test_a_word_is_found_only_with_its_endings(
    memory: Memory, query: str, text: str, *, found: bool
) -> None:
    richard = memory.of(RICHARD)
    await richard.intake.store_conversation([chat_message(text)], "s1")
    await richard.write_episodic(text)

    assert bool(await recall(richard, query)) is found
    assert bool((await richard.search_episodic(query)).hits) is found


@pytest.fixture
def strict(by_words: Memory) -> MemoryService:
    return by_words.of(RICHARD)


async def test_a_record_below_min_score_without_a_common_word_is_not_returned(
    searchable: Memory, strict: MemoryService
) -> None:
    question = "What is the data about?"
    near, far = "All of the figures are about sales.", "The database's summer sale starts soon."
    for number, text in enumerate((near, far, "Data on sales.")):
        await strict.intake.store_conversation([chat_message(text)], f"s{number}")
        await strict.write_episodic(text)
    searchable.backlog.wake("index")
    await indexed(searchable)

    for query in (question, "data"):
        assert await recall(strict, query) == ["Data on sales."]
        hits = (await strict.search_episodic(query)).hits
        assert [hit.content for hit in hits] == ["Data on sales."]


async def test_a_neighbour_of_a_match_below_min_score_is_not_returned(
    searchable: Memory, strict: MemoryService
) -> None:
    await strict.intake.store_conversation(
        [chat_message("Who keeps the data?"), chat_message("Sleep well.")], "s1"
    )
    searchable.backlog.wake("index")
    await indexed(searchable)

    found = await strict.recall(RecallRequest(query="data", top_k=5))

    assert not found.degraded
    assert [item.record.content for item in found.items] == ["Who keeps the data?"]
