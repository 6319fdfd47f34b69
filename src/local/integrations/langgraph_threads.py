"""A thread of checkpoints as items.

A checkpoint lies under its id in the namespace `(thread, namespace, "checkpoints")`, what tasks
wrote at it in `(thread, namespace, "writes", id)`. Data that no message holds lies in pieces in
`(thread, namespace, "pieces", id, …)`, stored before the item that names them.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import writes_sort_key

from local.client.items import Items
from local.errors import TooLargeError
from local.protocol.envelope import new_id
from local.protocol.items import (
    MAX_LIMIT,
    ItemKey,
    ItemPut,
    ListNamespaces,
    NamespaceMatch,
    SearchItems,
    StoredItem,
)

CHECKPOINTS, WRITES, PIECES = "checkpoints", "writes", "pieces"
PIECE = 300_000
"""Bytes of a checkpoint in one item; a longer one comes in pieces."""
LARGEST = 64_000_000
"""Bytes of a checkpoint, or of what one task wrote to a channel."""
DEPTH = 3
"""Parts of the namespace of checkpoints."""
AT_ONCE = 20
"""Checkpoints in one message, while they are listed."""
DROPPED = 400
"""Checkpoints deleted at once."""


class Serialized(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of serialized data; `pieces` is where the data lies, in `count` pieces."""

    type: str
    pieces: tuple[str, str] | None = None
    count: int = 0


