"""Recalled facts are counted per caller, in the background and within bounds."""

import asyncio
from collections.abc import Iterable

import pytest

from calling import call
from ledgers import OWNER, fact
from local2.bus.connection import Connection
from local2.errors import StorageError
from local2.ledger.operations.upkeep import Access, Upkeep
from local2.ledger.search import Place
from local2.memory import access_log
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import utc_now
from waiting import eventually
from working import working

HERE = Place("user", OWNER, "fact")


async def recalls(memory: Memory) -> dict[str, int]:
    facts = await memory.ledger.upkeep.facts(HERE, 0, 99)
    return {one.content: one.recalls for one in facts}


async def store(memory: Memory, *contents: str) -> None:
    for content in contents:
        await memory.ledger.facts.store(fact(content))


async def test_only_records_that_recall_returns_are_counted(tools: Memory, bus: Connection) -> None:
    begun = utc_now()
    await store(tools, "Ada likes tea.", "The train leaves at nine.")

    for _ in range(2):
        found = await call(bus, "recall", {"query": "tea", "top_k": 1})
        assert [one["content"] for one in found["items"]] == ["Ada likes tea."]
    assert await recalls(tools) == {"Ada likes tea.": 0, "The train leaves at nine.": 0}
    await tools.accesses.write()

    assert await recalls(tools) == {"Ada likes tea.": 2, "The train leaves at nine.": 0}
    (tea, train) = await tools.ledger.upkeep.facts(HERE, 0, 99)
    assert tea.recalled_at is not None
    assert tea.recalled_at.timestamp() >= int(begun.timestamp())
    assert train.recalled_at is None


async def test_counts_are_written_periodically_and_at_the_end(
    memory: Memory, richard: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "WRITE_SECONDS", 0.0)
    await store(memory, "Ada likes tea.")
    async with working(memory.accesses):
        await richard.search_episodic("tea")
        memory.accesses.add([1])

        await eventually(lambda: recalls(memory), lambda found: found["Ada likes tea."] == 1)
        monkeypatch.setattr(access_log, "WRITE_SECONDS", 60.0)
        memory.accesses.add([1])

    assert await recalls(memory) == {"Ada likes tea.": 2}


async def test_pending_counts_are_bounded(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "MAX_RECORDS", 2)
    await store(memory, "One", "Two", "Three")

    memory.accesses.add([1, 2, 3, 1])
    await memory.accesses.write()

    assert await recalls(memory) == {"One": 2, "Two": 1, "Three": 0}


async def test_a_refusing_ledger_loses_only_counts(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(memory, "One")

    async def refuse(_: Upkeep, __: Iterable[Access]) -> None:
        raise StorageError("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr(Upkeep, "add_access", refuse)
        memory.accesses.add([1])
        await memory.accesses.write()
    memory.accesses.add([1])
    await memory.accesses.write()

    assert await recalls(memory) == {"One": 1}


async def test_a_caller_who_gives_up_loses_no_counts_of_others(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "RECORDS_PER_TRANSACTION", 1)
    await store(memory, "One", "Two", "Three")
    add_access, begun = Upkeep.add_access, asyncio.Event()

    async def hang(upkeep: Upkeep, accesses: Iterable[Access]) -> None:
        await add_access(upkeep, accesses)
        begun.set()
        await asyncio.Event().wait()

    memory.accesses.add([1, 2, 3])
    with monkeypatch.context() as busy:
        busy.setattr(Upkeep, "add_access", hang)
        asking = asyncio.create_task(memory.accesses.write())
        await begun.wait()
        asking.cancel()
        await asyncio.wait({asking})
    monkeypatch.setattr(access_log, "WRITE_SECONDS", 0.0)
    async with working(memory.accesses):

        async def are_counted() -> bool:
            return await recalls(memory) == {"One": 1, "Two": 1, "Three": 1}

        await eventually(are_counted)


async def test_who_writes_counts_waits_for_those_that_are_being_written(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(memory, "One")
    add_access, may_go_on, begun = Upkeep.add_access, asyncio.Event(), asyncio.Event()

    async def wait(upkeep: Upkeep, accesses: Iterable[Access]) -> None:
        begun.set()
        await may_go_on.wait()
        await add_access(upkeep, accesses)

    monkeypatch.setattr(Upkeep, "add_access", wait)
    memory.accesses.add([1])
    writing = asyncio.create_task(memory.accesses.write())
    await begun.wait()
    asking = asyncio.create_task(memory.accesses.write())
    await asyncio.wait({asking}, timeout=0.01)
    assert not asking.done()

    may_go_on.set()
    await asking
    assert await recalls(memory) == {"One": 1}
    await writing
