"""A tool's result, wherever it arrives first.

Most tools reply to the caller. Some, as the protocol allows, only publish on `tool.result.<tool>`.
So a call listens there as well, until the tool has replied once; from then on a call costs no more
than the request. See decision 0028.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from local.bus.receiving import BusMessage, Handler, Headers, Subscription
from local.errors import BadRequestError, BusTimeoutError
from local.protocol import subjects
from local.protocol.envelope import Envelope, encode
from local.protocol.payloads import ToolResult
from local.protocol.tool_messages import read_result


class Bus(Protocol):
    """The part of a connection that calls of tools need."""

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        timeout: float,  # noqa: ASYNC109 - as a connection has it
        headers: Headers | None,
    ) -> BusMessage: ...
    async def subscribe(self, subject: str, handler: Handler) -> Subscription: ...


class _Call(msgspec.Struct, eq=False):
    """A request whose result the tool may publish."""

    request: Envelope[Any]
    result: asyncio.Future[ToolResult]
    saw_unaddressed: bool = False
    """Whether results came that do not name their request."""


class _Listening(msgspec.Struct, eq=False):
    """The one subscription to what a tool publishes, with the calls that wait for it, by request.

    A subscription for each call would bring every result to every call.
    """

    calls: dict[str, _Call] = msgspec.field(default_factory=dict)
    subscription: Subscription | None = None

    async def receive(self, message: BusMessage) -> None:
        try:
            published = read_result(message.data, message.headers)
        except BadRequestError:
            self._is_unaddressed(None)
            return
        if published.correlation_id is not None:
            call = self.calls.get(published.correlation_id)
        else:
            possible = [one for one in self.calls.values() if _may_answer(published, one.request)]
            call = possible[0] if len(possible) == 1 else None
            self._is_unaddressed(call)
        if call is not None and not call.result.done():
            call.result.set_result(published.payload)

    def _is_unaddressed(self, meant: _Call | None) -> None:
        for call in self.calls.values():
            call.saw_unaddressed |= call is not meant


class ToolResults:
    """One connection's knowledge of how each tool answers."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._replies: dict[str, bool] = {}
        """Whether a tool replies; False for good after a missing reply."""
        self._listening: dict[str, _Listening] = {}
        self._subscribing = asyncio.Lock()

    async def ask(
        self,
        tool: str,
        request: Envelope[Any],
        timeout: float,  # noqa: ASYNC109 - the caller chooses it
        headers: Headers | None = None,
    ) -> ToolResult:
        """Send a request; return the tool's reply, or the result that it publishes.

        Raises:
            NoRespondersError: Nobody serves the tool, which the server reports at once.
            BusTimeoutError: Somebody serves it, but did not answer within `timeout` seconds.
        """
        if self._replies.get(tool):
            try:
                return await self._reply(tool, request, timeout, headers)
            except BusTimeoutError:
                self._replies[tool] = False
                raise
        async with self._listening_to(tool, request) as call:
            reply = asyncio.create_task(self._reply(tool, request, timeout, headers))
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

    async def _reply(
        self, tool: str, request: Envelope[Any], seconds: float, headers: Headers | None
    ) -> ToolResult:
        subject, data = subjects.tool_request(tool), encode(request)
        answer = await self._bus.request(subject, data, timeout=seconds, headers=headers)
        return read_result(answer.data, answer.headers).payload

    @asynccontextmanager
    async def _listening_to(self, tool: str, request: Envelope[Any]) -> AsyncIterator[_Call]:
        """Subscribe to what the tool publishes, before the server gets the request."""
        call = _Call(request, asyncio.get_running_loop().create_future())
        async with self._subscribing:
            if (listening := self._listening.get(tool)) is None:
                listening = _Listening()
                listening.subscription = await self._bus.subscribe(
                    subjects.tool_result(tool), listening.receive
                )
                self._listening[tool] = listening
            listening.calls[request.id] = call
        try:
            yield call
        finally:
            del listening.calls[request.id]
            if not listening.calls and listening.subscription is not None:
                del self._listening[tool]
                await listening.subscription.leave()


def _may_answer(published: Envelope[ToolResult], request: Envelope[Any]) -> bool:
    """Return whether a result without `correlation_id` names the turn of this request."""
    turn = (request.session_id, request.query_id)
    return (
        any(turn)
        and (published.session_id, published.query_id) == turn
        and published.user in {None, request.user}
    )


def _without_answer(error: BusTimeoutError, tool: str, call: _Call) -> BusTimeoutError:
    """Return the error, with advice if results came that may have been meant for this call."""
    if not call.saw_unaddressed:
        return error
    return BusTimeoutError(
        error.message,
        remedy=f"What came on {subjects.tool_result(tool)} did not say whom it answers: the tool "
        "should set correlation_id to the request's id.",
    )
