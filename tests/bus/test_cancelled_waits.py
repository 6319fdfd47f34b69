"""Whatever waits for the bus may be cancelled at any moment: the connection goes on.

The cancellation itself is not lost, and no subscription is left behind.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import nats.errors
import pytest

from local2.bus.connection import BusMessage, Connection, connect, has_other_subscribers
from local2.bus.participant import Participant
from local2.bus.server import EmbeddedServer
from local2.bus.streams import publish_durably
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.client.tools import Toolbox, ask_tool
from local2.errors import Local2Error
from local2.protocol.envelope import Sender
from local2.protocol.payloads import ToolProgress
from note_tool import Notes
from waiting import eventually

ADA = Sender(user="ada", agent="test")
Wait = Callable[[Connection], Awaitable[object]]
SMALL_STEPS = 30
"""Turns of the event loop up to which every single one is tried."""


async def _ignore(_: BusMessage | ToolProgress) -> None:
    pass


async def _subscribed_and_stopped(bus: Connection) -> None:
    await (await bus.subscribe("cancelled", _ignore)).stop(grace=1)


async def _subscribed_and_left(bus: Connection) -> None:
    await (await bus.subscribe("cancelled", _ignore)).leave()


async def _fanned_out(bus: Connection) -> None:
    await (await bus.subscribe("tool.schema.request", _ignore)).leave()


async def _asked_with_progress(bus: Connection) -> None:
    await ask_tool(bus, "note", {"text": "x"}, caller=ADA, on_progress=_ignore)


async def _asked(bus: Connection) -> None:
    bus.tool_calls._replies.clear()
    await ask_tool(bus, "note", {"text": "x"}, caller=ADA)


async def _announced(bus: Connection) -> None:
    async with Toolbox(bus, source="test") as toolbox:
        await toolbox.find("note", within=5)


async def _joined(bus: Connection) -> None:
    async with ToolHost(bus, Notes().tool()):
        pass


async def _following_answers(bus: Connection) -> None:
    async with QueryClient(bus):
        pass


async def _connected(bus: Connection) -> None:
    async with connect(bus.url, name="cancelled") as other:
        await other.flush()


async def _sent_much(bus: Connection) -> None:
    """Send more than nats-py buffers, which makes it wait until the socket has taken it."""
    for _ in range(3):
        await bus.publish("cancelled", bytes(bus.client.max_payload))


async def _stored(bus: Connection) -> None:
    await publish_durably(bus, "response.generation", b"{}")


WAITS: dict[str, Wait] = {
    "flush": lambda bus: bus.flush(),
    "request": lambda bus: bus.request("echo", b"x"),
    "publish": _sent_much,
    "publish to a stream": _stored,
    "stop": _subscribed_and_stopped,
    "leave": _subscribed_and_left,
    "fanout": _fanned_out,
    "call": _asked,
    "call with progress": _asked_with_progress,
    "toolbox": _announced,
    "participant": _joined,
    "queries": _following_answers,
    "has_other_subscribers": lambda bus: has_other_subscribers(bus, "echo", ""),
    "connect": _connected,
}


async def _cancel_after(work: Awaitable[object], turns: int) -> bool:
    """Cancel the work after some turns of the event loop; return whether it ended before that."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        if task.done():
            await task
            return True
        await asyncio.sleep(0)
    if not task.cancel():
        await task
        return True
    await asyncio.wait({task})
    if not task.cancelled():
        assert isinstance(task.exception(), Local2Error), "the cancellation was lost"
    return False


@pytest.mark.parametrize("name", WAITS)
async def test_a_wait_may_be_cancelled_at_any_moment(
    bus_with_streams: Connection, notes: Notes, name: str
) -> None:
    bus, wait = bus_with_streams, WAITS[name]
    async with connect(bus.url, name="serving") as serving, ToolHost(serving, notes.tool()):

        async def echo(message: BusMessage) -> None:
            await serving.answer(message, message.data)

        await serving.subscribe("echo", echo)
        await serving.flush()
        await wait(bus)  # so that lasting subscriptions exist
        before = set(bus.client._subs)
        turns = 0
        while not await _cancel_after(wait(bus), turns):
            turns += 1 + max(0, turns - SMALL_STEPS) // 4

            assert (await bus.request("echo", b"alive", timeout=5)).data == b"alive"
            await bus.flush()
        await eventually(lambda: set(bus.client._subs) == before)
        assert bus.client.stats["reconnects"] == 0


async def test_a_late_answer_to_a_ping_is_ignored(server: EmbeddedServer) -> None:
    async with connect(server.url, name="test") as bus:

        async def ping_until_it_stops() -> None:
            while True:
                await bus.client.flush(timeout=1)

        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(nats.errors.FlushTimeoutError):
                await ping_until_it_stops()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await bus.flush()
        assert bus.client.stats["reconnects"] == 0


@pytest.mark.parametrize("steps", range(6))
async def test_a_connection_is_closed_also_if_its_closing_is_cancelled(
    nats_url: str, steps: int
) -> None:
    opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
    may_close = asyncio.Event()

    async def connect_and_close() -> None:
        async with connect(nats_url, name="closing") as bus:
            opened.set_result(bus)
            await may_close.wait()

    closing = asyncio.create_task(connect_and_close())
    bus = await opened
    may_close.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    closing.cancel()
    with suppress(asyncio.CancelledError):
        await closing

    await eventually(lambda: bus.client.is_closed)


async def test_a_participant_ends_what_it_does_also_if_its_stop_is_cancelled(
    bus: Connection,
) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    class Busy(Participant):
        async def stopping(self) -> None:
            ended.set()

    async def never_answer(_: BusMessage) -> None:
        asked.set()
        await asyncio.Event().wait()

    async def take_part() -> None:
        busy = Busy(bus, name="busy", description="Answers nothing.")
        busy.serve("test.busy", never_answer)
        async with busy:
            await bus.publish("test.busy", b"")
            await asked.wait()

    stopping = asyncio.create_task(take_part())
    await asked.wait()
    await asyncio.sleep(0)
    stopping.cancel()
    with suppress(asyncio.CancelledError):
        await stopping

    assert ended.is_set()
