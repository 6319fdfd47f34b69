"""Store a thread of checkpoints as items.

A checkpoint is stored under its id in the namespace `(thread, namespace, "checkpoints")`, and its
tasks' writes in `(thread, namespace, "writes", id)`. Data that is too large for a message is stored
in pieces in `(thread, namespace, "pieces", id, …)`, before the item that refers to them.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import writes_sort_key

from local2.client.items import Items
from local2.errors import TooLargeError
from local2.protocol.envelope import new_id
from local2.protocol.items import (
    MAX_LIMIT,
    ItemKey,
    ItemPut,
    ListNamespaces,
    NamespaceMatch,
    SearchItems,
    StoredItem,
)

CHECKPOINTS, WRITES, PIECES = "checkpoints", "writes", "pieces"
PIECE_BYTES = 300_000
"""Maximum bytes of data in one item; longer data is stored in pieces."""
MAX_BYTES = 64_000_000
"""Maximum bytes of a checkpoint, or of one write to a channel."""
NAMESPACE_PARTS = 3
"""Number of parts in the namespace of checkpoints."""
CHECKPOINT_PAGE = 20
"""Maximum number of checkpoints in one message when they are listed."""
DELETED_PER_REQUEST = 400
"""Maximum number of checkpoints deleted in one request."""


class Serialized(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of serialized data. `pieces` is the namespace of the data's `count` pieces."""

    type: str
    pieces: tuple[str, str] | None = None
    count: int = 0


class Head(Serialized, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a checkpoint: the id of its parent, and the run that made it."""

    parent: str | None = None
    run: str | None = None


class Write(Serialized, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a task's write to a channel.

    `number` is its position among the task's writes, or the number of a special channel.
    """

    channel: str
    task: str
    path: str = ""
    number: int = 0


K = TypeVar("K", bound=Serialized)


class Stored(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """A checkpoint or a write as stored. `data` is empty if it is stored in pieces."""

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
        """The config by which LangGraph names a checkpoint."""
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
        await self._items.put(self._puts_of(place, head, data, of=id_))

    async def put_writes(self, id_: str, writes: Sequence[tuple[Write, bytes]]) -> None:
        """Store a task's writes at a checkpoint, except for numbers that exist already."""
        path = self._path(WRITES, id_)
        puts: list[ItemPut] = []
        for write, data in writes:
            place = ItemKey(namespace=path, key=f"{write.task} {write.number}")
            puts += self._puts_of(place, write, data, of=id_, keep=write.number >= 0)
        await self._items.put(puts)

    async def heads(
        self, *, id_: str | None = None, before: str | None = None, page_size: int = CHECKPOINT_PAGE
    ) -> AsyncIterator[Stored[Head]]:
        """Yield the checkpoints, newest first, or only the one with this id."""
        path = self._path(CHECKPOINTS)
        if id_ is None:
            async for item in self._items.each_in(path, before=before, page_size=page_size):
                yield _stored(item, Head)
        elif before is None or id_ < before:
            (item_,) = await self._items.get([ItemKey(namespace=path, key=id_)])
            if item_ is not None:
                yield _stored(item_, Head)

    async def writes(self, id_: str) -> list[tuple[Write, bytes]]:
        """The writes at a checkpoint, in the order in which a run applies them."""
        path = self._path(WRITES, id_)
        found = [_stored(item, Write) async for item in self._items.each_in(path)]
        found.sort(
            key=lambda stored: writes_sort_key(
                stored.record.path, stored.record.task, stored.record.number
            )
        )
        return [(stored.record, await self.data(stored)) for stored in found]

    async def data(self, stored: "Stored[K]") -> bytes:
        """The complete data of a checkpoint or a write."""
        if stored.record.pieces is None:
            return stored.data
        path = (self._id, self._namespace, PIECES, *stored.record.pieces)
        keys = [ItemKey(namespace=path, key=str(number)) for number in range(stored.record.count)]
        return b"".join(item.data or b"" for item in await self._items.get(keys) if item)

    async def drop(self, ids: Sequence[str]) -> None:
        """Delete checkpoints with their writes."""
        path = self._path(CHECKPOINTS)
        for start in range(0, len(ids), DELETED_PER_REQUEST):
            part = ids[start : start + DELETED_PER_REQUEST]
            await self._items.delete(
                keys=[ItemKey(namespace=path, key=id_) for id_ in part],
                namespaces=[self._path(kind, id_) for id_ in part for kind in (WRITES, PIECES)],
            )

    def _path(self, *parts: str) -> tuple[str, ...]:
        return (self._id, self._namespace, *parts)

    def _puts_of(
        self, place: ItemKey, record: Serialized, data: bytes, *, of: str, keep: bool = False
    ) -> list[ItemPut]:
        """The puts of a record: first the pieces of its data, if any, then the record."""
        if len(data) > MAX_BYTES:
            raise TooLargeError(
                f"A checkpoint or write of the thread {self._id} has {len(data):,} bytes; "
                f"the maximum is {MAX_BYTES:,}.",
                remedy="Keep large files outside the graph's state, and only their names in it.",
            )
        pieces: list[ItemPut] = []
        if len(data) > PIECE_BYTES:
            where = (of, new_id())
            pieces = [
                ItemPut(
                    namespace=self._path(PIECES, *where),
                    key=str(number),
                    data=data[start : start + PIECE_BYTES],
                )
                for number, start in enumerate(range(0, len(data), PIECE_BYTES))
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
    """Every namespace with checkpoints, of one thread or of all threads."""
    suffix = NamespaceMatch(type="suffix", path=(CHECKPOINTS,))
    prefix = [NamespaceMatch(type="prefix", path=(thread_id,))] if thread_id is not None else []
    wanted = ListNamespaces(
        collection=items.collection, matches=(*prefix, suffix), limit=MAX_LIMIT, offset=0
    )
    found = await items.namespaces(wanted)
    return [Thread(items, path[0], path[1]) for path in found if len(path) == NAMESPACE_PARTS]


async def drop_run(items: Items, run_id: str) -> None:
    """Delete the checkpoints that a run made in any thread."""
    wanted = SearchItems(collection=items.collection, filter={"run": run_id}, limit=CHECKPOINT_PAGE)
    while found := await items.search(wanted):
        for item in found:
            await Thread(items, item.namespace[0], item.namespace[1]).drop([item.key])


async def copy_thread(items: Items, source: str, target: str) -> None:
    """Copy a thread. Checkpoints are copied last, after everything that they refer to."""
    of_source = NamespaceMatch(type="prefix", path=(source,))
    wanted = ListNamespaces(collection=items.collection, matches=(of_source,), limit=MAX_LIMIT)
    into = items.in_session(target)
    found = await items.namespaces(wanted)
    for path in sorted(found, key=lambda path: path[2:] == (CHECKPOINTS,)):
        async for item in items.each_in(path, page_size=CHECKPOINT_PAGE):
            copied = ItemPut(
                namespace=(target, *path[1:]), key=item.key, value=item.value, data=item.data
            )
            await into.put([copied])


def _stored(item: StoredItem, type_: type[K]) -> Stored[K]:
    record = msgspec.json.decode(bytes(item.value), type=type_)
    return Stored(id=item.key, record=record, data=item.data or b"")
