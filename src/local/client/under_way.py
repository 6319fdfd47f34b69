"""A call that is under way: how far it is, and that it is not wanted any more."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from local.bus.connection import BusMessage, Connection
from local.bus.identity import bearer
from local.errors import Local2Error, RequestError
from local.protocol import subjects
from local.protocol.envelope import Envelope, Sender, decode, encode, seal
from local.protocol.payloads import Empty, ToolProgress

OnProgress = Callable[[ToolProgress], Awaitable[None]]


@asynccontextmanager
async def hearing(
    bus: Connection, tool: str, request_id: str, on_progress: OnProgress | None
) -> AsyncIterator[None]:
    """Hear how far a call is, in the order in which the tool says it; with None, nothing."""
    if on_progress is None:
        yield
        return

    async def receive(message: BusMessage) -> None:
        with suppress(RequestError):
            said = decode(message.data, ToolProgress)
            if said.correlation_id == request_id:
                await on_progress(said.payload)

    subscription = await bus.subscribe(subjects.tool_progress(tool), receive, limit=1)
    try:
        yield
    finally:
        await subscription.stop(grace=1.0)


async def take_back(bus: Connection, tool: str, request: Envelope[Any], caller: Sender) -> None:
    """Say that the answer is not wanted any more; nobody replies to it."""
    cancel = seal(
        Empty(),
        type="cancel",
        source=request.source,
        user=request.user,
        session_id=request.session_id,
        correlation_id=request.id,
    )
    with suppress(Local2Error):
        subject = subjects.tool_cancel(tool)
        await bus.publish(subject, encode(cancel), headers=bearer(caller.token))
