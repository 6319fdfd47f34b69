"""A request that is lost with who had received it is sent again, and no other."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from calling import RICHARD
from factories import ConnectBus
from local2.bus import lost_requests
from local2.bus.connection import BusMessage, Connection, Subscription
from local2.bus.tool_host import ToolHost
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.client.access import ask_service
from local2.client.tools import call_tool
from local2.errors import BusTimeoutError
from local2.memory.tenant import Memories, Memory
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.maintenance import TaskRequest
from local2.protocol.payloads import Empty, ErrorReply, ToolHints, ToolResult
from local2.protocol.services import STATUS, TASKS
from local2.protocol.tool import Tool
from local2.protocol.vectors import VectorItem
from local2.vectors.minilm import MiniLM
from note_tool import Notes
from serving import service_host
from waiting import eventually
from workers import vector_worker

REPEATABLE = ToolHints(idempotent_hint=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_requests, "FIRST_LOOK", 0.05)


class Swallower:
    """Receives messages of a subject, as one of those who share them, and answers none."""

    def __init__(self) -> None:
        self.swallowed: list[BusMessage] = []
        self._subscription: Subscription | None = None

    async def subscribe(self, bus: Connection, subject: str, queue: str = "") -> None:
        async def swallow(message: BusMessage) -> None:
            self.swallowed.append(message)

        self._subscription = await bus.subscribe(subject, swallow, queue=queue)
        await bus.flush()

    async def die(self) -> None:
        assert self._subscription is not None
        await self._subscription.stop(grace=0)


@pytest.fixture
def swallower() -> Swallower:
    return Swallower()


def noting(notes: Notes, hints: ToolHints = REPEATABLE) -> Tool:
    return msgspec.structs.replace(notes.tool(), annotations=hints)


def call(bus: Connection, *, timeout: float = 30.0) -> "asyncio.Task[ToolResult]":
    return asyncio.create_task(
        call_tool(bus, "note", {"text": "x"}, caller=RICHARD, timeout=timeout)
    )


async def test_a_call_whose_host_has_died_is_answered_by_another(
    bus: Connection, connect_bus: ConnectBus, notes: Notes, swallower: Swallower
) -> None:
    await swallower.subscribe(await connect_bus(), subjects.tool_request("note"), "note")
    calling = call(bus)
    await eventually(lambda: swallower.swallowed)
    await swallower.die()

    async with ToolHost(await connect_bus(), noting(notes)):
        assert (await asyncio.wait_for(calling, 15)).ok

    assert len(notes.noted) == 1


async def test_a_call_that_takes_long_is_carried_out_once(
    bus: Connection, connect_bus: ConnectBus, notes: Notes, swallower: Swallower
) -> None:
    notes.may_finish.clear()
    idle = Notes()
    async with ToolHost(await connect_bus(), noting(notes)):
        calling = call(bus)
        await eventually(lambda: notes.under_way)
        async with ToolHost(await connect_bus(), noting(idle)):
            await swallower.subscribe(await connect_bus(), subjects.tool_running("note"))
            await eventually(lambda: len(swallower.swallowed) >= 2)  # asked, and asked again
            notes.may_finish.set()
            assert (await calling).ok

    assert (len(notes.noted), len(idle.noted)) == (1, 0)


async def test_a_call_that_must_not_be_repeated_is_not(
    bus: Connection, connect_bus: ConnectBus, notes: Notes, swallower: Swallower
) -> None:
    await swallower.subscribe(await connect_bus(), subjects.tool_request("note"), "note")
    calling = call(bus, timeout=1.0)
    await eventually(lambda: swallower.swallowed)
    await swallower.die()

    async with ToolHost(await connect_bus(), noting(notes, ToolHints())):
        result = await calling

    assert result.outcome == "unavailable"
    assert notes.noted == []


async def test_an_answer_that_comes_late_is_taken_all_the_same(
    bus: Connection, connect_bus: ConnectBus, notes: Notes, swallower: Swallower
) -> None:
    """Whoever had received the request was cut off from the question for it."""
    late = await connect_bus()
    await swallower.subscribe(late, subjects.tool_request("note"), "note")
    calling = call(bus)
    await eventually(lambda: swallower.swallowed)
    await swallower.die()
    notes.may_finish.clear()

    async with ToolHost(await connect_bus(), noting(notes)):
        await eventually(lambda: notes.under_way)
        await late.answer(swallower.swallowed[0], b'{"payload": {"ok": true, "content": "Late."}}')
        assert (await calling).content == "Late."
        notes.may_finish.set()  # its host waits for it


async def test_a_batch_that_is_lost_with_a_worker_is_embedded_by_another(
    bus: Connection,
    connect_bus: ConnectBus,
    swallower: Swallower,
    embedder: MiniLM,
    tmp_path: Path,
) -> None:
    """Only the worker's own server died: this connection has lost nothing."""
    vectors = VectorClient(VectorRequests(bus, search_timeout=30.0), "default")
    await swallower.subscribe(await connect_bus(), subjects.VECTOR_UPSERT, "vector_worker")
    batch = [VectorItem(id="gold", text="Gold.")]
    upserting = asyncio.create_task(vectors.upsert(batch))
    await eventually(lambda: swallower.swallowed)
    await swallower.die()

    async with vector_worker(await connect_bus(), embedder, tmp_path / "chroma"):
        stored = await asyncio.wait_for(upserting, 30)

    assert len(stored.vectors) == 1


async def test_a_request_to_a_service_is_answered_by_another_stack_unless_it_changes_something(
    bus: Connection, connect_bus: ConnectBus, memory: Memory, swallower: Swallower
) -> None:
    dying = await connect_bus()
    for service in (STATUS, TASKS):
        await swallower.subscribe(dying, service.subject, "housekeeper")
    asking = asyncio.create_task(ask_service(bus, STATUS, Empty(), timeout=30))
    changing = asyncio.create_task(ask_service(bus, TASKS, TaskRequest(), timeout=1))
    await eventually(lambda: len(swallower.swallowed) == 2)
    await swallower.die()

    async with service_host("housekeeper", await connect_bus(), Memories(memory)):
        assert (await asyncio.wait_for(asking, 15)).records == 0
        with pytest.raises(BusTimeoutError):
            await changing


@pytest.mark.parametrize("question", [b"", b"[]", b"{}", b'{"correlation_id": "", "payload": {}}'])
async def test_who_asks_for_no_request_is_told_so(
    bus: Connection, memory: Memory, notes: Notes, question: bytes
) -> None:
    async with (
        ToolHost(bus, noting(notes)),
        service_host("housekeeper", bus, Memories(memory)),
    ):
        for subject in (subjects.tool_running("note"), subjects.MEMORY_RUNNING):
            answer = await bus.request(subject, question, timeout=5)
            refused = decode(answer.data, ErrorReply).payload
            assert refused.code == "bad_request"
            assert "correlation_id" in refused.message
