"""A word of a question finds its other forms, and what was meant if it is mistyped."""

from datetime import UTC, datetime

import pytest

from calling import caller_named
from ledgers import message
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import recall

pytestmark = pytest.mark.usefixtures("either_size")

RICHARD, EVE = caller_named("richard"), caller_named("eve")


@pytest.fixture
def richard(by_words: Memory) -> MemoryService:
    # The words of a record's date find it, too: none of these questions asks for this day.
    by_words.clock = lambda: datetime(2026, 3, 17, tzinfo=UTC)
    return by_words.of(RICHARD)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param("swim", "Swam thirty lengths.", id="the past"),
        pytest.param("bought", "I will buy a lamp.", id="the verb of a past"),
        pytest.param("written", "Carla wrote a book.", id="one past from another"),
        pytest.param("Who has bought it?", "Buying was a mistake.", id="with an ending"),
        pytest.param("the 29th", "Feast: 29 guests.", id="a day by its number"),
        pytest.param("restaurnat", "We booked a restaurant.", id="letters exchanged"),
        pytest.param("adress", "The address is Elm Street 4.", id="one letter instead of two"),
        pytest.param("addresss", "The address is Elm Street 4.", id="a letter too often"),
        pytest.param("aprtment", "My apartment is small.", id="a letter left out"),
        pytest.param("fashipn", "She studies fashion.", id="a key beside it"),
        pytest.param("definately", "He will definitely come.", id="another vowel"),
        pytest.param("uebermorgen", "Wir fahren übermorgen.", id="an umlaut written out"),
        pytest.param("München", "Der Flug nach Muenchen ist gebucht.", id="or not"),
        pytest.param("Strasse", "Die Straße ist gesperrt.", id="a sharp s written out"),
        pytest.param("datacenter", "The data center in Oslo burned.", id="run together"),
        pytest.param("over night", "We drove overnight.", id="written as two words"),
        pytest.param("userName", "The user name is ada.", id="an identifier"),
        pytest.param("address", "Die adress is Elm Street 4.", id="mistyped in the record"),
        pytest.param("the user profile", "It is in loadUserProfile.", id="an identifier's parts"),
        pytest.param("UserProfile", "The profile of a user is empty.", id="parts by an identifier"),
        pytest.param("maxMergeTries", "Set MAX_MERGE_TRIES.", id="an identifier written otherwise"),
        pytest.param("12480.50", "The bill says 12,480.50.", id="an amount"),
        pytest.param("1,000,000", "They want 1.000.000 for it.", id="an amount in German"),
        pytest.param("030 55440917", "Call +49 30 5544 0917.", id="a telephone number"),
        pytest.param("ORD20240815", "The order is ORD-2024-0815.", id="an order"),
        pytest.param("20 TB", "The drive has 20TB.", id="a unit"),
        pytest.param("29.11.2031", "The audit is on November 29, 2031.", id="a date"),
    ],
)
async def test_another_form_or_writing_and_a_mistyped_word_find_what_is_meant(
    richard: MemoryService, asked: str, told: str
) -> None:
    await richard.write_episodic(told)
    await richard.write_episodic("Something else was said at lunch.")

    assert await recall(richard, asked) == [told]


async def test_an_identifier_comes_before_its_words_in_a_sentence(richard: MemoryService) -> None:
    await richard.write_episodic("Otto renamed loadUserProfile.")
    await richard.write_episodic("Otto renamed load_user_profile.")
    await richard.write_episodic("Otto lets a user load a profile.")

    for asked in ("loadUserProfile", "load_user_profile"):
        assert (await recall(richard, asked))[-1] == "Otto lets a user load a profile."


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param("eat", "We met at noon.", id="the stem of another word"),
        pytest.param("run", "A certificate ran out.", id="a verb of many senses"),
        pytest.param("the 129th", "It cost 29 euros.", id="no day"),
        pytest.param("John", "Jon called.", id="too short to tell"),
        pytest.param("driver", "We drive home.", id="another word with the same beginning"),
        pytest.param("rest", "He built a nest.", id="another first letter"),
        pytest.param("osmium", "Iridium is dense.", id="nothing like it"),
        pytest.param("x" * 80 + "yz", "It said " + "x" * 80 + "zy.", id="too long to be one"),
    ],
)
async def test_a_word_is_not_taken_for_any_other(
    richard: MemoryService, asked: str, told: str
) -> None:
    await richard.write_episodic(told)

    assert await recall(richard, asked) == []


async def test_a_record_with_two_forms_counts_once_for_the_question(
    richard: MemoryService,
) -> None:
    await richard.write_episodic("I swim where Otto swam and Karin has swum.")
    await richard.write_episodic("I swim in the quarry with Otto.")

    assert (await recall(richard, "swim quarry"))[0] == "I swim in the quarry with Otto."


@pytest.mark.parametrize(
    ("asked", "told", "similar"),
    [
        pytest.param("form", "Carla bought a form.", "Carla bought a farm.", id="a word"),
        pytest.param(
            "restaurnat",
            "The chat bot is called Restaurnat.",
            "The restaurant is closed.",
            id="that looks mistyped",
        ),
        pytest.param("bought", "I will buy a lamp.", "Carla brought soup.", id="in another form"),
    ],
)
async def test_a_word_that_some_record_has_means_itself(
    richard: MemoryService, asked: str, told: str, similar: str
) -> None:
    await richard.write_episodic(told)
    await richard.write_episodic(similar)

    assert await recall(richard, asked) == [told]


async def test_the_likelier_of_two_words_is_meant(richard: MemoryService) -> None:
    for day in range(3):
        await richard.write_episodic(f"The planning of day {day} is done.")
    await richard.write_episodic("The plating is done.")

    assert sorted(await recall(richard, "planing")) == [
        f"The planning of day {day} is done." for day in range(3)
    ]


async def test_words_of_others_are_not_meant(by_words: Memory, richard: MemoryService) -> None:
    await by_words.of(EVE).write_episodic("The restaurant is closed.")
    await richard.write_episodic("I restarted it.")

    assert await recall(richard, "restaurnat") == []


@pytest.mark.parametrize("kind", ["recalled", "unanswered"])
async def test_a_word_that_was_only_asked_with_before_is_still_unknown(
    by_words: Memory, richard: MemoryService, kind: str
) -> None:
    asked = message(
        "wat restaurnat did I book?", role="user", owner="richard", metadata={kind: True}
    )
    await by_words.ledger.records.store([asked])
    await richard.write_episodic("I booked the restaurant Roka.")

    assert "I booked the restaurant Roka." in await recall(richard, "which restaurnat")


async def test_nor_is_a_word_replaced_if_a_form_of_it_is_stated_and_a_question_has_it(
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
