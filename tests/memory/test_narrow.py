"""A little in a narrow scope or time is found, however much else there is."""

from datetime import UTC, datetime

import pytest

from indexed import indexed
from local.errors import InvalidArgumentsError
from local.ledger.records import Fact
from local.ledger.sqlite import fulltext, searches
from local.memory.recall.recaller import RecallRequest
from local.memory.service import MemoryService
from local.memory.tenant import Memory
from local.protocol.envelope import Caller
from recalling import chat_message, recall

pytestmark = pytest.mark.usefixtures("either_size")

OLD, NEW = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
BETWEEN = datetime(2025, 1, 1, tzinfo=UTC)
GOLD = "Gold is Au."
ASKED = "Which letters stand for that precious stuff?"
MUCH = 80
LONG = "This is what somebody said at length about a metal by the name of osmium."
"""Found by its words after all shorter texts."""


async def owner_of_much(searchable: Memory, monkeypatch: pytest.MonkeyPatch) -> MemoryService:
    """Who has more records than are compared or looked through, one of them in session s1."""
    monkeypatch.setattr(searches, "OWN_RECORDS", MUCH - 1)
    for module in (searches, fulltext):
        monkeypatch.setattr(module, "WIDER_LIMIT", MUCH - 20)
    richard = searchable.of(Caller(tenant="default", user="richard", session_id="s1"))
    other = [f"The letter {n} for that precious stuff was sent." for n in range(MUCH)]
    await richard.intake.store_conversation(
        [chat_message(text, timestamp=OLD) for text in other], "s2"
    )
    await richard.intake.store_conversation([chat_message(GOLD, timestamp=NEW)], "s1")
    await indexed(searchable)
    return richard


async def test_a_session_is_searched_by_meaning_whatever_else_its_user_has(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    richard = await owner_of_much(searchable, monkeypatch)

    assert await recall(richard, ASKED, scope="session") == [GOLD]


async def test_a_time_is_searched_by_meaning_whatever_its_user_has_of_others(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    richard = await owner_of_much(searchable, monkeypatch)

    assert await recall(richard, ASKED, since=BETWEEN) == [GOLD]


async def test_a_time_is_searched_by_words_however_often_they_were_said_at_others(
    memory: Memory,
) -> None:
    richard = memory.of(Caller(tenant="default", user="richard"))
    often = [f"Osmium {n}." for n in range(800)]
    await richard.intake.store_conversation(
        [chat_message(text, timestamp=OLD) for text in often], "s1"
    )
    await richard.intake.store_conversation([chat_message(LONG, timestamp=NEW)], "s2")

    assert await recall(richard, "osmium", since=BETWEEN) == [LONG]
    assert LONG not in await recall(richard, "osmium", until=BETWEEN)


async def test_past_sessions_are_searched_by_words_whatever_was_said_in_this_one(
    memory: Memory,
) -> None:
    richard = memory.of(Caller(tenant="default", user="richard", session_id="now"))
    await richard.intake.store_conversation(
        [chat_message(f"Osmium {n}.") for n in range(MUCH * 4)], "now"
    )
    await richard.intake.store_conversation([chat_message(LONG)], "past")

    assert await recall(richard, "osmium", scope="history") == [LONG]


async def test_what_was_retired_does_not_hide_what_holds(memory: Memory) -> None:
    richard = memory.of(Caller(tenant="default", user="richard"))
    await richard.intake.store_conversation(
        [chat_message(f"Ann walks, {n}.") for n in range(MUCH * 4)]
    )
    versions = [f"Osmium {n}." for n in range(MUCH * 2)]
    for version in versions:
        await richard.facts.store(Fact(content=version, scope="user", topic="user.metal"))

    assert await recall(richard, "osmium") == [versions[-1]]
    assert await recall(richard, "osmium", since=OLD) == [versions[-1]]


async def test_what_others_said_does_not_hide_what_most_of_the_ledgers_owner_said(
    memory: Memory,
) -> None:
    eve, richard = (
        memory.of(Caller(tenant="default", user="eve")),
        memory.of(Caller(tenant="default", user="richard")),
    )
    await eve.intake.store_conversation([chat_message(f"Osmium {n}.") for n in range(MUCH * 4)])
    await richard.intake.store_conversation(
        [chat_message(f"Ann walks, {n}.") for n in range(MUCH * 8)], "s1"
    )
    await richard.intake.store_conversation([chat_message(LONG)], "s2")

    assert await recall(richard, "osmium") == [LONG]


async def test_a_time_that_ends_before_it_begins_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="since"):
        await recall(
            memory.of(Caller(tenant="default", user="richard")), "osmium", since=NEW, until=OLD
        )


async def behind_others(searchable: Memory, *texts: str) -> MemoryService:
    """Who said each text in a session of its own, and nothing that has a word of ASKED.

    Eighty messages of somebody else are nearer to that: more than the index is asked for at once.
    """
    eve = searchable.of(Caller(tenant="default", user="eve"))
    nearer = "These letters stand for that precious stuff"
    await eve.intake.store_conversation(
        [chat_message(f"{nearer}, number {n}.") for n in range(searches.NEAREST + 30)]
    )
    richard = searchable.of(Caller(tenant="default", user="richard"))
    for number, text in enumerate(texts):
        await richard.intake.store_conversation([chat_message(text)], f"s{number}")
    await indexed(searchable)
    return richard


async def test_of_many_behind_others_the_nearest_are_taken(searchable: Memory) -> None:
    far = [f"Our ice hockey team won final number {n}." for n in range(searches.NEAREST + 10)]

    richard = await behind_others(searchable, *far[:30], GOLD, *far[30:])

    assert await recall(richard, ASKED) == [GOLD]


async def test_a_large_memory_is_found_however_much_of_others_is_nearer(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the index is asked for, and more of one's own than one read compares."""
    monkeypatch.setattr(searches, "OWN_RECORDS", 5)
    for module in (searches, fulltext):
        monkeypatch.setattr(module, "WIDER_LIMIT", searches.NEAREST + 10)
    far = [f"Our ice hockey team won final number {n}." for n in range(20)]

    richard = await behind_others(searchable, *far[:7], GOLD, *far[7:])

    assert await recall(richard, ASKED) == [GOLD]


async def test_some_before_others_do_not_keep_back_those_behind(searchable: Memory) -> None:
    """A few of one's own among the nearest are not enough."""
    metals = {"silver": "Ag", "platinum": "Pt", "osmium": "Os", "copper": "Cu", "iron": "Fe"}
    behind = [f"The symbol of {metal} is {symbol}." for metal, symbol in metals.items()]
    before = [f"{ASKED} I ask for the {n}th time." for n in range(5)]
    richard = await behind_others(searchable, *before, *behind)
    looked = (await searchable.vectors.search(ASKED, searches.NEAREST, tenant="default")).hits

    items = (await richard.recall(RecallRequest(query=ASKED, top_k=20))).items

    among_nearest = {hit.id for hit in looked} & {item.record.id for item in items}
    assert {item.record.content for item in items} == {*before, *behind}
    assert {i.record.content for i in items if i.record.id in among_nearest} == set(before)
