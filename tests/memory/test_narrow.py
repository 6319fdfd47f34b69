"""A few records in a narrow scope or time are found, however many others there are."""

from datetime import UTC, datetime

import pytest

from calling import caller_named
from indexed import indexed
from local2.ledger.engines.sqlite import fulltext
from local2.ledger.operations import searches
from local2.ledger.records import Fact
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from recalling import chat_message, recall

pytestmark = pytest.mark.usefixtures("either_size")

OLD, NEW = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
BETWEEN = datetime(2025, 1, 1, tzinfo=UTC)
GOLD = "Gold is Au."
QUESTION = "Which letters stand for that precious stuff?"
MUCH = 80
LONG = "This is what somebody said at length about a metal by the name of osmium."
"""By words it ranks below all shorter texts."""


async def owner_of_many_records(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> MemoryService:
    """Return a user with more records than are compared or scanned, one of them in session s1."""
    monkeypatch.setattr(searches, "OWN_RECORDS", MUCH - 1)
    for module in (searches, fulltext):
        monkeypatch.setattr(module, "WIDER_LIMIT", MUCH - 20)
    richard = searchable.of(caller_named("richard", session_id="s1"))
    other = [f"The letter {n} for that precious stuff was sent." for n in range(MUCH)]
    await richard.intake.store_conversation(
        [chat_message(text, timestamp=OLD) for text in other], "s2"
    )
    await richard.intake.store_conversation([chat_message(GOLD, timestamp=NEW)], "s1")
    await indexed(searchable)
    return richard


@pytest.mark.parametrize(
    "narrowed", [{"scope": "session"}, {"since": BETWEEN}], ids=["session", "time"]
)
async def test_a_session_or_a_time_is_searched_by_meaning_among_many_other_records(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch, narrowed: dict[str, object]
) -> None:
    richard = await owner_of_many_records(searchable, monkeypatch)

    assert await recall(richard, QUESTION, **narrowed) == [GOLD]


async def test_a_time_is_searched_by_words_that_are_frequent_at_other_times(
    memory: Memory,
) -> None:
    richard = memory.of(caller_named("richard"))
    often = [f"Osmium {n}." for n in range(800)]
    await richard.intake.store_conversation(
        [chat_message(text, timestamp=OLD) for text in often], "s1"
    )
    await richard.intake.store_conversation([chat_message(LONG, timestamp=NEW)], "s2")

    assert await recall(richard, "osmium", since=BETWEEN) == [LONG]
    assert LONG not in await recall(richard, "osmium", until=BETWEEN)


async def test_past_sessions_are_searched_by_words_that_are_frequent_in_this_one(
    memory: Memory,
) -> None:
    richard = memory.of(caller_named("richard", session_id="now"))
    await richard.intake.store_conversation(
        [chat_message(f"Osmium {n}.") for n in range(MUCH * 4)], "now"
    )
    await richard.intake.store_conversation([chat_message(LONG)], "past")

    assert await recall(richard, "osmium", scope="history") == [LONG]


async def test_retired_versions_do_not_hide_the_active_one(memory: Memory) -> None:
    richard = memory.of(caller_named("richard"))
    await richard.intake.store_conversation(
        [chat_message(f"Ann walks, {n}.") for n in range(MUCH * 4)]
    )
    versions = [f"Osmium {n}." for n in range(MUCH * 2)]
    for version in versions:
        await richard.facts.store(Fact(content=version, scope="user", topic="user.metal"))

    assert await recall(richard, "osmium") == [versions[-1]]
    assert await recall(richard, "osmium", since=OLD) == [versions[-1]]


async def test_another_users_messages_do_not_hide_those_of_the_main_user(
    memory: Memory,
) -> None:
    eve, richard = (
        memory.of(caller_named("eve")),
        memory.of(caller_named("richard")),
    )
    await eve.intake.store_conversation([chat_message(f"Osmium {n}.") for n in range(MUCH * 4)])
    await richard.intake.store_conversation(
        [chat_message(f"Ann walks, {n}.") for n in range(MUCH * 8)], "s1"
    )
    await richard.intake.store_conversation([chat_message(LONG)], "s2")

    assert await recall(richard, "osmium") == [LONG]


async def behind_others(searchable: Memory, *texts: str) -> MemoryService:
    """Return a user with each text in a separate session; no text shares a word with QUESTION.

    Eighty messages of another user are nearer to QUESTION: more than one index search returns.
    """
    eve = searchable.of(caller_named("eve"))
    nearer = "These letters stand for that precious stuff"
    await eve.intake.store_conversation(
        [chat_message(f"{nearer}, number {n}.") for n in range(searches.NEAREST + 30)]
    )
    richard = searchable.of(caller_named("richard"))
    for number, text in enumerate(texts):
        await richard.intake.store_conversation([chat_message(text)], f"s{number}")
    await indexed(searchable)
    return richard


async def test_the_nearest_of_many_records_behind_those_of_others_are_found(
    searchable: Memory,
) -> None:
    far = [f"Our ice hockey team won final number {n}." for n in range(searches.NEAREST + 10)]

    richard = await behind_others(searchable, *far[:30], GOLD, *far[30:])

    assert await recall(richard, QUESTION) == [GOLD]


async def test_a_large_memory_is_searched_even_if_many_records_of_others_are_nearer(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index returns fewer than those, and the user has more records than one read compares."""
    monkeypatch.setattr(searches, "OWN_RECORDS", 5)
    for module in (searches, fulltext):
        monkeypatch.setattr(module, "WIDER_LIMIT", searches.NEAREST + 10)
    far = [f"Our ice hockey team won final number {n}." for n in range(20)]

    richard = await behind_others(searchable, *far[:7], GOLD, *far[7:])

    assert await recall(richard, QUESTION) == [GOLD]


async def test_a_few_records_before_those_of_others_do_not_hide_the_rest(
    searchable: Memory,
) -> None:
    """A few of the user's own records among the nearest do not suffice."""
    metals = {"silver": "Ag", "platinum": "Pt", "osmium": "Os", "copper": "Cu", "iron": "Fe"}
    behind = [f"The symbol of {metal} is {symbol}." for metal, symbol in metals.items()]
    before = [f"{QUESTION} I ask for the {n}th time." for n in range(5)]
    richard = await behind_others(searchable, *before, *behind)
    nearest = (await searchable.vectors.search(QUESTION, searches.NEAREST)).hits

    items = (await richard.recall(RecallRequest(query=QUESTION, top_k=20))).items

    among_nearest = {hit.id for hit in nearest} & {item.record.id for item in items}
    assert {item.record.content for item in items} == {*before, *behind}
    assert {i.record.content for i in items if i.record.id in among_nearest} == set(before)
