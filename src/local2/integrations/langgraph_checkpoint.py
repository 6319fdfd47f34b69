"""LangGraph's checkpoint saver over the bus. A checkpoint is on disk when a put returns.

It behaves like AsyncPostgresSaver: the methods whose names begin with `a` must be called in the
event loop in which it was opened, and the others in any other thread.

A checkpoint is an item under its id in the namespace `(thread, namespace, "checkpoints")`, and its
tasks' writes are in `(thread, namespace, "writes", id)`. Data that is too large for a message is in
pieces in `(thread, namespace, "pieces", id, …)`, which are stored before the item that refers to
them.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from local2.client.blocking import Opening, iterate_in, wait_in
from local2.client.items import Items
from local2.client.memory import Memory, connect
from local2.errors import InvalidArgumentsError, TooLargeError
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

COLLECTION = "langgraph.checkpoints"
AGENT = "langgraph"
DELTA_CHANNELS_KEY = "counters_since_delta_snapshot"
"""The key in a checkpoint's metadata that lists the channels whose values are built from earlier
writes."""
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

P = ParamSpec("P")
T = TypeVar("T")


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


def _from_thread(
    method: Callable[Concatenate["LocalSaver", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["LocalSaver", P], T]:
    """The same method to be called from another thread, which waits for its answer."""

    @wraps(method)
    def wait(self: "LocalSaver", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return wait_in(self.loop, method(self, *args, **kwargs))

    return wait


class LocalSaver(BaseCheckpointSaver[int]):
    """One user's checkpoints. A thread is a session: forgetting the session erases the thread."""

    def __init__(self, memory: Memory, *, serde: SerializerProtocol | None = None) -> None:
        """Use an open memory, for its caller.

        `serde` replaces LangGraph's own serializer, for example by one that encrypts.
        """
        super().__init__(serde=serde)
        self._items = memory.items(COLLECTION)
        self.loop = memory.loop

    @classmethod
    def connect(
        cls, *, serde: SerializerProtocol | None = None, **options: Any
    ) -> Opening[Self, Self]:
        """Open a memory with the options of `local2.connect`, and a saver in it.

        The checkpoints belong to its `user`, by default the one who is logged in. Opened with
        `with`, the saver has an event loop of its own, for its synchronous methods.
        """

        @asynccontextmanager
        async def open_saver() -> AsyncIterator[Self]:
            async with connect(**{"agent": AGENT, **options}) as memory:
                yield cls(memory, serde=serde)

        return Opening(open_saver(), lambda saver: saver)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a complete checkpoint; it is on disk when this returns."""
        del new_versions
        thread = self._thread(config)
        about = get_checkpoint_metadata(config, metadata)
        type_, data = self.serde.dumps_typed({"checkpoint": checkpoint, "metadata": about})
        head = Head(type=type_, parent=get_checkpoint_id(config), run=about.get("run_id"))
        await thread.put(checkpoint["id"], head, data)
        return thread.config(checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote. Existing writes stay, except those to special channels."""
        put = []
        for number, (channel, value) in enumerate(writes):
            type_, data = self.serde.dumps_typed(value)
            index = WRITES_IDX_MAP.get(channel, number)
            write = Write(type=type_, channel=channel, task=task_id, path=task_path, number=index)
            put.append((write, data))
        await self._thread(config).put_writes(str(config["configurable"]["checkpoint_id"]), put)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or else the thread's last one."""
        thread = self._thread(config)
        async for found in self._tuples(thread, get_checkpoint_id(config), None, page_size=1):
            return found
        return None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the checkpoints of a thread, or of all threads, newest first per namespace."""
        id_ = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        left = limit
        if config is None:
            threads = await all_threads(self._items)
        elif config["configurable"].get("checkpoint_ns") is None:
            threads = await all_threads(self._items, str(config["configurable"]["thread_id"]))
        else:
            threads = [self._thread(config)]
        for thread in threads:
            async for found in self._tuples(thread, id_, end):
                about: dict[str, Any] = dict(found.metadata)
                if any(about.get(name) != value for name, value in (filter or {}).items()):
                    continue
                if left is not None:
                    if left <= 0:
                        return
                    left -= 1
                yield found

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its checkpoints and writes."""
        await self._items.delete(namespaces=[(str(thread_id),)])

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, with their writes."""
        for run_id in run_ids:
            await drop_run(self._items, str(run_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread with their writes."""
        await copy_thread(self._items, str(source_thread_id), str(target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all but the last checkpoint of each namespace, or with `delete` all of them.

        Earlier checkpoints stay if the value of a delta channel is built from them.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidArgumentsError(
                f"strategy: {strategy!r} is neither keep_latest nor delete."
            )
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            for thread in await all_threads(self._items, str(thread_id)):
                await thread.drop([id_ async for id_ in self._unneeded_ids(thread)])

    async def _unneeded_ids(self, thread: Thread) -> AsyncIterator[str]:
        """Yield the ids of the checkpoints that the last one does not need."""
        needed: set[str] | None = None
        wanted: str | None = None
        async for head in thread.heads():
            if needed is not None and (head.id != wanted or not needed):
                yield head.id
                continue
            saved = self.serde.loads_typed((head.record.type, await thread.data(head)))
            if needed is None:
                needed = set(saved["metadata"].get(DELTA_CHANNELS_KEY) or ())
            needed -= set(saved["checkpoint"]["channel_values"])
            wanted = head.record.parent

    async def _tuples(
        self,
        thread: Thread,
        id_: str | None,
        before: str | None,
        *,
        page_size: int = CHECKPOINT_PAGE,
    ) -> AsyncIterator[CheckpointTuple]:
        async for head in thread.heads(id_=id_, before=before, page_size=page_size):
            saved = self.serde.loads_typed((head.record.type, await thread.data(head)))
            parent = head.record.parent
            yield CheckpointTuple(
                config=thread.config(head.id),
                checkpoint=saved["checkpoint"],
                metadata=saved["metadata"],
                parent_config=thread.config(parent) if parent else None,
                pending_writes=[
                    (write.task, write.channel, self.serde.loads_typed((write.type, data)))
                    for write, data in await thread.writes(head.id)
                ],
            )

    def _thread(self, config: RunnableConfig) -> Thread:
        where = config["configurable"]
        return Thread(self._items, str(where["thread_id"]), where.get("checkpoint_ns", ""))

    get_tuple = _from_thread(aget_tuple)
    put = _from_thread(aput)
    put_writes = _from_thread(aput_writes)
    delete_thread = _from_thread(adelete_thread)
    delete_for_runs = _from_thread(adelete_for_runs)
    copy_thread = _from_thread(acopy_thread)
    prune = _from_thread(aprune)
    get_delta_channel_history = _from_thread(BaseCheckpointSaver.aget_delta_channel_history)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Call `alist` from another thread."""
        found = self.alist(config, filter=filter, before=before, limit=limit)
        return iterate_in(self.loop, found)
