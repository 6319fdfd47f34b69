"""Within a process, no event is lost, and each handler receives events in order."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.events import CompactionEvent, EventBus, MemoryResetEvent
from local2.conversation.manager import MemoryManager
from talks import Writer, chat, runtime_with
from waiting import eventually

EVENTS = [MemoryResetEvent(str(number), "Researcher") for number in range(5)]


class Subscriber:
    """An async handler that records events one at a time, and blocks until it may."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.may_receive = asyncio.Event()
        self.may_receive.set()

    async def __call__(self, event: object) -> None:
        await self.may_receive.wait()
        self.received.append(event)


async def test_a_managers_resets_and_compactions_reach_async_handlers() -> None:
    manager = MemoryManager(
        "managed_conversation", "You help.", memory_config=ManagedMemoryConfig(threshold_tokens=500)
    )
    reported: list[str] = []

    async def compaction(event: CompactionEvent) -> None:
        await asyncio.sleep(0)
        reported.append(f"{event.agent_name} {event.session_id} {event.status}")

    async def reset(event: MemoryResetEvent) -> None:
        reported.append(f"{event.agent_name} {event.session_id} reset")

    async with EventBus() as bus:
        bus.subscribe(CompactionEvent, compaction)
        bus.subscribe("MemoryResetEvent", reset)
        manager.set_event_context(agent_name="Researcher", event_bus=bus, session_id="run_123")
        for message in chat(50):
            manager.add(message)
        assert await manager.compact_if_needed(runtime_with(Writer(*["All of it."] * 9)))
        await bus.settle()
        manager.reset_memory()

    assert reported == [
        f"Researcher run_123 {outcome}" for outcome in ("started", "completed", "reset")
    ]


async def test_a_slow_handler_receives_every_event_in_order_and_delays_no_other() -> None:
    bus, slow, quick = EventBus(), Subscriber(), Subscriber()
    bus.subscribe(MemoryResetEvent, slow)
    bus.subscribe(MemoryResetEvent, quick)
    slow.may_receive.clear()

    for event in EVENTS:
        bus.emit(event)

    await eventually(lambda: quick.received == EVENTS)
    assert slow.received == []
    slow.may_receive.set()
    await bus.settle()
    assert slow.received == EVENTS


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
async def test_a_failing_handler_is_logged_and_receives_the_next_event(
    error: BaseException, logs: Path
) -> None:
    bus, subscriber, received = EventBus(), Subscriber(), []

    async def failing(event: object) -> None:
        received.append(event)
        if len(received) == 1:
            raise error

    bus.subscribe(MemoryResetEvent, failing)
    bus.subscribe(MemoryResetEvent, subscriber)
    for event in EVENTS:
        bus.emit(event)
    await bus.settle()

    assert received == subscriber.received == EVENTS
    await eventually(lambda: "event_handler_failed" in logs.read_text())


def test_a_plain_function_is_called_at_once_even_without_a_loop() -> None:
    bus = EventBus()
    received: list[object] = []

    def failing(_: object) -> None:
        raise ValueError("no")

    bus.subscribe(MemoryResetEvent, failing)
    bus.subscribe(MemoryResetEvent, received.append)
    bus.subscribe(CompactionEvent, received.append)
    for event in EVENTS:
        bus.emit(event)

    assert received == EVENTS


def test_events_emitted_without_a_loop_are_delivered_in_the_next_one() -> None:
    async def settle() -> None:
        await bus.settle()

    async def emit() -> None:
        bus.emit(EVENTS[2])
        await eventually(lambda: len(received) == 3)

    bus = EventBus()
    received: list[object] = []

    async def receive(event: object) -> None:
        received.append(event)

    bus.subscribe(MemoryResetEvent, receive)
    bus.emit(EVENTS[0])
    bus.emit(EVENTS[1])
    assert received == []
    asyncio.run(emit())
    assert received == EVENTS[:3]
    bus.emit(EVENTS[3])
    asyncio.run(settle())
    assert received == EVENTS[:4]


def test_an_event_interrupted_by_the_end_of_its_loop_is_delivered_in_the_next() -> None:
    bus = EventBus()
    begun: list[object] = []
    done: list[object] = []
    ready: list[bool] = []

    async def receive(event: object) -> None:
        begun.append(event)
        if not ready:
            await asyncio.Event().wait()
        done.append(event)

    async def emit() -> None:
        for event in EVENTS:
            bus.emit(event)
        await eventually(lambda: begun)

    bus.subscribe(MemoryResetEvent, receive)
    asyncio.run(emit())
    assert (begun, done) == (EVENTS[:1], [])

    ready.append(True)
    asyncio.run(bus.settle())
    assert done == EVENTS


async def test_events_from_another_thread_are_delivered_in_the_loop() -> None:
    bus, subscriber = EventBus(), Subscriber()
    bus.subscribe(MemoryResetEvent, subscriber)
    bus.emit(EVENTS[0])

    await asyncio.to_thread(bus.emit, EVENTS[1])

    await eventually(lambda: subscriber.received == EVENTS[:2])


async def test_a_handler_receives_events_emitted_before_it_unsubscribed() -> None:
    bus, subscriber = EventBus(), Subscriber()
    bus.subscribe(MemoryResetEvent, subscriber)
    bus.emit(EVENTS[0])
    bus.unsubscribe(MemoryResetEvent, subscriber)
    bus.emit(EVENTS[1])

    await bus.settle()

    assert subscriber.received == EVENTS[:1]


async def test_a_function_that_returns_a_coroutine_is_awaited() -> None:
    bus, subscriber = EventBus(), Subscriber()
    bus.subscribe(MemoryResetEvent, lambda event: subscriber(event))  # noqa: PLW0108 - not a coroutine function
    bus.emit(EVENTS[0])

    await bus.settle()

    assert subscriber.received == EVENTS[:1]
