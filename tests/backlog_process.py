"""A memory without a bus, in a process that kills itself at one step of a task."""

import asyncio
import os
import signal
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from calling import caller_named
from ledgers import fact
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.backlog import TaskQueue
from local2.ledger.operations.extraction import Extractions
from local2.ledger.operations.facts import LedgerFacts
from local2.ledger.operations.index import IndexedRecords
from local2.ledger.operations.transactions import Transaction
from local2.ledger.records import Record, TaskKind
from local2.logs import logging_to
from local2.memory.extraction.extractor import Item, Passage
from local2.memory.tenant import Memory, Models
from local2.memory.upkeep.supersession import Judge, Verdict
from local2.protocol.conversation import ConversationMessage
from local2.protocol.envelope import DEFAULT_TENANT
from local2.protocol.payloads import MemoryChange
from local2.protocol.vectors import (
    TenantOnly,
    VectorCheck,
    VectorDelete,
    VectorHits,
    VectorIds,
    VectorItem,
    VectorNext,
    VectorReset,
    VectorSearch,
    VectorsStored,
    VectorStatus,
    VectorUpsert,
)
from local2.settings import MemorySettings
from local2.vectors.embedder import FloatMatrix
from local2.vectors.index import VectorIndex
from local2.vectors.store import VectorStore
from waiting import eventually
from working import working

PIANO, BERLIN, ROME = "We own a piano.", "We live in Berlin.", "We live in Rome."
"""The last fact supports the first and replaces the second."""
STEPS = {
    "index": ("claimed", "made", "half stored", "stored"),
    "judge": ("made", "half stored", "stored"),
    "unindex": ("claimed", "made", "stored"),
}
"""What a model has answered leaves nothing behind: a kill before that is the same."""
FIRST_MESSAGE, LATER_MESSAGE = "I live in Bath.", "I live in Ely."
"""Two messages whose facts have the same key."""
STEPS_OF_READING = ("made", "half stored", "stored")
OTHER = "other"
"""An embedder whose index replaces the first one."""
STEPS_OF_EMBEDDING = ("claimed", "made", "half stored", "stored", "dropped", "swapped")


class Verdicts(Judge):
    """A judge that knows the three facts."""

    def __init__(self) -> None:
        pass

    async def verdicts(self, fact: Record, older: Sequence[Record]) -> list[Verdict]:
        by_content: dict[str, Verdict] = {PIANO: "supports", BERLIN: "replaces"}
        return [by_content[one.content] if fact.content == ROME else "unrelated" for one in older]


class EachMessage:
    """An extractor that reads every message as a place of residence."""

    async def extract(self, passage: Passage) -> list[Item]:
        return [
            Item(
                memory_type="fact",
                content=message.content,
                summary="home",
                topic="user.home",
                sources=(message.id,),
            )
            for message in passage.messages
        ]


