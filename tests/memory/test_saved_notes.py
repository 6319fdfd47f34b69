"""A note stored by `save_memory` is recalled as an agent's note of the user."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from calling import RICHARD
from indexed import indexed
from local2.memory.intake.conversations import Turn
from local2.memory.intake.episodes import new_episode
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.maintenance import ExportRequest
from local2.protocol.memory_tools import Recall, RecalledItem, RecalledItems
from local2.protocol.portable import RecordLine, stored_line
from local2.tools.recall import recall as recall_tool
from recalling import DAY, chat_message, recall

POSTGRES = "We chose Postgres for the orders."
MEANT = "Which database stores purchases?"


async def save(service: MemoryService, text: str = POSTGRES) -> str:
    return await service.write_episodic(text)


async def found(service: MemoryService, query: str = "Postgres", **args: object) -> list[str]:
    """Return what recall and search_memory find by words, in this order."""
    hits = (await service.search_episodic(query, 20)).hits
    return [*await recall(service, query, **args), *(hit.content for hit in hits)]


async def item_of(service: MemoryService, query: str) -> tuple[RecalledItem, str]:
    """Return the one item of the tool's answer, and the answer's text."""
    output = await recall_tool(service, Recall(query=query, explain=True))
    assert isinstance(output.data, RecalledItems)
    (item,) = output.data.items
    return item, output.content


@pytest.mark.parametrize(("query", "by_words"), [("Postgres orders", True), (MEANT, False)])
async def test_a_note_is_recalled_by_words_and_by_meaning_and_marked_as_a_note(
    searchable: Memory, query: str, by_words: bool
) -> None:
    richard = searchable.of(RICHARD)
    id_ = await save(richard)
    await indexed(searchable)

    item, text = await item_of(richard, query)

    assert item.explanation is not None
    shares = item.explanation.shares
    assert (shares.get("words", 0) > 0, shares["meaning"] > 0) == (by_words, True)
    assert item.explanation.weight == 1.1
    assert (item.id, item.content, item.source_kind) == (id_, POSTGRES, "note")
    assert (item.source_class, item.by, item.agent) == ("asserted", "self", "shell")
    assert (item.scope, item.session_id) == ("user", "s1")
    assert f"noted by an agent, {item.event_time:%Y-%m-%d}\n   {POSTGRES}" in text


async def test_a_note_is_found_in_every_session_if_the_users_notes_are_requested(
    memory: Memory, richard: MemoryService
) -> None:
    await save(richard)
    in_other_session = memory.of(msgspec.structs.replace(RICHARD, session_id="s2", agent="desk"))

    for included in ({}, {"scope": "user"}, {"kinds": ("note",)}):
        assert await recall(in_other_session, "Postgres", **included) == [POSTGRES]
    for excluded in (
        {"scope": "session"},
        {"scope": "tenant"},
        {"kinds": ("fact", "chat_message")},
    ):
        assert await recall(richard, "Postgres", **excluded) == []


async def test_a_turn_and_a_note_are_each_recalled_once_and_found_by_search(
    richard: MemoryService,
) -> None:
    turn = Turn(query="What did we choose?", answer="It was Postgres, of course.", at=DAY)
    await richard.intake.store_turn(turn)
    await save(richard)

    recalled = await recall(richard, "chose Postgres")
    searched = [hit.content for hit in (await richard.search_episodic("chose Postgres")).hits]

    assert sorted(recalled) == sorted([turn.query, str(turn.answer), POSTGRES])
    assert sorted(searched) == sorted([f"Q: {turn.query}\nA: {turn.answer}", POSTGRES])


async def test_a_note_with_the_words_of_a_message_is_recalled_once(richard: MemoryService) -> None:
    await richard.intake.store_conversation([chat_message(POSTGRES)])
    await save(richard)

    assert await recall(richard, "Postgres") == [POSTGRES]


async def test_a_note_stored_earlier_as_an_episode_is_recognised_and_found(
    memory: Memory, richard: MemoryService
) -> None:
    older = new_episode(POSTGRES, {}, RICHARD, DAY)
    await memory.ledger.turns.store([older])

    again = await richard.intake.store_episode(POSTGRES)

    assert (again.id, again.was_new) == (older.id, False)
    assert await found(richard) == [POSTGRES]


async def test_a_note_is_found_as_of_any_time_after_it_happened(richard: MemoryService) -> None:
    await richard.write_episodic(POSTGRES, {"timestamp_utc": "2026-05-02T14:23:01Z"})

    assert await recall(richard, "Postgres", as_of=datetime(2026, 5, 1, tzinfo=UTC)) == []
    assert await recall(richard, "Postgres", as_of=datetime(2026, 5, 3, tzinfo=UTC)) == [POSTGRES]


@pytest.mark.parametrize("chosen", ["id", "session_id", "everything"])
async def test_a_note_is_forgotten_by_its_id_session_or_user(
    searchable: Memory, chosen: str
) -> None:
    richard = searchable.of(RICHARD)
    id_ = await save(richard)
    await indexed(searchable)
    by: dict[str, Any] = {"id": id_, "session_id": "s1", "everything": True}

    receipt = await richard.erasure.erase(richard.erasure.selection(**{chosen: by[chosen]}))

    assert (receipt.erased, receipt.complete) == ({"saved notes": 1}, True)
    assert await found(richard) == []


async def test_a_users_export_restores_notes_and_older_episodes_unchanged(
    memory: Memory, richard: MemoryService
) -> None:
    older = new_episode("We chose Postgres in May.", {}, RICHARD, DAY)
    await memory.ledger.turns.store([older])
    await richard.write_episodic(POSTGRES, {"of": "a review"})
    page = await richard.portability.export(ExportRequest(scope="user"))
    every = richard.erasure.selection(everything=True)
    await richard.erasure.erase(every, allow_again=True)
    assert await found(richard) == []

    lines = [bytes(line) for line in page.lines]
    await richard.portability.import_lines(lines)

    records = [one for one in map(stored_line, lines, range(9)) if isinstance(one, RecordLine)]
    assert [one.kind for one in records] == ["episode", "note"]
    assert await recall(richard, "Postgres") == [POSTGRES]
    (hit,) = [one for one in (await richard.search_episodic("Postgres")).hits if one.id != older.id]
    assert hit.metadata["of"] == "a review"
