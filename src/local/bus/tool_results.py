"""Asking a tool, and taking its result from wherever it comes first.

Most tools reply to who asked. Some, as the protocol allows, only publish on `tool.result.<tool>`:
so that is heard as well, until a tool has been seen to reply. After that a call costs no more than
the request.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from local.bus.subscription import Handler, Message, Subscription
from local.errors import BadRequestError, BusTimeoutError
from local.protocol import subjects
from local.protocol.codec import encode
from local.protocol.envelope import Envelope
from local.protocol.payloads import ToolResult
from local.protocol.result import read_result


class Bus(Protocol):
    """As much of a connection as asking a tool takes."""

    async def request(self, subject: str, data: bytes, *, timeout: float) -> Message: ...  # noqa: ASYNC109
    async def subscribe(self, subject: str, handler: Handler) -> Subscription: ...


class _Call(msgspec.Struct, eq=False):
    """A request that waits for what its tool publishes."""

    request: Envelope[Any]
    result: asyncio.Future[ToolResult]
    others: bool = False
    """Whether there were results that did not say whom they answer."""


class ToolResults:
    """What one connection knows of how tools answer."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._replies: dict[str, bool] = {}
        """Whether a tool is known to reply; False for good where that did not hold once."""
        self._waiting: dict[str, list[_Call]] = {}

    async def ask(self, tool: str, request: Envelope[Any], timeout: float) -> ToolResult:  # noqa: ASYNC109
        """Send a request; the tool's reply, or what it publishes about it.

        Raises:
            NoRespondersError: Nobody serves the tool; known at once.
            BusTimeoutError: Somebody does, and there was no answer within `timeout` seconds.
        """
        if self._replies.get(tool):
            try:
                return await self._reply(tool, request, timeout)
            except BusTimeoutError:
                self._replies[tool] = False
                raise
        async with self._hearing(tool, request) as call:
            reply = asyncio.create_task(self._reply(tool, request, timeout))
            try:
                await asyncio.wait((reply, call.result), return_when=asyncio.FIRST_COMPLETED)
                if call.result.done():
                    self._replies[tool] = False
                    return call.result.result()
                result = reply.result()
                self._replies.setdefault(tool, True)
            except BusTimeoutError as error:
                raise _without_answer(error, tool, call) from error
            finally:
                reply.cancel()
                await asyncio.gather(reply, return_exceptions=True)
        return result

    async def _reply(self, tool: str, request: Envelope[Any], seconds: float) -> ToolResult:
        subject = subjects.tool_request(tool)
        answer = await self._bus.request(subject, encode(request), timeout=seconds)
        return read_result(answer.data, answer.headers).payload

    @asynccontextmanager
    async def _hearing(self, tool: str, request: Envelope[Any]) -> AsyncIterator[_Call]:
        """Hear what the tool publishes. The server learns of it before it gets the request."""
        call = _Call(request, asyncio.get_running_loop().create_future())

        async def hear(message: Message) -> None:
            self._hear(message, tool, call)

        subscription = await self._bus.subscribe(subjects.tool_result(tool), hear)
        self._waiting.setdefault(tool, []).append(call)
        try:
            yield call
        finally:
            self._waiting[tool].remove(call)
            if not self._waiting[tool]:
                del self._waiting[tool]
            await subscription.leave()

    def _hear(self, message: Message, tool: str, call: _Call) -> None:
        try:
            published = read_result(message.data, message.headers)
        except BadRequestError:
            call.others = True
            return
        if published.correlation_id is not None:
            taken = published.correlation_id == call.request.id
        else:
            waiting = self._waiting.get(tool, ())
            taken = [one for one in waiting if _may_answer(published, one.request)] == [call]
            call.others |= not taken
        if taken and not call.result.done():
            call.result.set_result(published.payload)


def _may_answer(published: Envelope[ToolResult], request: Envelope[Any]) -> bool:
    """Whether a result without `correlation_id` names the turn of this request."""
    turn = (request.session_id, request.query_id)
    return (
        any(turn)
        and (published.session_id, published.query_id) == turn
        and published.user in {None, request.user}
    )


def _without_answer(error: BusTimeoutError, tool: str, call: _Call) -> BusTimeoutError:
    if not call.others:
        return error
    return BusTimeoutError(
        error.message,
        remedy=f"What came on {subjects.tool_result(tool)} did not say whom it answers: the tool "
        "should set correlation_id to the request's id.",
    )
