"""A participant: an asyncio unit on the bus with a life cycle and a place in `$SRV` discovery."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Self

import msgspec

from local import __version__
from local.bus.connection import Connection, Handler, Message, Subscription
from local.bus.failure import failure
from local.bus.signature import is_genuine
from local.errors import ForbiddenError
from local.protocol import subjects
from local.protocol.codec import encode
from local.protocol.envelope import new_id, utc_now

STOP_GRACE = 5.0
"""Seconds that requests under way get to finish when a participant stops."""


class Endpoint(msgspec.Struct, kw_only=True):
    """What a participant serves, and the figures `$SRV.STATS` reports (ADR-32)."""

    name: str
    subject: str
    handler: Handler
    queue: str
    limit: int | None
    metadata: dict[str, str]
    inner: bool = False
    requests: int = 0
    errors: int = 0
    last_error: str = ""
    busy_ns: int = 0


class Participant:
    """Serves its endpoints from the start of the context to its end, when it stops cleanly.

    Subclasses add endpoints in `__init__` and may override `started` (announce) and `stopping`.
    """

    def __init__(self, bus: Connection, *, name: str, description: str) -> None:
        self.bus = bus
        self.name = name
        self.description = description
        self.id = new_id()
        self.started_at = utc_now()
        self._endpoints: list[Endpoint] = []
        self._subscriptions: list[Subscription] = []

    def serve(  # noqa: PLR0913 - what an endpoint is
        self,
        subject: str,
        handler: Handler,
        *,
        queue: str = "",
        limit: int | None = 256,
        metadata: dict[str, str] | None = None,
        inner: bool = False,
    ) -> Endpoint:
        """Add an endpoint, before the participant starts; without a queue all copies hear all.

        `limit`: as in `Connection.subscribe`. An inner one is for the stack's own processes: what
        others send is refused.
        """
        endpoint = Endpoint(
            name=subject.replace(".", "_").replace("*", "any"),
            subject=subject,
            handler=handler,
            queue=queue,
            limit=limit,
            metadata=metadata or {},
            inner=inner,
        )
        self._endpoints.append(endpoint)
        return endpoint

    async def started(self) -> None:
        """Run once every endpoint is being served."""

    async def stopping(self) -> None:
        """Run when no more messages come in and those under way are done."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._end)
            for endpoint in self._endpoints:
                self._subscriptions.append(
                    await self.bus.subscribe(
                        endpoint.subject,
                        self._counted(endpoint),
                        queue=endpoint.queue,
                        limit=endpoint.limit,
                    )
                )
            for subject, answer in self._discovery():
                self._subscriptions.append(await self.bus.subscribe(subject, answer))
            await self.bus.flush()
            await self.started()
            undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def leave(self) -> None:
        """Hear nothing more, at once and without asking the server; what is under way goes on."""
        leaving, self._subscriptions = self._subscriptions, []
        await asyncio.gather(*(subscription.leave() for subscription in leaving))

    async def _end(self) -> None:
        await asyncio.gather(*(one.stop(STOP_GRACE) for one in self._subscriptions))
        self._subscriptions.clear()
        await self.stopping()

    def _counted(self, endpoint: Endpoint) -> Handler:
        async def handle(message: Message) -> None:
            begun = time.perf_counter_ns()
            try:
                if endpoint.inner and not is_genuine(self.bus.secret, message):
                    await self._refuse(endpoint, message)
                else:
                    await endpoint.handler(message)
            finally:
                endpoint.requests += 1
                endpoint.busy_ns += time.perf_counter_ns() - begun

        return handle

    async def _refuse(self, endpoint: Endpoint, message: Message) -> None:
        error = ForbiddenError(f"{endpoint.subject} is for the stack's own processes.")
        endpoint.errors += 1
        endpoint.last_error = error.code
        if message.reply:
            data, headers = failure(error, source=self.name)
            await self.bus.publish(message.reply, data, headers=headers)

    def _discovery(self) -> Iterator[tuple[str, Handler]]:
        """The subjects of ADR-32 and who answers on them."""
        answers = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}
        for verb, answer in answers.items():
            for address in ((), (self.name,), (self.name, self.id)):
                yield subjects.discovery(verb, *address), self._answering(answer)

    def _answering(self, answer: "Callable[[], ServiceAnswer]") -> Handler:
        async def handle(message: Message) -> None:
            if message.reply:
                await self.bus.publish(message.reply, encode(answer()))

        return handle

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
                    name=e.name, subject=e.subject, queue_group=e.queue, metadata=e.metadata
                )
                for e in self._endpoints
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
                    name=e.name,
                    subject=e.subject,
                    queue_group=e.queue,
                    num_requests=e.requests,
                    num_errors=e.errors,
                    last_error=e.last_error,
                    processing_time=e.busy_ns,
                    average_processing_time=e.busy_ns // max(e.requests, 1),
                )
                for e in self._endpoints
            ],
        )


class EndpointAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One endpoint in an answer to `$SRV.INFO` or `$SRV.STATS`; times in nanoseconds."""

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
    """Answer to `$SRV.PING`, `INFO` or `STATS`, in the shape of ADR-32."""

    type: str
    name: str
    id: str
    version: str = msgspec.field(default_factory=lambda: __version__)
    metadata: dict[str, str] = msgspec.field(default_factory=lambda: {"system": "local2"})
    description: str | None = None
    started: str | None = None
    endpoints: list[EndpointAnswer] | None = None
