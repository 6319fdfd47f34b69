"""The base of adapters: a memory that any thread may use, and the log of a session.

A connection lives in one loop, and frameworks call from plain functions and from any loop. So
adapters have a loop of their own, in a thread beside the program's, and open there what they need
when it is first used; or they work in the loop of an open memory. A log holds a session's items as
its framework wrote them, exactly and in order. Their messages are ingested, too, so that later
sessions find them. That is done first: a caller adds its items again after an error, and they must
not be in the log twice. What leaves the log is erased from the memory, if the role may erase.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext, suppress
from typing import Any, Generic, Self, TypeVar

import msgspec
import structlog

from local.client.items import Items
from local.client.memory import Memory, connect
from local.errors import ForbiddenError
from local.protocol.answers import Receipt
from local.protocol.conversation import IngestReport
from local.protocol.envelope import new_id
from local.protocol.items import ItemKey, ItemPut, StoredItem, check_size
from local.protocol.memories import RecalledItem
from local.protocol.payloads import Json, in_parts

R = TypeVar("R")
T = TypeVar("T")

_starting = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
PAGE = 1_000
"""Items read, or messages ingested, at once."""
REQUEST_BYTES = 300_000
"""Of the messages of one request, which may have 1 MB; a single one may be larger."""
FURTHER = ("label", "role", "topic", "session_id", "agent", "scope", "by", "source_ref")
"""Fields that not every memory has."""

log = structlog.get_logger()


class Background(Generic[R]):
    """Something that is opened at its first use, and again after it was closed.

    `open_`: makes the context in which it is open. `loop`: where, if not in the loop of all
    adapters.
    """

    def __init__(
        self,
        open_: Callable[[], AbstractAsyncContextManager[R]],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._open = open_
        self._loop = loop
        self._opening = asyncio.Lock()
        self._exits = AsyncExitStack()
        self._opened: list[R] = []

    async def do(self, work: Callable[[R], Awaitable[T]]) -> T:
        """Do the work while this loop goes on; cancelling it here cancels it there, too."""
        return await asyncio.wrap_future(self._begun(self._done(work)))

    def wait_for(self, work: Callable[[R], Awaitable[T]]) -> T:
        """Do the work while this thread waits; raise what `wait_in` raises."""
        return wait_in(self._loop or _loop(), self._done(work))

    async def aclose(self) -> None:
        await asyncio.wrap_future(self._begun(self._close()))

    def close(self) -> None:
        wait_in(self._loop or _loop(), self._close())

    def _begun(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop or _loop())

    async def _done(self, work: Callable[[R], Awaitable[T]]) -> T:
        async with self._opening:
            if not self._opened:
                self._opened = [await self._exits.enter_async_context(self._open())]
            (opened,) = self._opened
        return await work(opened)

    async def _close(self) -> None:
        async with self._opening:
            self._opened = []
            await self._exits.aclose()


def using(
    memory: Memory | None, options: Mapping[str, Any], agent: str | None = None
) -> Background[Memory]:
    """Use the open memory, as the caller that the options name; or one opened as `connect` does.

    Raises:
        TypeError: They name the memory's place, and an open one was given.
    """
    if memory is None:
        return Background(lambda: connect(**{"agent": agent, **options}))
    shared = memory.of(**options)
    return Background(lambda: nullcontext(shared), memory.loop)


def wait_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Do work in a loop while this thread waits.

    Raises:
        asyncio.InvalidStateError: The loop is this thread's own: it would wait without end.
    """
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is loop:
            work.close()
            raise asyncio.InvalidStateError(
                "This was called synchronously in the event loop of its memory; await the method "
                "of the same name with an `a` before it, as graph.ainvoke instead of invoke."
            )
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process's adapters, which ends with the process."""
    with _starting:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="local2", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and its content as a message to ingest, if it has any."""

    item: Json
    message: Json | None = None


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """The stored form of an entry; `memory` is the id of the record of its message.

    The item is a text, since Python's JSON may contain what strict readers refuse.
    """

    item: str
    memory: str | None = None

    @classmethod
    def of(cls, stored: StoredItem) -> Self:
        return msgspec.json.decode(bytes(stored.value), type=cls)

    @property
    def content(self) -> Json:
        content: Json = json.loads(self.item)
        return content


class SessionLog:
    """The log of one session, of one framework, in an open memory."""

    def __init__(self, memory: Memory, items: Items, session_id: str) -> None:
        self._memory = memory
        self._items = items
        self._session_id = session_id
        self._namespace = (session_id,)

    @classmethod
    def of(cls, memory: Memory, framework: str, session_id: str) -> Self:
        mine = memory.of(session=session_id)
        return cls(mine, mine.items(framework), session_id)

    async def append(self, entries: Sequence[Entry]) -> None:
        """Add items at the end; when it returns, they and their messages are stored.

        The items that fit into one message on the bus are stored all or none.

        Raises:
            TooLargeError: One of them does not fit into one; none is stored.
        """
        if not entries:
            return
        batch = await self._next_batch()
        keys = [f"{batch}.{number:06}" for number in range(len(entries))]
        logged = [Logged(item=json.dumps(entry.item)) for entry in entries]
        for key, one in zip(keys, logged, strict=True):
            check_size(self._put(key, one))
        memories = await self._ingested(
            [
                {**_sendable(entry.message), "id": key}
                for key, entry in zip(keys, entries, strict=True)
                if entry.message is not None
            ]
        )
        await self._items.put(
            [
                self._put(key, msgspec.structs.replace(one, memory=memories.get(key)))
                for key, one in zip(keys, logged, strict=True)
            ]
        )

    async def latest(self, limit: int | None = None) -> list[Json]:
        """Return the last items in their order; all of them if `limit` is None or below zero."""
        found: list[Json] = []
        if limit == 0:
            return found
        most = PAGE if limit is None or limit < 0 else limit
        newest = self._items.each_in(self._namespace, at_once=min(most, PAGE))
        async for stored in newest:
            found.append(Logged.of(stored).content)
            if len(found) == limit:
                break
        return found[::-1]

    async def pop(self) -> Json | None:
        """Remove the last item, and erase its message; None if there is none."""
        async for stored in self._items.each_in(self._namespace, at_once=1):
            logged = Logged.of(stored)
            if logged.memory is not None:
                await self._erased(self._memory.forget(id=logged.memory, allow_again=True))
            where = ItemKey(namespace=stored.namespace, key=stored.key)
            if await self._items.delete(keys=[where]):
                return logged.content
        return None

    async def clear(self) -> None:
        """Remove all items, and erase all that was ingested in the session."""
        await self._erased(self._memory.forget(session=self._session_id, allow_again=True))
        await self._items.delete(namespaces=[self._namespace])

    async def _next_batch(self) -> str:
        """Return the beginning of keys after all existing ones, whatever clocks show."""
        number = 0
        async for last in self._items.each_in(self._namespace, at_once=1):
            number = int(last.key.partition(".")[0]) + 1
            break
        return f"{number:012}.{new_id()}"

    async def _ingested(self, messages: Sequence[Json]) -> dict[str, str]:
        """Ingest messages; return the ids of their records by the messages' ids."""
        records: dict[str, str] = {}
        for part in in_parts(messages, _size, most_bytes=REQUEST_BYTES, most=PAGE):
            result = await self._memory.call(
                "ingest", messages=part, session_id=self._session_id, allow_again=True
            )
            report = msgspec.convert(result.data, IngestReport)
            left_out = {one.index for one in report.skipped}
            stored = [m["id"] for index, m in enumerate(part) if index not in left_out]
            records |= zip(stored, report.ids, strict=True)
        return records

    async def _erased(self, erasing: Awaitable[Receipt]) -> None:
        """Erase records; without the right to erase, as a caller without a name, they stay."""
        try:
            await erasing
        except ForbiddenError as error:
            log.warning("not_erased", reason=error.logged)

    def _put(self, key: str, logged: Logged) -> ItemPut:
        value = msgspec.Raw(msgspec.json.encode(logged))
        return ItemPut(namespace=self._namespace, key=key, value=value)


def _sendable(message: Json) -> Json:
    """Return the message without halves of characters, which models write and UTF-8 lacks."""
    sendable: Json = json.loads(json.dumps(message, ensure_ascii=False).encode(errors="replace"))
    return sendable


def _size(message: Json) -> int:
    return len(msgspec.json.encode(message))


def metadata_of(item: RecalledItem) -> Json:
    """Return its id, score and kind, where and when it comes from; and all other fields."""
    further = {name: getattr(item, name) for name in FURTHER}
    return {
        "id": item.id,
        "score": item.score,
        "kind": item.source_kind,
        "source": item.source_class,
        "when": item.event_time.isoformat(),
        **{name: value for name, value in further.items() if value is not None},
    }
