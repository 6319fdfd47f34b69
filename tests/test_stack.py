"""The whole stack, with every process and file as on a user's machine, called over the bus."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from calling import caller_named
from local2.bus.connection import BusMessage, Connection, connect
from local2.client.queries import QueryClient
from local2.client.tools import call_tool
from local2.errors import (
    ConfigError,
    ModelError,
    StackNotRunningError,
)
from local2.home import running_url
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import MemoryChange, ToolResult
from local2.protocol.services import REQUESTS
from local2.settings import GeneratorSettings, Settings
from local2.stack.app import Stack, open_stack
from stacks import (
    CALLER,
    contents,
    in_step,
    recall,
    save,
    say,
    search,
    settings_in,
)
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
    """One stack for the tests that do not change it."""
    logs = tmp_path_factory.mktemp("worker-logs")
    async with open_stack(settings, log_folder=logs) as running:
        await in_step(running.bus)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(stack: Stack, settings: Settings) -> AsyncIterator[Connection]:
    """A connection that knows only the runtime file."""
    assert running_url(settings) == stack.url
    async with connect(running_url(settings), name="client") as connection:
        yield connection


@shared_stack
async def test_every_participant_can_be_discovered(client: Connection) -> None:
    names: set[str] = set()

    async def receive(message: BusMessage) -> None:
        names.add(json.loads(message.data)["name"])

    inbox = client.client.new_inbox()
    await client.subscribe(inbox, receive)
    await client.publish("$SRV.PING", b"", reply=inbox)

    memory_participants = {
        "housekeeper",
        "memory_agent",
        "listener",
        "output_keeper",
        "stream_keeper",
    }
    memory_participants |= {"archivist", "porter", "browser"}
    memory_participants |= {"health", "item_keeper", "letter_keeper"}
    other_participants = {"vector_worker", "generator_agent"}
    expected = {tool.name for tool in TOOLS} | memory_participants | other_participants
    await eventually(lambda: len(names) >= len(expected))
    assert names == expected


@shared_stack
async def test_a_conversation_is_remembered_in_another_session(client: Connection) -> None:
    async with QueryClient(client) as asking:
        first, second = (
            caller_named("anna", agent="shell", session_id=session) for session in ("a1", "a2")
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
async def test_a_writer_is_answered_before_the_change_is_announced(
    client: Connection,
) -> None:
    received: list[BusMessage] = []

    async def receive(message: BusMessage) -> None:
        received.append(message)

    def at(subject: str) -> list[int]:
        return [n for n, message in enumerate(received) if message.subject == subject]

    def saved() -> list[str]:
        return [decode(received[n].data, MemoryChange).payload.id for n in at("memory.saved")]

    await client.subscribe(">", receive)
    await client.flush()
    messages = [{"role": "user", "content": f"{TIDES} {n}"} for n in range(20)]
    args = {"messages": messages, "session_id": "answered first"}
    request = json.dumps({"payload": {"args": args}}).encode()
    inbox = client.client.new_inbox()
    await client.publish("tool.request.ingest", request, reply=inbox)
    await eventually(lambda: at(inbox))
    (answered,) = at(inbox)
    ids = decode(received[answered].data, ToolResult).payload.data["ids"]
    await eventually(lambda: set(ids) <= set(saved()))

    changes = {decode(received[n].data, MemoryChange).payload.id: n for n in at("memory.saved")}
    assert [id_ for id_ in changes if id_ in ids] == ids
    assert answered < changes[ids[0]]


@shared_stack
@pytest.mark.parametrize(
    "subject",
    [
        "tool.request.recall_topic",
        "session.clear",
        *(subject for subject in REQUESTS if subject != "tool.request.>"),
        *subjects.FANOUT_REQUESTS,
    ],
)
async def test_answers_are_sent_to_inboxes_only(client: Connection, subject: str) -> None:
    elsewhere: list[BusMessage] = []
    in_inbox: list[BusMessage] = []

    async def receive(message: BusMessage) -> None:
        (in_inbox if message.subject.startswith("_INBOX.") else elsewhere).append(message)

    inbox = client.client.new_inbox()
    subscriptions = [await client.subscribe(one, receive) for one in (inbox, "elsewhere")]
    request = b'{"payload": {"query": "", "args": {"topic": "user.name"}}}'
    await client.publish(subject, request, reply="elsewhere")
    await client.publish(subject, request, reply=inbox)
    await eventually(lambda: in_inbox)
    assert elsewhere == []
    for one in subscriptions:
        await one.leave()


@shared_stack
async def test_a_killed_worker_is_restarted_while_searches_are_answered(
    client: Connection, stack: Stack
) -> None:
    await save(client, GOLD)
    await say(client, GOLD)
    await in_step(client)
    pid = stack.vector_worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def degraded() -> bool:
        found = await search(client, "symbol of gold")
        recalled = await recall(client, "symbol of gold")
        assert GOLD in contents(found)
        assert GOLD in contents(recalled)
        return bool(found["degraded"] and recalled["degraded"])

    await eventually(degraded)
    await eventually(lambda: stack.vector_worker.pid not in {None, pid})
    await in_step(client)
    assert (await search(client, "that precious metal"))["degraded"] is False
    assert (await recall(client, "that precious metal"))["degraded"] is False


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


@pytest.mark.usefixtures("worker_forked")
async def test_a_stopped_stack_leaves_no_processes_and_no_address(tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("worker_here")
async def test_a_configured_server_is_used(tmp_path: Path, nats_url: str) -> None:
    settings = settings_in(tmp_path, bus_url=nats_url)
    async with open_stack(settings) as stack:
        assert stack.url == nats_url
        assert running_url(settings) == nats_url
        assert (await save(stack.bus, GOLD)).ok
    assert not (settings.memory.data_dir / "nats").exists()


@pytest.mark.usefixtures("worker_here")
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
