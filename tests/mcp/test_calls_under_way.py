"""Progress of a tool reaches the client, and a client's cancellation reaches the tool."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial

import anyio
import msgspec
import pytest

from local2.bus.connection import BusMessage, Connection
from local2.bus.tool_host import ToolHost
from local2.protocol.envelope import Caller, Envelope, decode, encode, seal
from local2.protocol.payloads import Json, ToolProgress, ToolRequest
from local2.protocol.tool import ToolOutput
from local2.settings import Settings
from mcp_clients import ERAS, client_of
from note_tool import Note, Noted, Notes
from waiting import eventually

each_era = pytest.mark.parametrize("era", ERAS)
SLOW = {"type": "function", "function": {"name": "slow", "description": "", "parameters": {}}}


@pytest.fixture
async def slow(bus: Connection) -> AsyncIterator[None]:
    """A tool of another team that reports its progress."""

    async def answer(message: BusMessage) -> None:
        request: Envelope[ToolRequest[Json]] = decode(message.data, ToolRequest[Json])
        for step in (1, 2, 3):
            for correlation_id in ("another call", request.id):
                progress_payload = ToolProgress(progress=step, total=3, message=f"{step} of 3")
                envelope = seal(
                    progress_payload, type="p", source="slow", correlation_id=correlation_id
                )
                await bus.publish("tool.progress.slow", encode(envelope))
        await bus.publish("tool.progress.slow", b"broken")
        await bus.publish(message.reply, json.dumps({"ok": True, "content": "done"}).encode())

    async def announce(_: BusMessage) -> None:
        await bus.publish("tool.schema", json.dumps({"payload": SLOW}).encode())

    serving = await bus.subscribe("tool.request.slow", answer)
    announcing = await bus.subscribe("tool.schema.request", announce)
    yield
    await serving.leave()
    await announcing.leave()


@pytest.mark.usefixtures("slow")
async def test_progress_reaches_the_client(settings: Settings) -> None:
    received: list[tuple[float, float | None, str | None]] = []

    async def receive(progress: float, total: float | None, message: str | None) -> None:
        received.append((progress, total, message))

    async with client_of(settings, "legacy") as client:
        result = await client.call_tool("slow", {}, progress_callback=receive)
        await eventually(lambda: len(received) == 3)
        await client.call_tool("slow", {})

    assert not result.is_error
    assert received == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")]


class Slow(Notes):
    """A tool that never ends by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def run(self, caller: Caller, args: Note) -> ToolOutput:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ToolOutput(content=str(caller), data=Noted(text=args.text))


@each_era
@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("with_progress", [False, True])
async def test_a_cancelled_call_ends_in_the_tool_and_others_are_answered(
    settings: Settings, bus: Connection, era: str, *, with_progress: bool
) -> None:
    endless = Slow()

    async def ignore(progress: float, total: float | None, message: str | None) -> None:
        pass

    async with ToolHost(bus, endless.tool()), client_of(settings, era) as client:
        async with anyio.create_task_group() as calls:
            call = partial(client.call_tool, progress_callback=ignore if with_progress else None)
            calls.start_soon(call, "note", {"text": "x"})
            await endless.began.wait()
            calls.cancel_scope.cancel()
        await endless.cancelled.wait()
        result = await client.call_tool("slow", {})
        tools = (await client.list_tools()).tools

    assert not result.is_error
    assert [tool.name for tool in tools] == ["note", "slow"]


async def test_a_call_that_times_out_says_so(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    notes.may_finish.clear()
    short = msgspec.structs.replace(settings.mcp, tool_timeout=0.2)
    async with (
        ToolHost(bus, notes.tool()),
        client_of(msgspec.structs.replace(settings, mcp=short)) as client,
    ):
        result = await client.call_tool("note", {"text": "x"})
        notes.may_finish.set()

    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["error"]["code"] == "unavailable"
    assert "did not answer within 0.2 s" in result.structured_content["error"]["message"]
