"""A turn with thousands of calls does not block other writes, and is stored completely."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from calling import caller_named
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations import turns
from local2.ledger.records import Written
from local2.memory.intake.conversations import Turn
from local2.memory.tenant import Memory
from local2.protocol import subjects
from local2.protocol.payloads import MemoryChange, ToolCallRecord
from recalling import DAY
from stored import records

RICHARD, EVE = (
    caller_named("richard", session_id="s1"),
    caller_named("eve"),
)
PER_TRANSACTION = 10
CALLS = 2 * PER_TRANSACTION + 7


@pytest.fixture(autouse=True)
def small_transactions() -> Iterator[None]:
    with patch.object(turns, "RECORDS_PER_TRANSACTION", PER_TRANSACTION):
        yield


def large_turn() -> Turn:
    calls = [ToolCallRecord(id=f"c{n}", name="weigh", content=f"{n} g") for n in range(CALLS)]
    return Turn(query="How heavy?", answer="Heavy.", at=DAY, query_id="1", tool_calls=calls)


async def stored(database: Database) -> list[str]:
    """Return the texts of all messages and answers, in the order in which they were stored."""
    return [record["content"] for record in await records(database)]


EPISODE = "Q: How heavy?\nA: Heavy."
RESULTS = [f"{n} g" for n in range(CALLS)]


async def test_saves_run_between_the_transactions_of_a_turn_with_many_calls(
    memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = memory.ledger.turns.store

    async def store_and_save(*args: Any, **kwargs: Any) -> list[Written]:
        written = await store(*args, **kwargs)
        monkeypatch.undo()
        await memory.of(EVE).write_episodic("Osmium is heavy.")
        return written

    monkeypatch.setattr(memory.ledger.turns, "store", store_and_save)
    await memory.of(RICHARD).intake.store_turn(large_turn())

    everything = await stored(database)
    assert everything.index("Osmium is heavy.") == PER_TRANSACTION + len(["How heavy?"])
    others = [text for text in everything if text not in {EPISODE, "Osmium is heavy."}]
    assert others == ["How heavy?", *RESULTS, "Heavy."]
    assert everything.index(EPISODE) > PER_TRANSACTION + 1


async def test_an_interrupted_large_turn_is_completed_when_it_is_redelivered(
    memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StoppedError(Exception):
        """Stands in for a kill between two transactions."""

    store, stored_parts = memory.ledger.turns.store, 0

    async def stop(*args: Any, **kwargs: Any) -> list[Written]:
        nonlocal stored_parts
        stored_parts += 1
        if stored_parts > 1:
            raise StoppedError
        return await store(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(memory.ledger.turns, "store", stop)
        with pytest.raises(StoppedError):
            await memory.of(RICHARD).intake.store_turn(large_turn())
    assert EPISODE not in await stored(database)

    first = await memory.of(RICHARD).intake.store_turn(large_turn())
    again = await memory.of(RICHARD).intake.store_turn(large_turn())

    assert (first.was_new, again.was_new) == (True, False)
    everything = await stored(database)
    assert sorted(everything) == sorted(["How heavy?", "Heavy.", EPISODE, *RESULTS])
    assert everything[-1] == "Heavy."


async def test_each_record_of_a_large_turn_is_announced_once(
    memory: Memory, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    await memory.of(RICHARD).intake.store_turn(large_turn())

    saved = [change.id for subject, change in announced if subject == subjects.MEMORY_SAVED]
    assert sorted(saved) == sorted(record["id"] for record in await records(database))
