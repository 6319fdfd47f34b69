"""The benchmark's client: bare nats-py for both sides of a comparison, and its measurements."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import nats
import nats.errors
from nats.aio.client import Client

from harness.echo import ECHO, INSERT, MESSAGES
from harness.processes import running_echo, running_stack
from harness.report import percentile
from local2.bus.connection import Headers
from local2.bus.identity import bearer
from local2.bus.streams import turns_stream
from local2.protocol import subjects
from local2.protocol.envelope import DEFAULT_TENANT, decode, encode, new_id, seal
from local2.protocol.maintenance import MemoryStatus
from local2.protocol.memory_tools import RecalledItem, RecalledItems
from local2.protocol.payloads import Empty, ToolRequest, ToolResult
from local2.protocol.services import STATUS
from local2.tenants.credentials import Credentials

USER = "ada"
TIMEOUT = 30.0
POLL = 0.05
ASKING = 0.1
"""Maximum share of the time spent on status requests, which count everything that waits."""

Ask = Callable[[], Awaitable[object]]
Measure = Callable[[], Awaitable[float]]
T = TypeVar("T", bound=msgspec.Struct)


class Asker:
    """Sends requests to the stack and the echo responder; any answer but a success raises."""

    def __init__(self, client: Client, headers: Headers | None = None) -> None:
        self._client = client
        self._headers = headers

    async def tool(self, name: str, data: bytes, *, within: float = TIMEOUT) -> bytes:
        """Call a tool with the bytes that `request_of` made."""
        answer = await self._client.request(
            subjects.tool_request(name), data, timeout=within, headers=self._headers
        )
        if b'"ok":true' not in answer.data:
            raise AssertionError(answer.data.decode())
        return answer.data

    async def echo(self, data: bytes, size: int) -> None:
        """Have the responder send `size` bytes back."""
        await self._client.request(f"{ECHO}.{size}", data, timeout=TIMEOUT)

    async def insert(self, data: bytes, size: int) -> None:
        """Have the responder commit `data` and send `size` bytes back."""
        await self._client.request(f"{INSERT}.{size}", data, timeout=TIMEOUT)

    async def insert_messages(self, data: bytes, size: int) -> None:
        """Have the responder commit each message of a conversation, with its full text."""
        await self._client.request(f"{MESSAGES}.{size}", data, timeout=TIMEOUT)

    async def recall(self, query: str, *, user: str = USER, **args: object) -> list[RecalledItem]:
        """Return what a user's recall finds, best first."""
        answer = await self.tool("recall", request_as(user, query=query, **args))
        return data_of(answer, RecalledItems).items

    async def save(self, texts: Sequence[str], in_flight: int) -> None:
        """Save every text as a memory."""
        waiting = iter([request_of(content=text) for text in texts])

        async def some() -> None:
            for request in waiting:
                await self.tool("save_memory", request)

        await asyncio.gather(*(some() for _ in range(in_flight)))

    async def status(self, *, within: float = TIMEOUT) -> MemoryStatus:
        data = encode(seal(Empty(), type="request", source="benchmark"))
        answer = await self._client.request(
            STATUS.subject, data, timeout=within, headers=self._headers
        )
        return decode(answer.data, MemoryStatus).payload

    async def all_indexed(self, watch: Callable[[int], None] = lambda _: None) -> None:
        """Return when everything is read and indexed; `watch` is called with the number indexed."""
        while True:
            begun = time.perf_counter()
            status = await self.status()
            watch(status.indexed)
            done = status.waiting == status.unread == 0
            whole = done and status.in_index == status.indexed
            if whole and status.vectors_available:
                return
            await asyncio.sleep(max(POLL, (time.perf_counter() - begun) / ASKING))

    async def all_done(self) -> None:
        """Return when nothing waits; what is never indexed, as retired facts, does not count."""
        while True:
            status = await self.status()
            if status.waiting == status.unread == 0:
                return
            await asyncio.sleep(POLL)

    async def turn(self, user: str, session: str, query: str, answer: str) -> None:
        """Publish a turn, and return when the MemoryAgent has stored it."""
        payload = {"query": query, "answer": answer, "query_id": new_id(), "session_id": session}
        message = msgspec.json.encode({"user": user, "payload": payload})
        await self._client.jetstream().publish(subjects.RESPONSE_GENERATION, message)
        await self.turns_stored()

    async def turns_stored(self) -> None:
        """Return when all turns and ratings from JetStream are in the ledger, or refused."""
        stream = turns_stream(DEFAULT_TENANT)
        while True:
            if not (await self._client.jsm().stream_info(stream)).state.messages:
                return
            await asyncio.sleep(POLL)

    async def index_backlog(self) -> None:
        """Return when records written beside the stack are indexed; one save wakes the indexer."""
        await self.save([f"The backlog is complete: {new_id()}."], in_flight=1)
        await self.all_indexed()

    async def responder(self) -> None:
        """Return when the echo responder answers."""
        while True:
            try:
                await self.echo(b"", 1)
            except nats.errors.NoRespondersError:
                await asyncio.sleep(POLL)
            else:
                return


@asynccontextmanager
async def stack_and_echo(folder: Path) -> AsyncIterator[Asker]:
    """Run a stack on `folder` and the echo responder on its bus, ready for requests."""
    async with running_stack(folder) as url, running_echo(url, folder), asking(url) as asker:
        await asker.responder()
        yield asker


@asynccontextmanager
async def asking(url: str, credentials: Credentials | None = None) -> AsyncIterator[Asker]:
    """Connect, with credentials on behalf of the user of their token."""
    who: dict[str, Any] = {}
    if credentials is not None:
        who = {"nkeys_seed_str": credentials.seed, "inbox_prefix": credentials.inbox}
    client = await nats.connect(url, **who)
    try:
        yield Asker(client, bearer(credentials.token) if credentials else None)
    finally:
        await client.close()


def request_of(**args: object) -> bytes:
    """Return the bytes of a tool request from the benchmark's user."""
    return request_as(USER, **args)


def request_as(user: str, /, **args: object) -> bytes:
    """Return the bytes of a tool request from this user."""
    return encode(seal(ToolRequest(args=args), type="request", source="benchmark", user=user))


def data_of(answer: bytes, into: type[T]) -> T:
    """Return the structured part of a tool's answer."""
    return msgspec.convert(decode(answer, ToolResult).payload.data, into)


async def seconds(request: Awaitable[object]) -> float:
    """Return how long one request takes."""
    begun = time.perf_counter()
    await request
    return time.perf_counter() - begun


async def latency(ask: Ask, count: int, share: float = 0.5) -> float:
    """Return the seconds that this share of `count` sequential requests do not exceed."""
    return percentile([await seconds(ask()) for _ in range(count)], share)


async def throughput(ask: Ask, count: int, in_flight: int) -> float:
    """Return requests a second while `in_flight` of them are always in progress."""

    async def some() -> None:
        for _ in range(count // in_flight):
            await ask()

    together = asyncio.gather(*(some() for _ in range(in_flight)))
    return count // in_flight * in_flight / await seconds(together)


async def alternating(blocks: int, *measures: Measure) -> list[list[float]]:
    """Run the measures alternately, one value each per block; an extra first block warms up."""
    values: list[list[float]] = [[] for _ in measures]
    for block in range(blocks + 1):
        for measure, kept in zip(measures, values, strict=True):
            value = await measure()
            if block > 0:
                kept.append(value)
    return values
