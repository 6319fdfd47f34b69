"""The memory's events as server-sent events, while a client listens."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus

import msgspec
from starlette.types import Message, Receive, Scope, Send

from local2.background import in_background
from local2.client import BusMessage, Connection
from local2.errors import BusError
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.payloads import Json
from local2.web.answers import HttpAnswer

KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment shows the client that the server is there."""
SEND_SECONDS = 30.0
"""Seconds after which a client that reads nothing is disconnected."""
MAX_WAITING = 1_000
"""Maximum number of events that wait for a slow client, which is disconnected then."""
RETRY = b"retry: 1000\n\n"
"""Tells clients to come back after a second if the connection ends."""
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
]


class EventStream:
    """Sends the events that happen from now on.

    It ends when the client is gone or too slow, when the stack is lost, or at `until`, in seconds
    since 1970. `only_changes`: leave out whom and which topic an event is about, since a person may
    not know that of others.
    """

    def __init__(
        self, bus: Connection, *, until: float, only_changes: bool, on_end: Callable[[], None]
    ) -> None:
        self._bus = bus
        self._until = until
        self._only_changes = only_changes
        self._on_end = on_end
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as resources:
            resources.callback(self._on_end)
            try:
                for subject in subjects.EVENTS:
                    subscription = await self._bus.subscribe(subject, self._receive, limit=1)
                    resources.push_async_callback(subscription.leave, 0)
                await self._bus.flush()
            except BusError as error:
                await HttpAnswer.for_error(error).response()(scope, receive, send)
                return

            async def end_after(ending: Awaitable[object]) -> None:
                await ending
                self._waiting.put_nowait(None)

            await in_background(
                resources,
                events_client=end_after(until_gone(receive)),
                events_bus=end_after(self._bus.lost.wait()),
            )
            await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": HEADERS})
            await send(_part(RETRY))
            while (seconds := self._until - time.time()) > 0:
                try:
                    async with asyncio.timeout(min(KEEP_ALIVE, seconds)):
                        event = await self._waiting.get()
                except TimeoutError:
                    event = b": still here\n\n"
                if event is None or self._waiting.qsize() > MAX_WAITING:
                    break
                try:
                    async with asyncio.timeout(SEND_SECONDS):
                        await send(_part(event))
                except TimeoutError:  # it would not read an end, either
                    return
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _receive(self, message: BusMessage) -> None:
        envelope = decode(message.data, Json)
        if self._only_changes:
            payload = {name: envelope.payload[name] for name in envelope.payload if name != "topic"}
            envelope = msgspec.structs.replace(
                envelope, payload=payload, user=None, session_id=None, query_id=None
            )
        data = msgspec.json.encode(envelope)
        if self._waiting.qsize() <= MAX_WAITING:
            self._waiting.put_nowait(b"event: %s\ndata: %s\n\n" % (message.subject.encode(), data))


async def until_gone(receive: Receive) -> None:
    """Wait until the client of a request has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}
