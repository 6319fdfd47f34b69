"""Only the caller of a tool can cancel the call."""

import asyncio

import pytest

from factories import ConnectBus
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.protocol.envelope import Envelope, Sender, decode, encode, seal
from local2.protocol.payloads import Empty, ToolRequest, ToolResult
from note_tool import Note, Notes
from waiting import eventually

ADA = Sender(user="ada", agent="test", session_id="s1")


def cancellation_of(request: Envelope[ToolRequest[Note]], user: str | None, source: str) -> bytes:
    cancel = seal(Empty(), type="c", source=source, user=user, correlation_id=request.id)
    return encode(cancel)


@pytest.mark.parametrize(
    ("user", "source"), [("bob", "test"), ("ada", "another agent"), (None, "test")]
)
async def test_a_call_is_cancelled_only_by_its_own_caller(
    bus: Connection, notes: Notes, user: str | None, source: str
) -> None:
    notes.may_finish.clear()
    request = seal(ToolRequest(args=Note(text="x")), type="request", source="test", user="ada")
    async with ToolHost(bus, notes.tool()):
        calling = asyncio.create_task(bus.request("tool.request.note", encode(request)))
        await eventually(lambda: notes.under_way == 1)
        await bus.publish("tool.cancel.note", cancellation_of(request, user, source))
        await bus.publish("tool.cancel.note", b"broken")
        other = seal(ToolRequest(args=Note(text="y")), type="request", source="test", user="ada")
        await bus.publish("tool.cancel.note", cancellation_of(other, "ada", "test"))
        await bus.flush()
        assert not calling.done()
        await bus.publish("tool.cancel.note", cancellation_of(request, "ada", "test"))
        result = decode((await calling).data, ToolResult).payload

    assert result.outcome == "cancelled"
    assert notes.noted == []


async def test_cancelling_the_calling_task_cancels_the_tool(
    connect_bus: ConnectBus, notes: Notes
) -> None:
    notes.may_finish.clear()
    async with ToolHost(await connect_bus(), notes.tool()) as host:
        calling = asyncio.create_task(
            call_tool(await connect_bus(), "note", {"text": "x"}, caller=ADA)
        )
        await eventually(lambda: notes.under_way == 1)
        calling.cancel()
        await eventually(lambda: notes.under_way == 0)
        notes.may_finish.set()
        assert (await call_tool(host.bus, "note", {"text": "y"}, caller=ADA)).ok

    assert [text for _, text in notes.noted] == ["y"]