class Head(Serialized, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint: the one before it, and the run that made it."""

    parent: str | None = None
    run: str | None = None


class Write(Serialized, frozen=True, kw_only=True, omit_defaults=True):
    """A task's write to a channel. `number`: of several, or of a special channel."""

    channel: str
    task: str
    path: str = ""
    number: int = 0


K = TypeVar("K", bound=Serialized)


class Stored(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """A checkpoint or a write as stored; `data` is empty if it lies in pieces."""

    id: str
    record: K
    data: bytes


class Thread:
    """The checkpoints of one namespace of a thread."""

    def __init__(self, items: Items, thread_id: str, namespace: str) -> None:
        self._items = items.in_session(thread_id)
        self._id = thread_id
        self._namespace = namespace

    def config(self, checkpoint_id: str) -> RunnableConfig:
        """Return where LangGraph finds a checkpoint."""
        return {
            "configurable": {
                "thread_id": self._id,
                "checkpoint_ns": self._namespace,
                "checkpoint_id": checkpoint_id,
            }
        }

    async def put(self, id_: str, head: Head, data: bytes) -> None:
        """Store a checkpoint."""
        place = ItemKey(namespace=self._path(CHECKPOINTS), key=id_)
        await self._items.put(self._items_of(place, head, data, of=id_))

    async def put_writes(self, id_: str, writes: Sequence[tuple[Write, bytes]]) -> None:
        """Store what a task wrote at a checkpoint, except for numbers that are there already."""
        path = self._path(WRITES, id_)
        puts: list[ItemPut] = []
        for write, data in writes:
            place = ItemKey(namespace=path, key=f"{write.task} {write.number}")
            puts += self._items_of(place, write, data, of=id_, keep=write.number >= 0)
        await self._items.put(puts)

    async def heads(
        self, *, id_: str | None = None, before: str | None = None, at_once: int = AT_ONCE
    ) -> AsyncIterator[Stored[Head]]:
        """Yield the checkpoints, the last first; or the one of this id."""
        path = self._path(CHECKPOINTS)
        if id_ is None:
            async for item in self._items.each_in(path, before=before, at_once=at_once):
                yield _stored(item, Head)
        elif before is None or id_ < before:
            (item_,) = await self._items.get([ItemKey(namespace=path, key=id_)])
            if item_ is not None:
                yield _stored(item_, Head)

    async def writes(self, id_: str) -> list[tuple[Write, bytes]]:
        """Return what tasks wrote at a checkpoint, in the order in which a run applies it."""
        path = self._path(WRITES, id_)
        found = [_stored(item, Write) async for item in self._items.each_in(path)]
        found.sort(key=lambda one: _order_of(one.record))
        return [(one.record, await self.data(one)) for one in found]

    async def data(self, stored: "Stored[K]") -> bytes:
        """Return the complete data of a checkpoint or a write."""
        if stored.record.pieces is None:
            return stored.data
        path = (self._id, self._namespace, PIECES, *stored.record.pieces)
        keys = [ItemKey(namespace=path, key=str(number)) for number in range(stored.record.count)]
        return b"".join(item.data or b"" for item in await self._items.get(keys) if item)

    async def drop(self, ids: Sequence[str]) -> None:
        """Delete checkpoints, with what was written at them."""
        path = self._path(CHECKPOINTS)
        for start in range(0, len(ids), DROPPED):
            part = ids[start : start + DROPPED]
            await self._items.delete(
                keys=[ItemKey(namespace=path, key=id_) for id_ in part],
                namespaces=[self._path(kind, id_) for id_ in part for kind in (WRITES, PIECES)],
            )

    def _path(self, *parts: str) -> tuple[str, ...]:
        return (self._id, self._namespace, *parts)

    def _items_of(
        self, place: ItemKey, record: Serialized, data: bytes, *, of: str, keep: bool = False
    ) -> list[ItemPut]:
        """Return the item of the record, after the pieces of the data that it does not hold."""
        if len(data) > LARGEST:
            raise TooLargeError(
                f"What is to be saved of the thread {self._id} has {len(data):,} bytes; "
                f"{LARGEST:,} are taken.",
                remedy="Keep large files outside of the graph's state, and their names in it.",
            )
        pieces: list[ItemPut] = []
        if len(data) > PIECE:
            where = (of, new_id())
            pieces = [
                ItemPut(
                    namespace=self._path(PIECES, *where),
                    key=str(number),
                    data=data[start : start + PIECE],
                )
                for number, start in enumerate(range(0, len(data), PIECE))
            ]
            record = msgspec.structs.replace(record, pieces=where, count=len(pieces))
        head = ItemPut(
            namespace=place.namespace,
            key=place.key,
            value=msgspec.Raw(msgspec.json.encode(record)),
            data=None if pieces else data,
            keep=keep,
        )
        return [*pieces, head]


async def all_threads(items: Items, thread_id: str | None = None) -> list[Thread]:
    """Return every namespace that has checkpoints, of a thread or of all."""
    suffix = NamespaceMatch(type="suffix", path=(CHECKPOINTS,))
    prefix = [NamespaceMatch(type="prefix", path=(thread_id,))] if thread_id is not None else []
    wanted = ListNamespaces(
        collection=items.collection, matches=(*prefix, suffix), limit=MAX_LIMIT, offset=0
    )
    found = await items.namespaces(wanted)
    return [Thread(items, path[0], path[1]) for path in found if len(path) == DEPTH]


async def drop_run(items: Items, run_id: str) -> None:
    """Delete the checkpoints that a run made, in whichever thread."""
    wanted = SearchItems(collection=items.collection, filter={"run": run_id}, limit=AT_ONCE)
    while found := await items.search(wanted):
        for one in found:
            await Thread(items, one.namespace[0], one.namespace[1]).drop([one.key])


async def copy_thread(items: Items, source: str, target: str) -> None:
    """Copy all of a thread: what checkpoints name is copied before them."""
    of_source = NamespaceMatch(type="prefix", path=(source,))
    wanted = ListNamespaces(collection=items.collection, matches=(of_source,), limit=MAX_LIMIT)
    into = items.in_session(target)
    found = await items.namespaces(wanted)
    for path in sorted(found, key=lambda path: path[2:] == (CHECKPOINTS,)):
        async for item in items.each_in(path, at_once=AT_ONCE):
            copied = ItemPut(
                namespace=(target, *path[1:]), key=item.key, value=item.value, data=item.data
            )
            await into.put([copied])


def _order_of(write: Write) -> tuple[str, str, int]:
    return writes_sort_key(write.path, write.task, write.number)


def _stored(item: StoredItem, type_: type[K]) -> Stored[K]:
    record = msgspec.json.decode(bytes(item.value), type=type_)
    return Stored(id=item.key, record=record, data=item.data or b"")
