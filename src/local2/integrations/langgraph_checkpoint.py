"""LangGraph's checkpoint saver over the bus. A checkpoint is on disk when a put returns.

It behaves like AsyncPostgresSaver: the methods whose names begin with `a` must be called in the
event loop in which it was opened, and the others in any other thread.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

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
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from local2.client.blocking import Opening, iterate_in, wait_in
from local2.client.memory import Memory, connect
from local2.errors import InvalidArgumentsError
from local2.integrations.langgraph_threads import (
    CHECKPOINT_PAGE,
    Head,
    Thread,
    Write,
    all_threads,
    copy_thread,
    drop_run,
)

COLLECTION = "langgraph.checkpoints"
AGENT = "langgraph"
DELTA_CHANNELS_KEY = "counters_since_delta_snapshot"
"""The key in a checkpoint's metadata that lists the channels whose values are built from earlier
writes."""

P = ParamSpec("P")
T = TypeVar("T")


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
