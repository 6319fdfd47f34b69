"""Messages as they arrive, each in a task; and a tool's result, from wherever it comes first.

nats-py calls one callback after the other; a task for each message lets slow ones overlap, and
gives a stop something to wait for.

Most tools reply to the caller. Some, as the protocol allows, only publish on `tool.result.<tool>`.
So a call listens there as well, until the tool has replied once; from then on a call costs no more
than the request. See decision 0028.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

import msgspec
import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from local.errors import BadRequestError, BusTimeoutError, Local2Error
from local.protocol import subjects
from local.protocol.envelope import DEFAULT_TENANT, Envelope, encode
from local.protocol.payloads import ToolResult
from local.protocol.subjects import address_of
from local.protocol.tool_messages import read_result

Headers = dict[str, str]

log = structlog.get_logger()


class BusMessage(NamedTuple):
    """A message of the bus; `reply` is empty if nobody waits for an answer.

    `tenant` is what the server says, whose accounts it is known from; the subject is without it.
    """

    subject: str
    data: bytes
    reply: str = ""
    headers: Headers | None = None
    tenant: str = DEFAULT_TENANT


Handler = Callable[[BusMessage], Awaitable[None]]


class Subscription:
    """Runs a task for each message, at most `limit` at a time; with None, all at once.

    `by_tenant`: subjects say whose message it is.
    """

    def __init__(self, handler: Handler, limit: int | None, *, by_tenant: bool = False) -> None:
        self._handler = handler
        self._by_tenant = by_tenant
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._source: NatsSubscription | Fanout | None = None

    def attach(self, source: "NatsSubscription | Fanout") -> None:
        self._source = source

    async def dispatch(self, message: Msg) -> None:
        if self._slots is not None:
            await self._slots.acquire()
        task = asyncio.create_task(self._run(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, grace: float) -> None:
        """Receive no more messages; cancel those that are not done after `grace` seconds."""
        if (source := self._ending()) is not None:
            try:
                await source.drain()  # type: ignore[no-untyped-call]
            except (TimeoutError, nats.errors.Error) as error:
                log.warning("intake_not_drained", subject=source.subject, error=repr(error))
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                log.warning("requests_cancelled", count=len(late))
                await asyncio.wait(late)

    async def leave(self) -> None:
        """Receive no more messages, without the server; wait for those in progress."""
        if (source := self._ending()) is not None:
            with suppress(nats.errors.Error):  # without a connection no messages come either
                await source.unsubscribe()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _ending(self) -> NatsSubscription | None:
        """What ends with this one: nothing where others receive from the same."""
        source = self._source
        if isinstance(source, Fanout):
            source = source.leave(self)
        return None if source is None or source._closed else source  # noqa: SLF001

    def _received(self, message: Msg) -> BusMessage:
        plain = BusMessage(message.subject, message.data, message.reply, message.headers)
        if self._by_tenant and (address := address_of(message.subject)) is not None:
            return plain._replace(subject=address.subject, tenant=address.tenant)
        return plain

    async def _run(self, message: Msg) -> None:
        try:
            await self._handler(self._received(message))
        except Local2Error as error:  # its message says what was wrong
            log.warning("message_failed", subject=message.subject, reason=error.message)
        except Exception:
            log.exception("handler_failed", subject=message.subject)
        finally:
            if self._slots is not None:
                self._slots.release()


class Fanout:
    """What is asked of all participants of a connection, received once and handed to each.

    The server sends a message once for every subscription: to fifty tools, fifty times.
    """

    def __init__(self) -> None:
        self.source: NatsSubscription | None = None
        self._receivers: list[Subscription] = []

    @property
    def is_left(self) -> bool:
        """Whether nobody receives from it."""
        return not self._receivers

    def join(self, receiver: Subscription) -> None:
        self._receivers.append(receiver)
        receiver.attach(self)

    def leave(self, receiver: Subscription) -> NatsSubscription | None:
        """Hand the receiver no more; the server's subscription if it was the last."""
        if receiver not in self._receivers:
            return None
        self._receivers.remove(receiver)
        return self.source if self.is_left else None

    async def dispatch(self, message: Msg) -> None:
        for receiver in tuple(self._receivers):
            await receiver.dispatch(message)


class Fanouts:
    """Those of one connection, by their subjects."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._there: dict[str, Fanout] = {}

    async def join(self, subject: str, receiver: Subscription) -> None:
        """Receive with the others, and from the server if it is the first."""
        fanout = self._there.get(subject)
        if fanout is not None and not fanout.is_left:
            fanout.join(receiver)
            return
        fanout = self._there[subject] = Fanout()
        fanout.join(receiver)
        try:
            fanout.source = await self._client.subscribe(subject, cb=fanout.dispatch)
        except BaseException:
            del self._there[subject]
            raise


class Bus(Protocol):
    """What of a connection is needed to ask a tool."""

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
    """Whether results came that do not say which request they answer."""


class _Listening(msgspec.Struct, eq=False):
    """The one subscription to what a tool publishes, and the calls that it is for, by request.

    One for each call would bring every result to every call.
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
    """What one connection knows about how each tool answers."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._replies: dict[str, bool] = {}
        """Whether a tool replies; False for good once a reply did not come."""
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
        async with self._heard(tool, request) as call:
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
    async def _heard(self, tool: str, request: Envelope[Any]) -> AsyncIterator[_Call]:
        """Listen to what the tool publishes, from before the server gets the request."""
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
    """Whether a result without `correlation_id` names the turn of this request."""
    turn = (request.session_id, request.query_id)
    return (
        any(turn)
        and (published.session_id, published.query_id) == turn
        and published.user in {None, request.user}
    )


def _without_answer(error: BusTimeoutError, tool: str, call: _Call) -> BusTimeoutError:
    """The error, with advice if results came that might have been meant for this call."""
    if not call.saw_unaddressed:
        return error
    return BusTimeoutError(
        error.message,
        remedy=f"What came on {subjects.tool_result(tool)} did not say whom it answers: the tool "
        "should set correlation_id to the request's id.",
    )
