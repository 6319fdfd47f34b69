"""Turns that JetStream holds and the ledger lacks are counted; searches and sessions say so."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from calling import RICHARD
from local2.agents.memory_agent import MemoryAgent
from local2.bus.connection import BusMessage, Connection
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from local2.errors import StorageError
from local2.memory.backlog import Backlog
from local2.memory.intake import waiting_turns
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.stack.app import open_stack
from stacks import health_of, in_step, recall, search, settings_in, status
from turns import turn
from waiting import eventually

TURNS = 30
"""More than are stored at once."""


async def publish_turns(bus: Connection) -> None:
    for number in range(TURNS):
        message = turn(query_id=f"q{number}", answer=f"Answer {number} about osmium.")
        await publish_durably(bus, "response.generation", message)


async def is_complete(bus: Connection) -> bool:
    return not (await recall(bus, "osmium"))["degraded"]


@pytest.fixture
def may_store(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Hold up every turn until this is set."""
    released, handle = asyncio.Event(), MemoryAgent._handle

    async def wait_and_store(agent: MemoryAgent, message: BusMessage) -> None:
        await released.wait()
        await handle(agent, message)

    monkeypatch.setattr(MemoryAgent, "_handle", wait_and_store)
    return released


@pytest.mark.usefixtures("worker_here")
async def test_while_turns_wait_they_are_unread_and_searches_and_sessions_are_degraded(
    tmp_path: Path, may_store: asyncio.Event
) -> None:
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        bus = stack.bus
        await in_step(bus)
        await publish_turns(bus)

        now = await status(bus)
        assert now.unread >= TURNS  # and the messages that test whether turns are stored
        assert 0 < now.turns_waiting <= now.unread
        session = await call_tool(
            bus, "load_session", {"session_id": "s1"}, caller=RICHARD, timeout=20
        )
        assert "The session may be incomplete" in session.content
        for found in (await recall(bus, "osmium"), await search(bus, "osmium"), session.data):
            assert isinstance(found, dict)
            assert found["degraded"]
            assert "turns or ratings wait to be stored" in found["reason"]
        assert "turns or ratings wait" in str((await health_of(bus)).reasons)

        may_store.set()
        await in_step(bus)
        await eventually(lambda: is_complete(bus))
        assert (await status(bus)).turns_waiting == 0
        session = await call_tool(
            bus, "load_session", {"session_id": "s1"}, caller=RICHARD, timeout=20
        )
        assert session.data is not None
        assert not session.data["degraded"]


@pytest.mark.usefixtures("worker_here")
async def test_a_turn_that_failed_waits_for_its_next_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repaired, handle = asyncio.Event(), MemoryAgent._handle

    async def fail_until_repaired(agent: MemoryAgent, message: BusMessage) -> None:
        if not repaired.is_set():
            raise StorageError("The disk is full.")
        await handle(agent, message)

    monkeypatch.setattr(MemoryAgent, "_handle", fail_until_repaired)
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        await in_step(stack.bus)
        await publish_durably(stack.bus, "response.generation", turn(answer="Osmium."))

        # A probe may wait, too.
        await eventually(lambda: status(stack.bus), lambda now: now.turns_waiting >= 1)
        assert not await is_complete(stack.bus)

        repaired.set()
        await eventually(lambda: is_complete(stack.bus))


@pytest.mark.usefixtures("worker_here")
async def test_turns_published_while_no_stack_ran_are_stored_at_its_start_before_jobs_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> None:
        raise StorageError("The disk is full.")

    settings = settings_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryAgent, "_handle", never)
        async with open_stack(settings, with_generator=False) as stack:
            await publish_turns(stack.bus)

    events: list[str] = []
    handle, run = MemoryAgent._handle, Backlog.run

    async def note_turn(agent: MemoryAgent, message: BusMessage) -> None:
        await handle(agent, message)
        events.append("turn")

    async def note_jobs(backlog: Backlog) -> None:
        events.append("jobs")
        await run(backlog)

    monkeypatch.setattr(MemoryAgent, "_handle", note_turn)
    monkeypatch.setattr(Backlog, "run", note_jobs)
    async with open_stack(settings, with_generator=False) as stack:
        await eventually(lambda: status(stack.bus), lambda now: now.records >= 3 * TURNS)
        await eventually(lambda: is_complete(stack.bus))
        assert events.index("jobs") >= TURNS


async def test_all_who_ask_at_once_learn_that_turns_wait() -> None:
    asked = asyncio.Event()

    async def count() -> tuple[int, int]:
        asked.set()
        await asyncio.sleep(0)
        return 2, 0

    turns = WaitingTurns(count)
    first = asyncio.create_task(turns.count())
    await asked.wait()
    assert await turns.count() == 2
    assert await first == 2


async def test_who_gives_up_asking_does_not_hide_that_turns_wait() -> None:
    asked, waiting = asyncio.Event(), 2

    async def count() -> tuple[int, int]:
        if not asked.is_set():
            asked.set()
            await asyncio.Event().wait()
        return waiting, 0

    turns = WaitingTurns(count)
    first = asyncio.create_task(turns.count())
    await asked.wait()
    first.cancel()
    await asyncio.wait({first})

    assert await turns.count() == 2


async def test_the_stream_is_asked_until_none_waits_and_again_after_the_next_turn() -> None:
    answers = [1, 0, 3]

    async def count() -> tuple[int, int]:
        return answers.pop(0), 0

    turns = WaitingTurns(count)
    assert [await turns.count() for _ in range(4)] == [1, 0, 0, 0]
    turns.may_wait()
    assert await turns.count() == 3


async def one_is_stored() -> tuple[int, int]:
    return 0, 1


async def test_a_turn_that_is_being_stored_waits_once_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = WaitingTurns(one_is_stored)
    with turns.storing():
        assert await turns.count() == 0
        monkeypatch.setattr(waiting_turns, "HELD_UP", -1.0)
        assert await turns.count() == 1


async def test_a_turn_that_another_stack_is_long_about_waits_whoever_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = WaitingTurns(one_is_stored)
    turns.may_wait()
    assert await turns.count() == 0

    monkeypatch.setattr(waiting_turns, "HELD_UP", -1.0)
    assert await turns.count() == 1


async def test_a_turn_waits_as_soon_as_it_has_failed_to_be_stored() -> None:
    turns = WaitingTurns(one_is_stored)
    with pytest.raises(StorageError), turns.storing():
        raise StorageError("The disk is full.")

    assert await turns.count() == 1


async def test_a_turn_that_is_stored_and_not_yet_acknowledged_does_not_wait() -> None:
    turns = WaitingTurns(one_is_stored)
    with turns.storing():
        pass

    assert await turns.count() == 0


@pytest.mark.usefixtures("worker_here")
async def test_searches_are_degraded_while_the_ledger_holds_up_a_turn(
    tmp_path: Path, may_store: asyncio.Event
) -> None:
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        await in_step(stack.bus)
        await publish_durably(stack.bus, "response.generation", turn(answer="Osmium."))

        async def is_incomplete() -> bool:
            return not await is_complete(stack.bus)

        await eventually(is_incomplete)
        may_store.set()
        await eventually(lambda: is_complete(stack.bus))
