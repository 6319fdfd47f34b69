"""The vector worker: Chroma and the embedder, in a process of their own.

Started by the supervisor with its configuration as the first line of standard input, which then
stays open: when it closes, the parent is gone, and so is the worker. Two threads, one for the
embedder and one for Chroma, so that a batch is embedded while the one before it is stored; in both,
searches go before batches.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import structlog

from local.bus.connection import Connection, Message, connect
from local.bus.participant import Participant
from local.bus.vector_client import failure
from local.errors import EmbedderMismatchError, Local2Error, VectorError
from local.logs import logging_to
from local.protocol import subjects
from local.protocol.codec import decode, encode
from local.protocol.envelope import seal
from local.protocol.payloads import Empty
from local.protocol.vectors import (
    TenantOnly,
    VectorDelete,
    VectorHit,
    VectorHits,
    VectorIdPage,
    VectorIds,
    VectorSearch,
    VectorsStored,
    VectorStatus,
    VectorUpsert,
)
from local.vectors.embedder import Embedder, FloatMatrix, Preference, choose_embedder
from local.vectors.index import Hit, VectorIndex
from local.vectors.lane import Lane, Together

NAME = "vector_worker"
QUERIES_TOGETHER = 16

log = structlog.get_logger()


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    bus_url: str
    chroma_path: Path
    collection: str
    models_dir: Path
    embedder: Preference
    embedding_model: str
    ollama_url: str
    log_file: Path | None = None

    def to_line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def from_line(cls, line: str) -> Self:
        return msgspec.json.decode(line, type=cls, dec_hook=lambda kind, value: kind(value))


class VectorWorker(Participant):
    """Serves `vector.*` from one index and one embedder."""

    def __init__(self, bus: Connection, store: "VectorStore") -> None:
        super().__init__(bus, name=NAME, description="Embeds texts and searches their vectors.")
        self._store = store
        self._answer_with(subjects.VECTOR_SEARCH, VectorSearch, store.search)
        self._answer_with(subjects.VECTOR_UPSERT, VectorUpsert, store.upsert)
        self._answer_with(subjects.VECTOR_DELETE, VectorDelete, store.delete)
        self._answer_with(subjects.VECTOR_IDS, VectorIds, store.ids)
        self._answer_with(subjects.VECTOR_STATUS, TenantOnly, store.status)
        self._answer_with(subjects.VECTOR_RESET, TenantOnly, store.reset)

    async def started(self) -> None:
        ready = seal(Empty(), type="event", source=NAME)
        await self.bus.publish(subjects.VECTOR_READY, encode(ready))

    def _answer_with(
        self,
        subject: str,
        payload: type[Any],
        function: Callable[[Any], Awaitable[msgspec.Struct]],
    ) -> None:
        async def handle(message: Message) -> None:
            headers: dict[str, str] | None = None
            try:
                answer = await function(decode(message.data, payload).payload)
                data = encode(seal(answer, type="answer", source=NAME))
            except Local2Error as error:
                data, headers = failure(error)
            except Exception as error:
                log.exception("vector_request_failed", subject=subject)
                data, headers = failure(VectorError(f"The vector worker failed: {error!r}."))
            await self.bus.publish(message.reply, data, headers=headers)

        self.serve(subject, handle, queue=NAME)


class VectorStore:
    """The index and the embedder, each in its lane."""

    def __init__(self, index: VectorIndex, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder
        self._embedding = Lane("embedding")
        self._storing = Lane("storing")
        self._queries: Together[str, FloatMatrix] = Together(
            self._embedding, self._embed_queries, limit=QUERIES_TOGETHER
        )

    def close(self) -> None:
        self._embedding.close()
        self._storing.close()
        self._embedder.close()

    async def search(self, ask: VectorSearch) -> VectorHits:
        vector = await self._queries.ask(ask.text)
        hits = await self._storing.run(
            self._search, ask.tenant, vector[np.newaxis], ask.limit, urgent=True
        )
        return VectorHits(
            hits=[VectorHit(hit.id, hit.cosine) for hit in hits],
            min_score=self._embedder.min_score,
            embedder=self._embedder.name,
        )

    async def upsert(self, ask: VectorUpsert) -> VectorsStored:
        """Embed what comes as text, store all, answer the vectors in the order of the items."""
        items = ask.items
        rows: list[np.ndarray | None] = [
            np.frombuffer(item.vector, np.float32) if item.vector is not None else None
            for item in items
        ]
        missing = [position for position, row in enumerate(rows) if row is None]
        chunks = self._embedder.embed_documents([items[position].text for position in missing])
        while (chunk := await self._embedding.run(next, chunks, None)) is not None:
            for position, vector in zip(*chunk, strict=True):
                rows[missing[position]] = vector
        matrix: FloatMatrix = np.stack([row for row in rows if row is not None])
        await self._storing.run(self._store, ask.tenant, [item.id for item in items], matrix)
        return VectorsStored(
            vectors=[row.tobytes() for row in matrix], embedder=self._embedder.name
        )

    async def delete(self, ask: VectorDelete) -> Empty:
        await self._storing.run(self._index.delete, ask.tenant, ask.ids)
        return Empty()

    async def ids(self, ask: VectorIds) -> VectorIdPage:
        ids = await self._storing.run(self._index.ids, ask.tenant, ask.offset, ask.limit)
        return VectorIdPage(ids=ids)

    async def status(self, ask: TenantOnly) -> VectorStatus:
        return await self._storing.run(self._status, ask.tenant, urgent=True)

    async def reset(self, ask: TenantOnly) -> VectorStatus:
        await self._storing.run(
            self._index.reset, ask.tenant, self._embedder.name, self._embedder.dimensions
        )
        return await self.status(ask)

    def _embed_queries(self, texts: list[str]) -> list[FloatMatrix]:
        return list(self._embedder.embed_queries(texts))

    def _search(self, tenant: str, vector: FloatMatrix, limit: int) -> list[Hit]:
        recorded = self._index.recorded_embedder(tenant)
        if recorded is None:
            return []
        if recorded != self._embedder.name:
            raise _mismatch(recorded, self._embedder.name)
        return self._index.search(tenant, vector, limit)[0]

    def _status(self, tenant: str) -> VectorStatus:
        recorded = self._index.recorded_embedder(tenant)
        matches = recorded in {None, self._embedder.name}
        return VectorStatus(
            count=self._index.count(tenant),
            generation=self._index.generation(tenant) or "",
            embedder=self._embedder.name,
            clean=self._index.opened_clean,
            problem=None if matches else str(_mismatch(str(recorded), self._embedder.name)),
        )

    def _store(self, tenant: str, ids: list[str], matrix: FloatMatrix) -> None:
        self._index.ensure(tenant, self._embedder.name, matrix.shape[1])
        self._index.upsert(tenant, ids, matrix)


def _mismatch(recorded: str, embedder: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"The vector index was built with {recorded}, and {embedder} is configured.",
        remedy="Run `local2 reindex`, or configure the former embedder again.",
    )


async def work(config: WorkerConfig) -> None:
    """Be the vector worker until standard input closes or SIGTERM comes."""
    async with AsyncExitStack() as resources:
        index = await asyncio.to_thread(VectorIndex.open, config.chroma_path, config.collection)
        resources.callback(index.close)
        embedder = await asyncio.to_thread(_embedder, config, index.recorded_embedder("default"))
        store = VectorStore(index, embedder)
        resources.callback(store.close)
        bus = await resources.enter_async_context(connect(config.bus_url, name=NAME))
        await resources.enter_async_context(VectorWorker(bus, store))
        log.info("vector_worker_ready", embedder=embedder.name, clean=index.opened_clean)
        await _until_told_to_stop()


def _embedder(config: WorkerConfig, recorded: str | None) -> Embedder:
    return choose_embedder(
        config.embedder,
        recorded=recorded,
        model=config.embedding_model,
        ollama_url=config.ollama_url,
        models_dir=config.models_dir,
    )


async def _until_told_to_stop() -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)  # readable only when it closes
    await stop.wait()


def main() -> None:
    """Entry point of the child process."""
    config = WorkerConfig.from_line(sys.stdin.readline())
    with logging_to(config.log_file, process=NAME), suppress(KeyboardInterrupt):
        asyncio.run(work(config))


if __name__ == "__main__":
    main()
