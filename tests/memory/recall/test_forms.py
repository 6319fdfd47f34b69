"""A word of a question finds its other forms, also where their stems differ."""

import pytest

from calling import caller_named
from ledgers import message
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import recall

pytestmark = pytest.mark.usefixtures("either_size")

RICHARD = caller_named("richard")


@pytest.fixture
def richard(by_words: Memory) -> MemoryService:
    return by_words.of(RICHARD)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param("swim", "Swam thirty lengths.", id="the past"),
        pytest.param("bought", "I will buy a lamp.", id="the verb of a past"),
        pytest.param("written", "Carla wrote a book.", id="one past from another"),
        pytest.param("Who has bought it?", "Buying was a mistake.", id="with an ending"),
        pytest.param("the 29th", "Feast: 29 guests.", id="a day by its number"),
    ],
)
async def test_another_form_is_found(richard: MemoryService, asked: str, told: str) -> None:
    await richard.write_episodic(told)
    await richard.write_episodic("Something else was said at lunch.")

    assert await recall(richard, asked) == [told]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param("eat", "We met at noon.", id="the stem of another word"),
        pytest.param("run", "A certificate ran out.", id="a verb of many senses"),
        pytest.param("the 129th", "It cost 29 euros.", id="no day"),
    ],
)
async def test_other_words_are_not(richard: MemoryService, asked: str, told: str) -> None:
    await richard.write_episodic(told)

    assert await recall(richard, asked) == []


async def test_a_record_with_two_forms_counts_once_for_the_question(
    richard: MemoryService,
) -> None:
    await richard.write_episodic("I swim where Otto swam and Karin has swum.")
    await richard.write_episodic("I swim in the quarry with Otto.")

    assert (await recall(richard, "swim quarry"))[0] == "I swim in the quarry with Otto."


async def test_a_word_is_not_taken_for_a_similar_one_if_a_form_of_it_is_stated(
    richard: MemoryService,
) -> None:
    await richard.write_episodic("I will buy a lamp.")
    await richard.write_episodic("Carla brought soup.")

    assert await recall(richard, "bought") == ["I will buy a lamp."]


async def test_nor_if_only_an_earlier_question_has_it(
    by_words: Memory, richard: MemoryService
) -> None:
    asked = message(
        "what have I bought?", role="user", owner="richard", metadata={"unanswered": True}
    )
    await by_words.ledger.records.store([asked])
    await richard.write_episodic("I will buy a lamp.")
    await richard.write_episodic("Carla brought soup.")

    found = await recall(richard, "bought")
    assert "I will buy a lamp." in found
    assert "Carla brought soup." not in found
