"""Participants: they serve subjects of the bus, with a lifecycle and statistics.

Every participant answers the discovery requests of NATS services (`$SRV`, ADR-32), so that `nats
micro` lists it like any other service. Decision 0003 explains why nats-py's services are not used.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Self

import msgspec

from local2._version import __version__
from local2.bus.connection import (
    CONCURRENT_MESSAGES,
    BusMessage,
    Connection,
    Handler,
    Headers,
    Interest,
    Subscription,
)
from local2.bus.identity import is_genuine
from local2.bus.receiving import instrument, leave_all, stop_all
from local2.errors import ForbiddenError, Local2Error
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import encode, new_id, seal, utc_now
from local2.protocol.payloads import ErrorReply, ToolResult

STOP_GRACE = 5.0
"""Seconds for requests in progress to finish when a participant stops. Most take milliseconds, and
stopping should not take long."""

Answer = Callable[[BusMessage], Awaitable[msgspec.Struct]]
"""Returns the payload of the answer, or raises the error to answer with."""

log = get_logger()


class ServiceEndpoint(msgspec.Struct, kw_only=True):
    """A subject that a participant serves, with the figures that `$SRV.STATS` reports."""

    name: str
    subject: str
    handler: Handler
    queue: str
    limit: int | None
    metadata: dict[str, str]
    tenant: str | None = subjects.ANY_TENANT
    inner: bool = False
    requests: int = 0
    errors: int = 0
    last_error: str = ""
    busy_ns: int = 0


class Participant:
    """Serves its endpoints while its context lasts, and stops cleanly when it ends.

    Subclasses add endpoints in `__init__`, and may override `started` and `stopping`.
    """

    def __init__(self, bus: Connection, *, name: str, description: str) -> None:
        self.bus = bus
        self.name = name
        self.description = description
        self.id = new_id()
        self.started_at = utc_now()
        self._endpoints: list[ServiceEndpoint] = []
        self._subscriptions: list[Subscription] = []

    def serve(
        self,
        subject: str,
        handler: Handler,
        *,
        queue: str = "",
        limit: int | None = CONCURRENT_MESSAGES,
        metadata: dict[str, str] | None = None,
        tenant: str | None = subjects.ANY_TENANT,
        inner: bool = False,
    ) -> ServiceEndpoint:
        """Add an endpoint; call this before the participant starts.

        Without a queue, every copy of the participant receives every message. `limit` and `tenant`
        are passed to `Connection.subscribe`. An `inner` endpoint is for the stack's own processes
        and refuses unsigned messages.
        """
        endpoint = ServiceEndpoint(
            name=subject.replace(".", "_").replace("*", "any"),
            subject=subject,
            handler=handler,
            queue=queue,
            limit=limit,
            metadata=metadata or {},
            tenant=None if inner else tenant,
            inner=inner,
        )
        self._endpoints.append(endpoint)
        return endpoint

    def answer(
        self,
        subject: str,
        answer: Answer,
        *,
        type: str = "answer",  # noqa: A002 - the envelope's name for it
        queue: str | None = None,
        limit: int | None = CONCURRENT_MESSAGES,
        tenant: str | None = subjects.ANY_TENANT,
        inner: bool = False,
    ) -> None:
        """Add an endpoint that answers every request, with a payload or with an error.

        `queue` is by default the name of the participant; the rest is as in `serve`.
        """

        async def handle(message: BusMessage) -> None:
            headers: Headers | None = None
            try:
                data = encode(seal(await answer(message), type=type, source=self.name))
                self.bus.check_answer(message, data)
            except Local2Error as error:
                data, headers = self._error_reply(endpoint, error)
            except Exception as error:
                log.exception("request_failed", subject=subject)
                fault = f"The {self.name} failed: {error.__class__.__name__}; its log says where."
                data, headers = self._error_reply(endpoint, Local2Error(fault))
            await self.bus.answer(message, data, headers)

        endpoint = self.serve(
            subject,
            handle,
            queue=self.name if queue is None else queue,
            limit=limit,
            tenant=tenant,
            inner=inner,
        )

    async def acknowledge(self, message: BusMessage, result: ToolResult) -> None:
        """Send the result to the sender, if it waits for a reply."""
        if message.reply:
            data = encode(seal(result, type="result", source=self.name))
            headers = result.error.headers() if result.error else None
            await self.bus.answer(message, data, headers)

    async def started(self) -> None:
        """Called once every endpoint is being served."""

    async def stopping(self) -> None:
        """Called when no more messages arrive and those in progress are done."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._stop)
            interests = (*map(self._interest, self._endpoints), *self._discovery())
            self._subscriptions = await self.bus.subscribe_all(interests)
            await self.bus.flush()
            await self.started()
            undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def leave(self) -> None:
        """Stop receiving at once, even without a server; messages in progress get STOP_GRACE."""
        leaving, self._subscriptions = self._subscriptions, []
        await leave_all(leaving, STOP_GRACE)

    async def _stop(self) -> None:
        ending, self._subscriptions = self._subscriptions, []
        try:
            await stop_all(ending, STOP_GRACE)
        finally:  # also if whoever stops it is cancelled
            await self.stopping()

    def _discovery(self) -> Iterator[Interest]:
        """Answer ADR-32: the discovery of all participants, of those of this name, of this one."""

        async def reply(describe: Callable[[], ServiceAnswer], message: BusMessage) -> None:
            if message.reply:
                await self.bus.answer(message, encode(describe()))

        answers = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}
        for verb, describe in answers.items():
            for address in ((), (self.name,), (self.name, self.id)):
                yield Interest(subjects.discovery(verb, *address), partial(reply, describe))

    def _interest(self, endpoint: ServiceEndpoint) -> Interest:
        async def handle(message: BusMessage) -> None:
            started_at_ns = time.perf_counter_ns()
            try:
                if endpoint.inner and not is_genuine(self.bus.secret, message):
                    error = ForbiddenError(f"{endpoint.subject} is for the stack's own processes.")
                    data, headers = self._error_reply(endpoint, error)
                    await self.bus.answer(message, data, headers)
                else:
                    await endpoint.handler(message)
            finally:
                endpoint.requests += 1
                endpoint.busy_ns += time.perf_counter_ns() - started_at_ns

        return Interest(
            endpoint.subject,
            instrument(self.name, endpoint.subject, handle),
            queue=endpoint.queue,
            limit=endpoint.limit,
            tenant=endpoint.tenant,
        )

    def _error_reply(self, endpoint: ServiceEndpoint, error: Local2Error) -> tuple[bytes, Headers]:
        """Count a failed request; return the data and headers of the answer."""
        endpoint.errors += 1
        endpoint.last_error = error.code
        reply = ErrorReply.of(error)
        return encode(seal(reply, type="error", source=self.name)), reply.headers()

    def _ping(self) -> "ServiceAnswer":
        return ServiceAnswer(type="io.nats.micro.v1.ping_response", name=self.name, id=self.id)

    def _info(self) -> "ServiceAnswer":
        return ServiceAnswer(
            type="io.nats.micro.v1.info_response",
            name=self.name,
            id=self.id,
            description=self.description,
            endpoints=[
                EndpointAnswer(
                    name=endpoint.name,
                    subject=endpoint.subject,
                    queue_group=endpoint.queue,
                    metadata=endpoint.metadata,
                )
                for endpoint in self._endpoints
            ],
        )

    def _stats(self) -> "ServiceAnswer":
        return ServiceAnswer(
            type="io.nats.micro.v1.stats_response",
            name=self.name,
            id=self.id,
            started=self.started_at.isoformat().replace("+00:00", "Z"),
            endpoints=[
                EndpointAnswer(
                    name=endpoint.name,
                    subject=endpoint.subject,
                    queue_group=endpoint.queue,
                    num_requests=endpoint.requests,
                    num_errors=endpoint.errors,
                    last_error=endpoint.last_error,
                    processing_time=endpoint.busy_ns,
                    average_processing_time=endpoint.busy_ns // max(endpoint.requests, 1),
                )
                for endpoint in self._endpoints
            ],
        )


class EndpointAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One endpoint in an answer to `$SRV.INFO` or `$SRV.STATS`; times are in nanoseconds."""

    name: str
    subject: str
    queue_group: str
    metadata: dict[str, str] | None = None
    num_requests: int | None = None
    num_errors: int | None = None
    last_error: str | None = None
    processing_time: int | None = None
    average_processing_time: int | None = None


class ServiceAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to `$SRV.PING`, `INFO` or `STATS`, in the form of ADR-32."""

    type: str
    name: str
    id: str
    version: str = msgspec.field(default_factory=lambda: __version__)
    metadata: dict[str, str] = msgspec.field(default_factory=lambda: {"system": "local2"})
    description: str | None = None
    started: str | None = None
    endpoints: list[EndpointAnswer] | None = None
