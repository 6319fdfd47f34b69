"""The whole stack: every process and file as on a user's machine, asked over the bus."""

import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from local.app import Stack, open_stack
from local.bus.connection import Connection, Message, connect
from local.bus.query_client import QueryClient
from local.bus.tool_client import call_tool
from local.errors import (
    BusError,
    ConfigError,
    FolderLockedError,
    ModelError,
    StackNotRunningError,
)
from local.protocol.caller import Caller
from local.protocol.payloads import MemoryStatus
from local.runtime import running_url
from local.settings import BusSettings, GeneratorSettings, Settings
from stacks import CALLER, contents, in_step, save, search, settings_in, status
from stand_ins.ollama_server import OllamaStandIn
from waiting import eventually

GOLD = "The chemical symbol of gold is Au."
TIDES = "The moon pulls at the oceans."
shared_stack = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_in(tmp_path_factory.mktemp("stack"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """One stack for the tests that leave it as it was."""
    logs = tmp_path_factory.mktemp("worker-logs")
    async with open_stack(settings, log_folder=logs) as running:
        await in_step(running.bus)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(stack: Stack, settings: Settings) -> AsyncIterator[Connection]:
    """A connection that knows nothing but the runtime file."""
    assert running_url(settings) == stack.url
    async with connect(running_url(settings), name="client") as connection:
        yield connection


@shared_stack
async def test_what_is_saved_is_recalled_over_the_bus(client: Connection) -> None:
    args = {"topic": "user.language_preference"}
    await call_tool(client, "save_topic", {**args, "content": "Elixir"}, caller=CALLER)

    recalled = await call_tool(client, "recall_topic", args, caller=CALLER)

    assert recalled.content == "[Memory: user.language_preference] Elixir"


@shared_stack
async def test_what_is_saved_is_found_by_its_meaning(client: Connection) -> None:
    await save(client, GOLD)
    await save(client, TIDES)
    await in_step(client)

    found = await search(client, "Which letters stand for that precious metal?")

    assert contents(found) == [GOLD]
    assert found["degraded"] is False


@shared_stack
async def test_a_tool_can_be_called_with_nothing_but_a_payload(client: Connection) -> None:
    answer = await client.request(
        "tool.request.recall_topic", b'{"payload":{"args":{"topic":"user.name"}}}'
    )

    assert json.loads(answer.data)["payload"]["content"] == "No memories found."


@shared_stack
async def test_every_participant_can_be_discovered(client: Connection) -> None:
    names: set[str] = set()

    async def keep(message: Message) -> None:
        names.add(json.loads(message.data)["name"])

    await client.subscribe("test.pings", keep)
    await client.publish("$SRV.PING", b"", reply="test.pings")

    expected = {
        "save_topic",
        "recall_topic",
        "save_memory",
        "search_memory",
        "housekeeper",
        "memory_agent",
        "vector_worker",
        "generator_agent",
    }
    await eventually(lambda: len(names) >= len(expected))
    assert names == expected


@shared_stack
async def test_a_conversation_is_remembered_in_another_session(client: Connection) -> None:
    async with QueryClient(client) as asking:
        first, second = (
            Caller(user="anna", agent="shell", session_id=session) for session in ("a1", "a2")
        )
        await asking.ask("Remember that my favourite metal is osmium.", caller=first)
        recalled = await asking.ask("What is my favourite metal?", caller=second)

        assert "osmium" in recalled.answer
        assert recalled.error is None

        async def remembered() -> bool:
            found = await search(client, "favourite metal", caller=second)
            return any("A: Saved: osmium" in text for text in contents(found))

        await eventually(remembered)


@shared_stack
async def test_a_second_stack_on_the_folder_is_refused_with_the_process_named(
    stack: Stack, settings: Settings
) -> None:
    with pytest.raises(FolderLockedError, match=f"process {os.getpid()}"):
        async with open_stack(settings):
            pass

    assert (await status(stack.bus)).vectors_available


@shared_stack
async def test_the_status_counts_what_is_there(client: Connection) -> None:
    await save(client, "A record at least.")
    await in_step(client)

    now = await status(client)

    assert now.records == now.indexed == now.in_index
    assert now == MemoryStatus(
        records=now.records,
        indexed=now.records,
        waiting=0,
        vectors_available=True,
        in_index=now.records,
        embedder="all-MiniLM-L6-v2",
    )


@shared_stack
async def test_a_killed_worker_is_restarted_and_searches_answer_all_the_while(
    client: Connection, stack: Stack
) -> None:
    await save(client, GOLD)
    await in_step(client)
    pid = stack.vector_worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def degraded() -> bool:
        found = await search(client, "symbol of gold")
        assert GOLD in contents(found)
        return bool(found["degraded"])

    await eventually(degraded)
    await eventually(lambda: stack.vector_worker.pid not in {None, pid})
    await in_step(client)
    assert (await search(client, "that precious metal"))["degraded"] is False


@shared_stack
async def test_no_content_is_logged(client: Connection, logs: Path) -> None:
    await save(client, "The word is xyzzy.")
    await search(client, "word xyzzy")
    await call_tool(client, "save_topic", {"topic": "user.word", "content": "xyzzy"}, caller=CALLER)
    async with QueryClient(client) as asking:
        await asking.ask("Remember that my word is xyzzy.", caller=CALLER)
    await in_step(client)

    def requests() -> list[str]:
        lines = [json.loads(line) for line in logs.read_text().splitlines()]
        return [line["tool"] for line in lines if line["event"] == "request"]

    await eventually(lambda: {"save_memory", "search_memory", "save_topic"} <= set(requests()))
    assert "xyzzy" not in logs.read_text()


async def test_a_stopped_stack_leaves_neither_processes_nor_an_address(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    async with open_stack(settings) as stack:
        await in_step(stack.bus)
        worker = stack.vector_worker.pid
        url = stack.url

    assert worker is not None
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    with pytest.raises(StackNotRunningError, match="No stack is running"):
        running_url(settings)
    with pytest.raises(StackNotRunningError):
        async with connect(url, name="test", patience=0.5):
            pass


async def test_a_restarted_stack_remembers_and_trusts_its_index(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    settings = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(settings) as stack:
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)
    embedded = _documents(ollama)

    async with open_stack(settings) as stack:
        await in_step(stack.bus, records=1)
        found = await search(stack.bus, "symbol of gold")

    assert (contents(found), found["degraded"]) == ([GOLD], False)
    assert _documents(ollama) == embedded == [f"search_document: {GOLD}"]


def _documents(ollama: OllamaStandIn) -> list[str]:
    """Every text that was embedded to be found."""
    return [
        text
        for body in ollama.bodies("/api/embed")
        for text in body["input"]
        if text.startswith("search_document: ")
    ]


async def test_a_deleted_index_is_filled_again_without_embedding(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    settings = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(settings) as stack:
        for n in range(20):
            await save(stack.bus, f"Note {n}: {GOLD}")
        await in_step(stack.bus, records=20)
    embedded = len(_documents(ollama))
    shutil.rmtree(settings.memory.chroma_path)

    async with open_stack(settings) as stack:
        await in_step(stack.bus, records=20)
        found = await search(stack.bus, "symbol of gold")

    assert len(contents(found)) == 5
    assert found["degraded"] is False
    assert len(_documents(ollama)) == embedded == 20


async def test_a_reindex_refills_the_index_without_embedding(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    settings = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(settings) as stack:
        for n in range(20):
            await save(stack.bus, f"Note {n}: {GOLD}")
        await in_step(stack.bus, records=20)
        embedded = len(_documents(ollama))

        await status(stack.bus, reindex=True)
        await in_step(stack.bus, records=20)

        assert len(_documents(ollama)) == embedded == 20
        assert len(contents(await search(stack.bus, "symbol of gold"))) == 5


async def test_another_embedder_degrades_recall_until_a_reindex_mends_it(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    async with open_stack(settings_in(tmp_path)) as stack:
        await save(stack.bus, GOLD)
        await in_step(stack.bus, records=1)

    switched = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(switched) as stack:
        await save(stack.bus, TIDES)

        async def mismatched() -> bool:
            return "was built with" in str((await status(stack.bus)).problem)

        await eventually(mismatched, within=30)
        degraded = await search(stack.bus, "symbol of gold")
        waiting = await search(stack.bus, "moon")
        now = await status(stack.bus)
        assert _documents(ollama) == [], "nothing is embedded for an index that takes no vectors"

        await status(stack.bus, reindex=True)
        await in_step(stack.bus, records=2)
        mended = await search(stack.bus, "symbol of gold")

    assert (contents(degraded), degraded["degraded"]) == ([GOLD], True)
    assert contents(waiting) == [TIDES]
    assert "nomic-embed-text" in degraded["reason"]
    assert "all-MiniLM-L6-v2" in degraded["reason"]
    assert "`local2 reindex`" in degraded["reason"]
    assert now.problem == degraded["reason"]
    assert now.vectors_available is False
    assert (contents(mended)[0], mended["degraded"]) == (GOLD, False)


async def test_an_embedder_that_is_down_delays_indexing_until_it_is_back(
    tmp_path: Path, ollama: OllamaStandIn
) -> None:
    """Ollama fails for a while, as while it is restarted or loads a model."""
    settings = settings_in(tmp_path, embedder="ollama", ollama_url=ollama.url)
    async with open_stack(settings) as stack:
        await in_step(stack.bus)
        ollama.models.clear()
        await save(stack.bus, GOLD)

        down = await search(stack.bus, "symbol of gold")
        assert (contents(down), down["degraded"]) == ([GOLD], True)
        assert "ollama pull nomic-embed-text" in down["reason"]

        ollama.models.append("nomic-embed-text:latest")
        await in_step(stack.bus, records=1)
        back = await search(stack.bus, "symbol of gold")
        assert (contents(back), back["degraded"]) == ([GOLD], False)


async def test_a_stack_starts_while_its_embedder_is_down(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, embedder="ollama")
    async with open_stack(settings) as stack:
        saved = await save(stack.bus, GOLD)

        async def unreachable() -> bool:
            found = await search(stack.bus, "symbol of gold")
            assert (contents(found), found["degraded"]) == ([GOLD], True)
            return "Ollama at http://127.0.0.1:1" in found["reason"]

        await eventually(unreachable, within=30)
        assert saved.ok


async def test_a_server_of_ones_own_is_used_where_it_is_configured(
    tmp_path: Path, nats_url: str
) -> None:
    settings = settings_in(tmp_path)
    own = Settings(
        bus=BusSettings(url=nats_url), memory=settings.memory, generator=settings.generator
    )
    async with open_stack(own) as stack:
        assert stack.url == nats_url
        assert running_url(own) == nats_url
        assert (await save(stack.bus, GOLD)).ok
    assert not (settings.memory.data_dir / "nats").exists()


async def test_a_missing_server_of_ones_own_is_a_clear_error(tmp_path: Path) -> None:
    settings = Settings(
        bus=BusSettings(url="nats://127.0.0.1:1"), memory=settings_in(tmp_path).memory
    )

    with pytest.raises(BusError, match="No NATS server answers"):
        async with open_stack(settings):
            pass


async def test_a_missing_model_stops_the_stack_cleanly(tmp_path: Path) -> None:
    settings = Settings(
        memory=settings_in(tmp_path).memory,
        generator=GeneratorSettings(chat="ollama", ollama_url="http://127.0.0.1:1"),
    )

    with pytest.raises((ModelError, ConfigError), match="ollama serve"):
        async with open_stack(settings):
            pass
    async with open_stack(settings, with_generator=False) as stack:
        assert stack.model is None
