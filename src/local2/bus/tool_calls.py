"""Call a tool and return its result, whether the tool replies or only publishes it.

Most tools reply to the caller. The protocol also allows a tool to only publish on
`tool.result.<tool>`. So a call also listens there, until the tool has replied once; from then on, a
call costs no more than the request. See decision 0005.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from local2.background import give_up
from local2.bus.receiving import BusMessage, Handler, Headers, Subscription
from local2.errors import BadRequestError, BusTimeoutError
from local2.protocol import subjects
from local2.protocol.envelope import Envelope
from local2.protocol.lenient.tools import read_result
from local2.protocol.payloads import ToolResult

REPLY_GRACE = 0.05
"""Seconds after the first published result of a tool within which its reply shows that it replies.
Our tools send the reply first, but the one may be processed before the other."""
RELIED_ON_AGAIN = 10
"""Replies after which a tool that once failed to reply is relied on again."""


class Bus(Protocol):
    """The part of a connection that tool calls need."""

    async def request_until_answered(
        self,
        subject: str,
        request: Envelope[Any],
        *,
        running: str,
        timeout: float,  # noqa: ASYNC109 - as in Connection
        headers: Headers | None,
    ) -> BusMessage: ...
    async def subscribe(self, subject: str, handler: Handler) -> Subscription: ...


class _Call(msgspec.Struct, eq=False):
    """A request whose result the tool may publish."""

    request: Envelope[Any]
    result: asyncio.Future[ToolResult]
    saw_unaddressed: bool = False
    """Whether results arrived that do not name the request they answer."""


class _PublishedResults(msgspec.Struct, eq=False):
    """The subscription to a tool's published results, and the waiting calls by request id.

    All calls share one subscription; otherwise every call would receive every result.
    """

    calls: dict[str, _Call] = msgspec.field(default_factory=dict)
    subscription: Subscription | None = None

    async def receive(self, message: BusMessage) -> None:
        try:
            published = read_result(message.data, message.headers)
        except BadRequestError:
            self._note_unaddressed(None)
            return
        if published.correlation_id is not None:
            call = self.calls.get(published.correlation_id)
        else:
            # It answers the only call of the turn that it names, if there is one.
            turn = (published.session_id, published.query_id)
            candidates = [
                call
                for call in self.calls.values()
                if any(turn)
                and (call.request.session_id, call.request.query_id) == turn
                and published.user in {None, call.request.user}
            ]
            call = candidates[0] if len(candidates) == 1 else None
            self._note_unaddressed(call)
        if call is not None and not call.result.done():
            call.result.set_result(published.payload)

    def _note_unaddressed(self, answered: _Call | None) -> None:
        for call in self.calls.values():
            call.saw_unaddressed |= call is not answered


class ToolCaller:
    """Calls tools over one connection, and remembers which of them reply."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._replies: dict[str, int] = {}
        """How often each tool has replied since it last failed to; 0 if it only publishes."""
        self._needed: dict[str, int] = {}
        """After how many replies the tools that once failed to reply are relied on again."""
        self._published: dict[str, _PublishedResults] = {}
        self._subscribing = asyncio.Lock()

    async def call(
        self,
        tool: str,
        request: Envelope[Any],
        timeout: float,  # noqa: ASYNC109 - the caller chooses it
        headers: Headers | None = None,
    ) -> ToolResult:
        """Send a request; return the tool's reply, or the result that it publishes.

        Raises:
            NoRespondersError: Nobody serves the tool (`Connection.request_patiently`).
            BusTimeoutError: Somebody serves it, but did not answer within `timeout` seconds.
        """
        if self._replies.get(tool, 0) >= self._needed.get(tool, 1):
            try:
                return await self._reply(tool, request, timeout, headers)
            except BusTimeoutError:
                self._replies[tool] = 0
                self._needed[tool] = RELIED_ON_AGAIN
                raise
        async with self._listen(tool, request) as call:
            reply = asyncio.create_task(self._reply(tool, request, timeout, headers))
            try:
                await asyncio.wait((reply, call.result), return_when=asyncio.FIRST_COMPLETED)
                if call.result.done():
                    if tool not in self._replies:  # it may reply as well, a moment later
                        await asyncio.wait((reply,), timeout=REPLY_GRACE)
                        # A late reply is no missing one: a later call may still show it.
                        self._replies[tool] = 0
                    self._note_reply(tool, reply)
                    return call.result.result()
                result = reply.result()
                self._note_reply(tool, reply)
            except BusTimeoutError as error:
                if not call.saw_unaddressed:
                    raise
                raise BusTimeoutError(  # results arrived that may have been meant for this call
                    error.message,
                    remedy=f"Results on {subjects.tool_result(tool)} did not name the request that "
                    "they answer: the tool should set correlation_id to the request's id.",
                ) from error
            finally:
                await give_up(reply)
        return result

    def _note_reply(self, tool: str, reply: asyncio.Task[ToolResult]) -> None:
        """Note that the tool replies, if this reply has arrived."""
        if reply.done() and reply.exception() is None:
            self._replies[tool] = self._replies.get(tool, 0) + 1

    async def _reply(
        self, tool: str, request: Envelope[Any], seconds: float, headers: Headers | None
    ) -> ToolResult:
        answer = await self._bus.request_until_answered(
            subjects.tool_request(tool),
            request,
            running=subjects.tool_running(tool),
            timeout=seconds,
            headers=headers,
        )
        return read_result(answer.data, answer.headers).payload

    @asynccontextmanager
    async def _listen(self, tool: str, request: Envelope[Any]) -> AsyncIterator[_Call]:
        """Listen to the tool's published results; enter before sending the request."""
        call = _Call(request, asyncio.get_running_loop().create_future())
        async with self._subscribing:
            if (published_results := self._published.get(tool)) is None:
                published_results = _PublishedResults()
                published_results.subscription = await self._bus.subscribe(
                    subjects.tool_result(tool), published_results.receive
                )
                self._published[tool] = published_results
            published_results.calls[request.id] = call
        try:
            yield call
        finally:
            del published_results.calls[request.id]
            if not published_results.calls and published_results.subscription is not None:
                del self._published[tool]
                await published_results.subscription.leave()
