"""What adapters share: a memory that any thread may use, context for prompts, a session's log.

A connection belongs to one event loop, while frameworks call from plain functions and from any
loop. So adapters run in the loop of an open memory that they are given, or else in a common loop in
a background thread, where they open a memory on first use.

A log holds a session's items exactly and in the order in which the framework wrote them. Their
messages are ingested, too, so that later sessions find them. Ingesting comes first: callers add
their items again after an error, and items must not be in the log twice. Items removed from the log
are erased from the memory if the role may erase.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import Any, Generic, Self, TypeVar

import msgspec
import structlog

from local2.client.blocking import wait_in
from local2.client.items import Items
from local2.client.memory import Memory, connect
from local2.errors import ForbiddenError
from local2.prompt_context import (
    FOREWORD,
    MAX_QUERY_CHARACTERS,
    MEMORY_SECTION,
    SEARCHED_ITEMS,
    recalled_lines,
)
from local2.protocol.conversation import IngestReport
from local2.protocol.envelope import new_id
from local2.protocol.items import ItemKey, ItemPut, StoredItem, check_item_size
from local2.protocol.memory_tools import RecalledItem, RecalledItems, Receipt
from local2.protocol.payloads import Json, split_into_parts
from local2.quoting import section

R = TypeVar("R")
T = TypeVar("T")

_loop_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []
PAGE = 1_000
"""Maximum number of items read, or messages ingested, in one request."""
REQUEST_BYTES = 300_000
"""Maximum bytes of the messages in one request, which may have 1 MB. A single message may be
larger."""
OPTIONAL_FIELDS = ("label", "role", "topic", "session_id", "agent", "scope", "by", "source_ref")
"""Fields of a recalled item that may be None."""

log = structlog.get_logger()


class LazyResource(Generic[R]):
    """A resource that is opened on first use, and again after it was closed.

    `open_` returns the context in which it is open. `loop` is the event loop for it; None means the
    common loop of all adapters.
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
        """Do work without blocking this loop. Cancelling it here cancels it there, too."""
        return await asyncio.wrap_future(self._start(self._run(work)))

    def wait_for(self, work: Callable[[R], Awaitable[T]]) -> T:
        """Do work while this thread waits. Raises what `wait_in` raises."""
        return wait_in(self._loop or _adapter_loop(), self._run(work))

    async def aclose(self) -> None:
        await asyncio.wrap_future(self._start(self._close()))

    def close(self) -> None:
        wait_in(self._loop or _adapter_loop(), self._close())

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop or _adapter_loop())

    async def _run(self, work: Callable[[R], Awaitable[T]]) -> T:
        async with self._opening:
            if not self._opened:
                self._opened = [await self._exits.enter_async_context(self._open())]
            (opened,) = self._opened
        return await work(opened)

    async def _close(self) -> None:
        async with self._opening:
            self._opened = []
            await self._exits.aclose()


class Adapter:
    """An adapter whose memory any thread may close; the next call opens another one.

    A memory that is shared stays open.
    """

    _memory: LazyResource[Memory]

    def close(self) -> None:
        self._memory.close()

    async def aclose(self) -> None:
        await self._memory.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncAdapter:
    """An adapter whose memory is closed by awaiting; the next call opens another one.

    A memory that is shared stays open.
    """

    _memory: LazyResource[Memory]

    async def close(self) -> None:
        await self._memory.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def background_memory(
    memory: Memory | None, options: Mapping[str, Any], agent: str | None = None
) -> LazyResource[Memory]:
    """An open memory for the caller that the options name, or one that `connect` opens.

    Raises:
        TypeError: An open memory was given, and the options name more than a caller.
    """
    if memory is None:
        return LazyResource(lambda: connect(**{"agent": agent, **options}))
    shared = memory.of(**options)
    return LazyResource(lambda: nullcontext(shared), memory.loop)


def _adapter_loop() -> asyncio.AbstractEventLoop:
    """The common loop of this process's adapters, which ends with the process."""
    with _loop_lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="local2", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


async def recalled_context(memory: Memory, message: str, session_id: str) -> str | None:
    """What earlier sessions say about a message, quoted for a prompt; None if there is nothing.

    What was said in this session is left out.
    """
    if not message.strip():
        return None
    result = await memory.of(session=session_id).call(
        "recall", query=message[:MAX_QUERY_CHARACTERS], top_k=SEARCHED_ITEMS, continues=True
    )
    found = msgspec.convert(result.data, RecalledItems).items
    lines = recalled_lines(message, found, session_id).values()
    return section(MEMORY_SECTION, [FOREWORD, *lines]) if lines else None


class LoggedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An item, and its content as a message to ingest; None if it has nothing to find."""

    item: Json
    message: Json | None = None


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """The stored form of an entry. `memory` is the id of the record of its message.

    The item is stored as text, since Python's JSON may contain values that strict readers refuse.
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
    """The log of one session of a framework, in an open memory."""

    def __init__(self, memory: Memory, items: Items, session_id: str) -> None:
        self._memory = memory
        self._items = items
        self._session_id = session_id
        self._namespace = (session_id,)

    @classmethod
    def of(cls, memory: Memory, framework: str, session_id: str) -> Self:
        in_session = memory.of(session=session_id)
        return cls(in_session, in_session.items(framework), session_id)

    async def append(self, entries: Sequence[LoggedEntry]) -> None:
        """Append items; when this returns, they and their messages are stored.

        Items that fit into one message on the bus are stored together or not at all.

        Raises:
            TooLargeError: One item does not fit into a message; none is stored.
        """
        if not entries:
            return
        # The prefix of the keys sorts after all existing keys, whatever clocks show.
        number = 0
        async for last in self._items.each_in(self._namespace, page_size=1):
            number = int(last.key.partition(".")[0]) + 1
            break
        batch = f"{number:012}.{new_id()}"
        keys = [f"{batch}.{number:06}" for number in range(len(entries))]
        logged = [Logged(item=json.dumps(entry.item)) for entry in entries]
        for key, item in zip(keys, logged, strict=True):
            check_item_size(self._put(key, item))
        messages = []
        for key, entry in zip(keys, entries, strict=True):
            if entry.message is not None:
                # Models write lone surrogates, which UTF-8 cannot encode.
                text = json.dumps(entry.message, ensure_ascii=False).encode(errors="replace")
                messages.append({**json.loads(text), "id": key})
        memories: dict[str, str] = {}  # the ids of the messages' records
        for part in split_into_parts(
            messages,
            lambda message: len(msgspec.json.encode(message)),
            max_bytes=REQUEST_BYTES,
            max_items=PAGE,
        ):
            result = await self._memory.call(
                "ingest", messages=part, session_id=self._session_id, allow_again=True
            )
            report = msgspec.convert(result.data, IngestReport)
            left_out = {skipped.index for skipped in report.skipped}
            stored = [m["id"] for index, m in enumerate(part) if index not in left_out]
            memories |= zip(stored, report.ids, strict=True)
        await self._items.put(
            [
                self._put(key, msgspec.structs.replace(item, memory=memories.get(key)))
                for key, item in zip(keys, logged, strict=True)
            ]
        )

    async def latest(self, limit: int | None = None) -> list[Json]:
        """The last items in their order; all of them if `limit` is None or negative."""
        found: list[Json] = []
        if limit == 0:
            return found
        page = PAGE if limit is None or limit < 0 else min(limit, PAGE)
        newest = self._items.each_in(self._namespace, page_size=page)
        async for stored in newest:
            found.append(Logged.of(stored).content)
            if len(found) == limit:
                break
        return found[::-1]

    async def pop(self) -> Json | None:
        """Remove the last item and erase its message; return the item, or None if there is none."""
        async for stored in self._items.each_in(self._namespace, page_size=1):
            logged = Logged.of(stored)
            if logged.memory is not None:
                await self._erase(self._memory.forget(id=logged.memory, allow_again=True))
            key = ItemKey(namespace=stored.namespace, key=stored.key)
            if await self._items.delete(keys=[key]):
                return logged.content
        return None

    async def clear(self) -> None:
        """Remove all items, and erase everything that was ingested in the session."""
        await self._erase(self._memory.forget(session=self._session_id, allow_again=True))
        await self._items.delete(namespaces=[self._namespace])

    async def _erase(self, erasing: Awaitable[Receipt]) -> None:
        """Erase records; they stay if the caller may not erase, for example one without a name."""
        try:
            await erasing
        except ForbiddenError as error:
            log.warning("not_erased", reason=error.logged)

    def _put(self, key: str, logged: Logged) -> ItemPut:
        value = msgspec.Raw(msgspec.json.encode(logged))
        return ItemPut(namespace=self._namespace, key=key, value=value)


def metadata_of(item: RecalledItem) -> Json:
    """An item's id, score, kind, source and time, and all optional fields that it has."""
    further = {name: getattr(item, name) for name in OPTIONAL_FIELDS}
    return {
        "id": item.id,
        "score": item.score,
        "kind": item.source_kind,
        "source": item.source_class,
        "when": item.event_time.isoformat(),
        **{name: value for name, value in further.items() if value is not None},
    }
