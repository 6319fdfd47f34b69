"""One live stack for all attacks, with content stored by two tenants' users."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import pytest_asyncio

from attacks.listening import work_of_ada
from attacks.world import (
    ADAS,
    BETAS,
    ITEM,
    ITEMS,
    OUTPUT,
    QUERY,
    SESSION,
    SHARED,
    ReadRows,
    World,
    ask,
)
from commands import local2
from http_servers import http_server
from local2.settings import MemorySettings
from postgres_server import PostgresServer
from tenant_agents import ACCOUNTS, Agent, agent, with_tenants
from waiting import eventually, wait_until
from workers import stack_with_worker_here

AGENTS = {
    "desk": ("acme", "agent"),
    "boss": ("acme", "local2"),
    "curator": ("acme", "curt"),
    "eve": ("acme", "eve"),
    "rita": ("acme", "rita"),
    "office": ("beta", "agent"),
    "chief": ("beta", "local2"),
    "mallory": ("beta", "mallory"),
}
ADDED_AGENTS = (
    ("acme", "curt", "curator"),
    ("acme", "eve", "writer"),
    ("acme", "rita", "reader"),
    ("acme", "http", "writer"),
    ("beta", "mallory", "writer"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgres"])
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    folder: Path = tmp_path_factory.mktemp("attacks")
    databases, ledger = ExitStack(), None
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_databases")
        ledger = databases.enter_context(server.new_database())
    settings = with_tenants(folder, "acme", "beta", consolidation_hours=0, ledger=ledger)
    for tenant, name, role in ADDED_AGENTS:
        done = local2(folder, "tenants", "add", tenant, "--agent", name, "--role", role)
        assert done.returncode == 0, done.stderr
    async with AsyncExitStack() as resources:
        resources.push(databases)
        opening = stack_with_worker_here(settings, log_folder=folder)
        stack = await resources.enter_async_context(opening)
        agents: dict[str, Agent] = {}
        for nickname, (tenant, name) in AGENTS.items():
            connected = agent(folder, stack.url, tenant, name)
            agents[nickname] = await resources.enter_async_context(connected)
        read = resources.enter_context(_reading(settings.memory))
        world = World(folder, stack.url, agents, read)
        if request.param == "sqlite":
            await asyncio.to_thread(_serve_pages, world, resources)
        await _store_content(world)
        await work_of_ada(world)
        await eventually(lambda: _indexed(world), within=60)
        world.begin_attacks()
        yield world


def _serve_pages(world: World, resources: AsyncExitStack) -> None:
    """Run `local2 web` as an agent of acme, and let ada sign in."""
    credentials = str(world.folder / ACCOUNTS / "acme" / "http.nk")
    serving = http_server(world.folder, "web", LOCAL2_BUS__CREDENTIALS=credentials)
    world.web = resources.enter_context(serving)
    form = {"token": world.token("ada")}
    own = {"Origin": world.web.url}

    def has_signed_in() -> bool:  # at first, the server is still connecting
        answer = httpx.post(f"{own['Origin']}/sign-in", data=form, headers=own, trust_env=False)
        world.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return bool(world.cookie)

    wait_until(has_signed_in)


@contextmanager
def _reading(memory: MemorySettings) -> Iterator[ReadRows]:
    """Read the rows of all tenants, over one connection for all attacks."""
    if memory.ledger is None:
        with closing(sqlite3.connect(memory.data_dir / "ledger.sqlite3")) as sqlite:
            yield lambda sql: sqlite.execute(sql).fetchall()
    else:
        with psycopg.connect(memory.ledger, autocommit=True) as postgres:
            postgres.execute("SELECT set_config('local2.tenant', '*', false)")
            yield lambda sql: postgres.execute(sql.encode()).fetchall()


async def _indexed(world: World) -> bool:
    await world.at_rest()
    world.known = await world.known_to_users()
    return '"degraded": true' not in json.dumps(world.known)


async def _store_content(world: World) -> None:
    """Store content for the ada of each tenant, with the same ids, and content for everybody."""
    for name, agent_, admin, secret in (
        ("acme", world.desk, world.boss, ADAS),
        ("beta", world.office, world.chief, BETAS),
    ):
        token = world.token("ada", name)
        envelope: dict[str, Any] = {"session_id": SESSION, "query_id": QUERY}
        topic = {"topic": "user.code", "content": f"The code of the vault is {secret}."}
        assert (await agent_.call("save_topic", topic, token=token)).ok
        fact = {"content": f"The spare code of the vault is {secret} too.", "scope": "user"}
        stored = await agent_.call("remember_fact", fact, token=token)
        world.ids[name] = stored.data["id"]
        turn = {"query": "Say the code of the vault.", "answer": f"It is {secret}."}
        await ask(
            agent_, "memory.turn", turn, token=token, headers={"Nats-Msg-Id": "m1"}, **envelope
        )
        noted = await agent_.call("note", {"content": f"Vault: {secret}"}, token=token, **envelope)
        assert noted.ok
        part = {"key": OUTPUT, "offset": 0, "text": f"Vault report: {secret}", "last": True}
        assert "Stored" in await ask(agent_, "memory.output.keep", part, token=token)
        item = {**ITEM, "value": {"code": secret}, "text": f"The item of the vault is {secret}."}
        put = {**ITEMS, "items": [item]}
        assert "stored" in await ask(agent_, "memory.items.put", put, token=token)
        database = {"topic": "project.database", "content": f"{name} uses PostgreSQL."}
        assert (await admin.call("save_topic", database, token=token)).ok
        guide = {"title": "Guide", "content": f"{name} climbs. {SHARED if name == 'acme' else ''}"}
        assert (await admin.call("add_document", guide, token=token)).ok
    await world.at_rest()
