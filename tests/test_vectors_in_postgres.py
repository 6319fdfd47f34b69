"""Stacks with a ledger in PostgreSQL share its vectors."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from local2.bus.connection import Connection
from local2.client.access import ask_service
from local2.client.tools import call_tool
from local2.protocol.maintenance import Reindex
from local2.protocol.services import REINDEX
from postgres_server import PostgresServer
from stacks import CALLER, contents, in_step, save, search, settings_in, status
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually
from workers import stack_with_worker_here

MINILM, NOMIC = "all-MiniLM-L6-v2", "nomic-embed-text"
GOLD, MOON = "The chemical symbol of gold is Au.", "The moon pulls at the oceans."
MEANT = "Au is which element?"


@pytest.fixture
async def stacks(
    tmp_path: Path, postgres_databases: PostgresServer, ollama: OllamaStandIn
) -> AsyncIterator[list[Connection]]:
    """Two stacks on one ledger, each with a bus of its own; they begin with MiniLM."""
    ollama.models.clear()
    async with AsyncExitStack() as resources:
        url = resources.enter_context(postgres_databases.new_database())

        async def open_one(name: str) -> Connection:
            settings = settings_in(
                tmp_path / name, embedder="auto", ollama_url=ollama.url, ledger=url
            )
            opening = stack_with_worker_here(settings, with_generator=False)
            return (await resources.enter_async_context(opening)).bus

        yield [await open_one("here"), await open_one("there")]


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
