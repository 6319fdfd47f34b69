"""Stacks with a ledger in PostgreSQL share its vectors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient
from local2.client.access import ask_service
from local2.client.tools import call_tool
from local2.errors import VectorError
from local2.ledger.operations.index import IndexedRecords, Waiting
from local2.ledger.records import TaskKind
from local2.memory.upkeep.reembedding import Reembedding
from local2.memory.vector_index import LedgerVectors
from local2.protocol.maintenance import Reindex
from local2.protocol.services import REINDEX
from local2.protocol.vectors import VectorItem, VectorsStored, VectorStatus
from local2.stack.app import Stack
from postgres_server import PostgresServer
from stacks import CALLER, all_indexed, contents, in_step, save, search, settings_in, status
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually
from workers import stack_with_worker_here

MINILM, NOMIC = "all-MiniLM-L6-v2", "nomic-embed-text"
GOLD, MOON = "The chemical symbol of gold is Au.", "The moon pulls at the oceans."
MEANT = "Au is which element?"


Opening = Callable[[str], AbstractAsyncContextManager[Stack]]


@pytest.fixture
def opening(
    tmp_path: Path, postgres_databases: PostgresServer, ollama: OllamaStandIn
) -> Iterator[Opening]:
    """Opens stacks on one ledger, each with a bus of its own; they begin with MiniLM."""
    ollama.models.clear()

    def open_one(name: str) -> AbstractAsyncContextManager[Stack]:
        settings = settings_in(tmp_path / name, embedder="auto", ollama_url=ollama.url, ledger=url)
        return stack_with_worker_here(settings, with_generator=False)

    with postgres_databases.new_database() as url:
        yield open_one


@pytest.fixture
async def stacks(opening: Opening) -> AsyncIterator[list[Connection]]:
    async with opening("here") as here, opening("there") as there:
        yield [here.bus, there.bus]


async def test_stacks_share_vectors_follow_a_new_embedder_and_open_no_chroma(
    stacks: list[Connection], ollama: OllamaStandIn, tmp_path: Path
) -> None:
    here, there = stacks
    await save(here, GOLD)
    await save(there, MOON)

    for bus in stacks:
        await in_step(bus, records=2)
        assert contents(await search(bus, MEANT))[0] == GOLD

    ollama.models.append(f"{NOMIC}:latest")
    await ask_service(here, REINDEX, Reindex(embedder=NOMIC))

    async def is_served(bus: Connection) -> bool:
        now = await status(bus)
        return now.next is None and (now.embedder, now.in_index, now.problem) == (NOMIC, 2, None)

    await eventually(lambda: is_served(here), within=30)
    for bus in stacks:
        found = await search(bus, MEANT)
        assert (found["degraded"], contents(found)[0]) == (False, GOLD)
        assert await is_served(bus)

    forgotten = await call_tool(here, "forget", {"everything": True}, caller=CALLER)
    assert forgotten.data["complete"], forgotten.data
    assert contents(await search(there, MEANT)) == []
    assert not list(tmp_path.rglob("*chroma*"))


async def test_a_worker_that_has_swapped_since_it_told_its_status_is_followed(
    opening: Opening, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_status = VectorClient.status

    former = [MINILM]

    async def told_before(client: VectorClient) -> VectorStatus:
        now = await ask_status(client)
        return msgspec.structs.replace(now, embedder=former.pop() if former else now.embedder)

    async with opening("here") as here:
        await save(here.bus, GOLD)
        await in_step(here.bus, records=1)
        ollama.models.append(f"{NOMIC}:latest")
        await ask_service(here.bus, REINDEX, Reindex(embedder=NOMIC))

        async def is_served() -> bool:
            now = await status(here.bus)
            return (now.embedder, now.next) == (NOMIC, None)

        await eventually(is_served, within=30)
        monkeypatch.setattr(VectorClient, "status", told_before)
        now = await status(here.bus)

    assert (now.embedder, now.problem) == (NOMIC, None)


async def test_a_worker_that_was_asked_twice_to_swap_is_followed(
    stacks: list[Connection], ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = stacks
    await save(here, GOLD)
    for bus in stacks:
        await in_step(bus, records=1)
    swap = VectorClient.swap

    async def swap_twice(client: VectorClient, embedder: str) -> VectorStatus:
        await swap(client, embedder)
        return await swap(client, embedder)

    monkeypatch.setattr(VectorClient, "swap", swap_twice)
    ollama.models.append(f"{NOMIC}:latest")
    await ask_service(here, REINDEX, Reindex(embedder=NOMIC))

    async def changes(bus: Connection) -> bool:
        now = await status(bus)
        assert now.problem is None
        return (now.embedder, now.next) == (NOMIC, None)

    for bus in stacks:
        await eventually(partial(changes, bus), within=30)


async def test_any_stack_tells_of_the_next_index_and_gives_it_up(
    stacks: list[Connection], ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = stacks
    await save(here, GOLD)
    await in_step(there, records=1)
    filled, given_up, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    swap = LedgerVectors.swap

    async def swap_too_late(vectors: LedgerVectors, embedder: str) -> VectorStatus:
        filled.set()
        await given_up.wait()
        try:
            return await swap(vectors, embedder)
        finally:
            over.set()

    monkeypatch.setattr(LedgerVectors, "swap", swap_too_late)
    ollama.models.append(f"{NOMIC}:latest")
    await ask_service(here, REINDEX, Reindex(embedder=NOMIC))
    await filled.wait()
    told = (await status(there)).next
    await ask_service(there, REINDEX, Reindex(embedder="minilm"))
    given_up.set()
    await over.wait()

    assert told is not None
    assert told.embedder == NOMIC
    for bus in stacks:
        await in_step(bus, records=1)
        now = await status(bus)
        assert (now.embedder, now.next, now.problem) == (MINILM, None, None)
        assert contents(await search(bus, MEANT)) == [GOLD]


async def test_a_stack_that_joins_a_change_does_not_bring_back_one_that_is_given_up(
    opening: Opening, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    joining, given_up, joined = [asyncio.Event() for _ in range(3)]
    begin_next, compare = VectorClient.begin_next, Reembedding._compare
    began = list[VectorClient]()

    async def join_late(client: VectorClient, embedder: str) -> VectorStatus:
        if not began:
            began.append(client)
        answer = await begin_next(client, embedder)
        if client not in began:
            joining.set()
            await given_up.wait()
        return answer

    async def note_joined(job: Reembedding) -> None:
        await compare(job)
        if given_up.is_set():
            joined.set()

    async def hang_until_given_up(_: LedgerVectors, items: list[VectorItem]) -> VectorsStored:
        await given_up.wait()
        raise VectorError(f"{len(items)} texts are not embedded.")

    monkeypatch.setattr(VectorClient, "begin_next", join_late)
    monkeypatch.setattr(Reembedding, "_compare", note_joined)
    monkeypatch.setattr(LedgerVectors, "upsert_next", hang_until_given_up)
    async with opening("here") as here:
        await save(here.bus, GOLD)
        await in_step(here.bus, records=1)
        ollama.models.append(f"{NOMIC}:latest")
        await ask_service(here.bus, REINDEX, Reindex(embedder=NOMIC))
        async with opening("there") as there:
            await joining.wait()
            await ask_service(here.bus, REINDEX, Reindex(embedder="minilm"))
            given_up.set()
            await joined.wait()

            for bus in (here.bus, there.bus):
                now = await status(bus)
                assert (now.embedder, now.next) == (MINILM, None)


async def test_what_another_stack_indexed_before_the_swap_is_embedded_after_it(
    opening: Opening, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled, saved, swapped = [asyncio.Event() for _ in range(3)]
    swap = LedgerVectors.swap

    async def swap_and_hang(vectors: LedgerVectors, embedder: str) -> VectorStatus:
        filled.set()
        await saved.wait()
        await swap(vectors, embedder)
        swapped.set()
        return await asyncio.Future()

    monkeypatch.setattr(LedgerVectors, "swap", swap_and_hang)
    async with opening("there") as there:
        async with opening("here") as here:
            await save(here.bus, GOLD)
            for stack in (here, there):
                await in_step(stack.bus, records=1)
            ollama.models.append(f"{NOMIC}:latest")
            await ask_service(here.bus, REINDEX, Reindex(embedder=NOMIC))
            await filled.wait()
            await save(there.bus, MOON)  # this stack indexes it: the other is about to swap
            await all_indexed(there.bus, records=2)
            saved.set()
            await swapped.wait()

        await all_indexed(there.bus, records=2)
        assert (await status(there.bus)).embedder == NOMIC


async def test_another_stack_goes_on_with_the_index_of_one_that_ended(
    opening: Opening, ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding = asyncio.Event()
    upsert_next = LedgerVectors.upsert_next

    async def hang_first(vectors: LedgerVectors, items: list[VectorItem]) -> VectorsStored:
        if not embedding.is_set():
            embedding.set()
            await asyncio.Event().wait()
        return await upsert_next(vectors, items)

    monkeypatch.setattr(LedgerVectors, "upsert_next", hang_first)
    async with opening("there") as there:
        async with opening("here") as here:
            await save(here.bus, GOLD)
            for stack in (here, there):
                await in_step(stack.bus, records=1)
            ollama.models.append(f"{NOMIC}:latest")
            await ask_service(here.bus, REINDEX, Reindex(embedder=NOMIC))
            await embedding.wait()

        async def is_served() -> bool:
            now = await status(there.bus)
            return (now.embedder, now.next, now.in_index) == (NOMIC, None, 1)

        await eventually(is_served, within=30)


async def test_a_record_that_another_stack_has_embedded_holds_up_no_change(
    stacks: list[Connection], ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = stacks
    await save(here, GOLD)
    await in_step(here, records=1)
    store_vectors = IndexedRecords.store_vectors
    repeated = list[Waiting]()

    async def queue_again(
        records: IndexedRecords,
        batch: list[Waiting],
        vectors: list[bytes],
        embedder: str,
        *,
        kind: TaskKind = "index",
    ) -> None:
        await store_vectors(records, batch, vectors, embedder, kind=kind)
        if kind == "embed" and not repeated:
            repeated.extend(batch)
            await records.queue([one.id for one in batch], kind="embed")

    sent = list[int]()
    embed_next = VectorClient.upsert_next

    async def count(client: VectorClient, items: list[VectorItem]) -> VectorsStored:
        sent.append(len(items))
        return await embed_next(client, items)

    monkeypatch.setattr(IndexedRecords, "store_vectors", queue_again)
    monkeypatch.setattr(VectorClient, "upsert_next", count)
    ollama.models.append(f"{NOMIC}:latest")
    await ask_service(here, REINDEX, Reindex(embedder=NOMIC))

    async def is_served() -> bool:
        now = await status(here)
        return (now.embedder, now.next, now.in_index) == (NOMIC, None, 1)

    await eventually(is_served, within=30)
    assert len(repeated) == 1
    assert sent == [1], "the worker is asked once"
