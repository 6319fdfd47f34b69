"""A little in a narrow scope or time is found, however much else there is."""

from datetime import UTC, datetime

import pytest

from indexed import indexed
from local.errors import InvalidArgumentsError
from local.memory.recall import candidates, retrieval
from local.memory.service import Memory, MemoryService
from local.protocol.caller import Caller
from recalling import recall, said

OLD, NEW = datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
BETWEEN = datetime(2025, 1, 1, tzinfo=UTC)
GOLD = "Gold is Au."
ASKED = "Which letters stand for that precious stuff?"
MUCH = 80


async def owner_of_much(searchable: Memory, monkeypatch: pytest.MonkeyPatch) -> MemoryService:
    """Who has more records than are compared or looked through, one of them in session s1."""
    monkeypatch.setattr(candidates, "OWN", MUCH - 1)
    monkeypatch.setattr(retrieval, "FURTHER_LOOK", MUCH - 20)
    richard = searchable.of(Caller(user="richard", session_id="s1"))
    other = [f"The letter {n} for that precious stuff was sent." for n in range(MUCH)]
    await richard.ingest([said(text, timestamp=OLD) for text in other], "s2")
    await richard.ingest([said(GOLD, timestamp=NEW)], "s1")
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
    richard = memory.of(Caller(user="richard"))
    often = [f"Osmium {n}." for n in range(800)]
    await richard.ingest([said(text, timestamp=OLD) for text in often], "s1")
    once = "This is what somebody said at length about a metal by the name of osmium."
    await richard.ingest([said(once, timestamp=NEW)], "s2")

    assert await recall(richard, "osmium", since=BETWEEN) == [once]
    assert once not in await recall(richard, "osmium", until=BETWEEN)


async def test_a_time_that_ends_before_it_begins_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidArgumentsError, match="since"):
        await recall(memory.of(Caller(user="richard")), "osmium", since=NEW, until=OLD)