class ToyEmbedder:
    """An embedder whose vector depends only on the text, without a model to load."""

    dimensions, min_score, floor = 8, 0.0, 0.0
    is_served = False

    def __init__(self, name: str = "toy") -> None:
        self.name = name

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        rows = [np.random.default_rng(zlib.crc32(text.encode())).random(8) for text in texts]
        matrix: FloatMatrix = np.array(rows, np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        return matrix

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        if texts:
            yield list(range(len(texts))), self.embed_queries(texts)

    def close(self) -> None:
        pass


class LocalVectors:
    """The index and the embedder, called without a bus."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store

    async def search(self, text: str, limit: int) -> VectorHits:
        return await self._store.search(VectorSearch(text=text, limit=limit, tenant=DEFAULT_TENANT))

    async def upsert(self, items: list[VectorItem]) -> VectorsStored:
        return await self._store.upsert(VectorUpsert(items=items, tenant=DEFAULT_TENANT))

    async def upsert_next(self, items: list[VectorItem]) -> VectorsStored:
        request = VectorUpsert(items=items, tenant=DEFAULT_TENANT, into_next=True)
        return await self._store.upsert(request)

    async def begin_next(self, embedder: str) -> VectorStatus:
        request = VectorNext(action="begin", embedder=embedder, tenant=DEFAULT_TENANT)
        return await self._store.change(request)

    async def swap(self, embedder: str) -> VectorStatus:
        request = VectorNext(action="swap", embedder=embedder, tenant=DEFAULT_TENANT)
        return await self._store.change(request)

    async def delete(self, ids: list[str]) -> None:
        await self._store.delete(VectorDelete(ids=ids, tenant=DEFAULT_TENANT))

    async def ids(self, offset: int, limit: int, *, of_next: bool = False) -> list[str]:
        request = VectorIds(offset=offset, limit=limit, tenant=DEFAULT_TENANT, of_next=of_next)
        return (await self._store.ids(request)).ids

    async def held(self, ids: list[str]) -> list[str]:
        request = VectorIds(offset=0, limit=len(ids), tenant=DEFAULT_TENANT, among=ids)
        return (await self._store.ids(request)).ids

    async def lost(self, items: list[VectorItem]) -> list[str]:
        return (await self._store.lost(VectorCheck(items=items, tenant=DEFAULT_TENANT))).ids

    async def status(self) -> VectorStatus:
        return await self._store.status(TenantOnly(tenant=DEFAULT_TENANT))

    async def reset(self, *, whole: bool = False) -> VectorStatus:
        return await self._store.reset(VectorReset(tenant=DEFAULT_TENANT, whole=whole))


@asynccontextmanager
async def open_memory(folder: Path) -> AsyncIterator[tuple[Memory, Database]]:
    """Open a memory that judges and indexes what is stored in a folder."""

    def ignore(_: str, change: MemoryChange) -> None:
        assert change.id

    with VectorIndex.open(folder / "chroma", "local2.memory") as index:
        embedder = ToyEmbedder(index.recorded_embedder(DEFAULT_TENANT) or "toy")
        store = VectorStore(index, embedder, ToyEmbedder)
        async with Database.open(folder / "ledger.sqlite3") as database:
            memory = Memory(
                Ledger(database, "default"),
                LocalVectors(store),
                MemorySettings(judge_distance=2.0),
                announce=ignore,
                models=Models(judge=Verdicts(), extractor=EachMessage()),
            )
            async with working(memory.backlog):
                memory.indexer.worker_started(store.id)
                yield memory, database
        store.close()


async def wait_until_done(memory: Memory) -> None:
    async def nothing_is_pending() -> bool:
        return memory.indexer.is_caught_up and not await memory.ledger.backlog.counts()

    await eventually(nothing_is_pending, within=30)


async def remember(memory: Memory, content: str) -> None:
    record = fact(content, tasks=memory.changes.tasks_of_facts)
    written = await memory.ledger.facts.store(record)
    memory.changes.written([written], [record])


def kill_process(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after(owner: type, name: str, when: Callable[..., bool] = lambda *_: True) -> None:
    """Die once a coroutine method of a class has returned a matching result."""
    function = getattr(owner, name)

    @wraps(function)
    async def lethal(*args: Any, **kwargs: Any) -> Any:
        answer = await function(*args, **kwargs)
        if when(answer):
            kill_process()
        return answer

    setattr(owner, name, lethal)


def kill_amid(last: str, when: Callable[..., bool] = lambda **_: True) -> None:
    """Die within a transaction, after one of its statements."""
    execute = Transaction.execute

    def lethal(self: Transaction, statement: str, **values: Any) -> Any:
        answer = execute(self, statement, **values)
        if statement == last and when(**values):
            kill_process()
        return answer

    Transaction.execute = lethal  # type: ignore[method-assign]


def arm(kind: TaskKind, step: str) -> None:
    """Make the process die at this step of the next task of the kind."""
    if step == "claimed":
        kill_after(TaskQueue, "claim", lambda tasks: any(task.kind == kind for task in tasks))
    elif step == "half stored":
        kill_amid("finish_task", lambda **task: task["kind"] == kind)
    elif kind == "extract":
        kill_after(*((EachMessage, "extract") if step == "made" else (Extractions, "store")))
    elif kind == "embed":
        _arm_embedding(step)
    elif kind == "judge":
        kill_after(*((Verdicts, "verdicts") if step == "made" else (LedgerFacts, "judge")))
    elif kind == "index":
        made, stored = (LocalVectors, "upsert"), (IndexedRecords, "store_vectors")
        kill_after(*(made if step == "made" else stored))
    else:
        kill_after(*((LocalVectors, "delete") if step == "made" else (TaskQueue, "finish")))


async def send(memory: Memory, content: str) -> None:
    """Send a message as Richard, always in the same session."""
    intake = memory.of(caller_named("richard", agent="shell")).intake
    await intake.store_conversation([ConversationMessage(role="user", content=content)], "s1")


def _arm_embedding(step: str) -> None:
    if step == "dropped":
        VectorIndex._drop = _lethal_drop(VectorIndex._drop)  # type: ignore[method-assign]
    elif step == "stored":
        kill_after(IndexedRecords, "store_vectors")
    else:
        kill_after(LocalVectors, "upsert_next" if step == "made" else "swap")


def _lethal_drop(drop: Callable[..., None]) -> Callable[..., None]:
    """Die after the former collection is dropped and before the next one serves."""

    def lethal(*args: Any) -> None:
        drop(*args)
        kill_process()

    return lethal


async def change_embedder(folder: Path, step: str) -> None:
    async with open_memory(folder) as (memory, _):
        for content in (PIANO, BERLIN, ROME):
            await remember(memory, content)
        await wait_until_done(memory)
        arm("embed", step)
        await memory.reembedding.begin(OTHER)
        await asyncio.Event().wait()


async def work(folder: Path, kind: TaskKind, step: str) -> None:
    async with open_memory(folder) as (memory, _):
        if kind == "extract":
            await send(memory, FIRST_MESSAGE)
            await wait_until_done(memory)
            arm(kind, step)
            await send(memory, LATER_MESSAGE)
            await asyncio.Event().wait()
        for content in (PIANO, BERLIN):
            await remember(memory, content)
        await wait_until_done(memory)
        arm(kind, step)
        await remember(memory, ROME)
        await asyncio.Event().wait()


def run(folder: Path, kind: TaskKind, step: str) -> None:
    """Run as the process, until it dies."""
    with logging_to(folder / "killed.log"):
        asyncio.run(change_embedder(folder, step) if kind == "embed" else work(folder, kind, step))
