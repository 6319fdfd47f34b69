"""Events within a process: none is lost, and each handler hears them in order."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from local.conversation.config import ManagedMemoryConfig
from local.conversation.events import CompactionEvent, EventBus, MemoryResetEvent
from local.conversation.manager import MemoryManager
from talks import Writer, chat, lent
from waiting import eventually

EVENTS = [MemoryResetEvent(str(number), "Researcher") for number in range(5)]


class Ear:
    """An async handler that hears one event at a time, when it may."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.may_hear = asyncio.Event()
        self.may_hear.set()

    async def __call__(self, event: object) -> None:
        await self.may_hear.wait()
        self.heard.append(event)


async def test_a_managers_resets_and_compactions_reach_async_handlers() -> None:
    manager = MemoryManager(
        "managed_conversation", "You help.", memory_config=ManagedMemoryConfig(threshold_tokens=500)
    )
    told: list[str] = []

    async def compaction(event: CompactionEvent) -> None:
        await asyncio.sleep(0)
        told.append(f"{event.agent_name} {event.session_id} {event.status}")

    async def reset(event: MemoryResetEvent) -> None:
        told.append(f"{event.agent_name} {event.session_id} reset")

    async with EventBus() as bus:
        bus.subscribe(CompactionEvent, compaction)
        bus.subscribe("MemoryResetEvent", reset)
        manager.set_event_context(agent_name="Researcher", event_bus=bus, session_id="run_123")
        for message in chat(50):
            manager.add(message)
        assert await manager.compact_if_needed(lent(Writer(*["All of it."] * 9)))
        await bus.settle()
        manager.reset_memory()

    assert told == [f"Researcher run_123 {what}" for what in ("started", "completed", "reset")]


async def test_a_slow_handler_hears_every_event_in_order_and_holds_nobody_back() -> None:
    bus, slow, quick = EventBus(), Ear(), Ear()
    bus.subscribe(MemoryResetEvent, slow)
    bus.subscribe(MemoryResetEvent, quick)
    slow.may_hear.clear()

    for event in EVENTS:
        bus.emit(event)

    await eventually(lambda: quick.heard == EVENTS)
    assert slow.heard == []
    slow.may_hear.set()
    await bus.settle()
    assert slow.heard == EVENTS


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
async def test_a_handler_that_fails_is_logged_and_hears_the_next_event(
    error: BaseException, logs: Path
) -> None:
    bus, ear, heard = EventBus(), Ear(), []

    async def failing(event: object) -> None:
        heard.append(event)
        if len(heard) == 1:
            raise error

    bus.subscribe(MemoryResetEvent, failing)
    bus.subscribe(MemoryResetEvent, ear)
    for event in EVENTS:
        bus.emit(event)
    await bus.settle()

    assert heard == ear.heard == EVENTS
    await eventually(lambda: "event_handler_failed" in logs.read_text())


def test_a_plain_function_is_called_at_once_even_without_a_loop() -> None:
    bus = EventBus()
    heard: list[object] = []

    def failing(_: object) -> None:
        raise ValueError("no")

    bus.subscribe(MemoryResetEvent, failing)
    bus.subscribe(MemoryResetEvent, heard.append)
    bus.subscribe(CompactionEvent, heard.append)
    for event in EVENTS:
        bus.emit(event)

    assert heard == EVENTS


def test_what_is_emitted_without_a_loop_is_delivered_in_the_next_one() -> None:
    async def settle() -> None:
        await bus.settle()

    async def emit() -> None:
        bus.emit(EVENTS[2])
        await eventually(lambda: len(heard) == 3)

    bus = EventBus()
    heard: list[object] = []

    async def hear(event: object) -> None:
        heard.append(event)

    bus.subscribe(MemoryResetEvent, hear)
    bus.emit(EVENTS[0])
    bus.emit(EVENTS[1])
    assert heard == []
    asyncio.run(emit())
    assert heard == EVENTS[:3]
    bus.emit(EVENTS[3])
    asyncio.run(settle())
    assert heard == EVENTS[:4]


def test_what_a_loop_interrupts_at_its_end_is_told_again_in_the_next() -> None:
    bus = EventBus()
    begun: list[object] = []
    done: list[object] = []
    ready: list[bool] = []

    async def hear(event: object) -> None:
        begun.append(event)
        if not ready:
            await asyncio.Event().wait()
        done.append(event)

    async def emit() -> None:
        for event in EVENTS:
            bus.emit(event)
        await eventually(lambda: begun)

    bus.subscribe(MemoryResetEvent, hear)
    asyncio.run(emit())
    assert (begun, done) == (EVENTS[:1], [])

    ready.append(True)
    asyncio.run(bus.settle())
    assert done == EVENTS


async def test_events_of_another_thread_are_delivered_in_the_loop() -> None:
    bus, ear = EventBus(), Ear()
    bus.subscribe(MemoryResetEvent, ear)
    bus.emit(EVENTS[0])

    await asyncio.to_thread(bus.emit, EVENTS[1])

    await eventually(lambda: ear.heard == EVENTS[:2])


async def test_who_unsubscribes_hears_what_was_emitted_before() -> None:
    bus, ear = EventBus(), Ear()
    bus.subscribe(MemoryResetEvent, ear)
    bus.emit(EVENTS[0])
    bus.unsubscribe(MemoryResetEvent, ear)
    bus.emit(EVENTS[1])

    await bus.settle()

    assert ear.heard == EVENTS[:1]


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    bus, ear = EventBus(), Ear()
    bus.subscribe(MemoryResetEvent, lambda event: ear(event))  # noqa: PLW0108 - which is no coroutine function
    bus.emit(EVENTS[0])

    await bus.settle()

    assert ear.heard == EVENTS[:1]
