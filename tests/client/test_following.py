"""A client outlives its stack: the next call finds the new stack, or starts one."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

import local2
from commands import Running, start_in_a_fork
from factories import ConnectBus
from local2.bus.connection import BusMessage
from local2.client import shared_stack
from local2.client.access import StackConnection
from local2.errors import BusError
from local2.home import is_alive, runtime_file
from local2.protocol import subjects
from local2.protocol.items import ItemKey
from local2.settings import BusSettings, Settings
from stacks import pid_of_stack
from waiting import eventually

OFFLINE = {"LOCAL2_MEMORY__EMBEDDER": "minilm", "LOCAL2_GENERATOR__CHAT": "rules"}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the stacks that clients start, without a model to ask."""
    monkeypatch.setattr(shared_stack, "start_stack", start_in_a_fork)
    for variable, value in OFFLINE.items():
        monkeypatch.setenv(variable, value)


async def name_once_available(memory: local2.Memory) -> str | None:
    """Return the value of a topic as soon as the memory is available."""
    values: list[str | None] = []

    async def is_available() -> bool:
        try:
            values.append(await memory.topics["user.name"])
        except local2.UnavailableError:
            return False
        return True

    await eventually(is_available, within=60)
    return values[-1]


async def test_a_running_call_fails_when_its_stack_is_killed(tmp_path: Path) -> None:
    async with local2.connect(home=tmp_path, user="ada", timeout=60) as memory:
        await memory.topics["user.name"].set("Ada")
        stack, client = pid_of_stack(tmp_path), (await memory._calls.bus()).client
        os.kill(stack, signal.SIGSTOP)
        sent = client.stats["out_msgs"]
        running_calls = [
            asyncio.ensure_future(memory.recall("name")),
            asyncio.ensure_future(memory.items("notes").get([ItemKey(namespace=("n",), key="a")])),
        ]
        await eventually(lambda: client.stats["out_msgs"] >= sent + 2)
        os.kill(stack, signal.SIGKILL)

        for call in running_calls:
            with pytest.raises(local2.StackNotRunningError, match="stopped before it answered"):
                await call


async def test_a_client_connects_to_a_stack_that_a_user_restarted(tmp_path: Path) -> None:
    first = Running(tmp_path)
    try:
        async with local2.connect(home=tmp_path, user="ada", timeout=2) as memory:
            await memory.topics["user.name"].set("Ada")
            before = first.url
            first.stop(signal.SIGTERM)
            second = Running(tmp_path)
            try:
                assert second.url != before
                assert await name_once_available(memory) == "Ada"
                assert pid_of_stack(tmp_path) == second.process.pid
            finally:
                second.stop(signal.SIGTERM)
    finally:
        first.process.kill()


async def test_a_stack_started_by_a_user_replaces_the_clients_own(
    tmp_path: Path,
) -> None:
    async with local2.connect(home=tmp_path, user="ada", timeout=2) as memory:
        await memory.topics["user.name"].set("Ada")
        first = pid_of_stack(tmp_path)
        second = Running(tmp_path)
        try:
            await eventually(lambda: not is_alive(first), within=30)
            assert await name_once_available(memory) == "Ada"
            assert pid_of_stack(tmp_path) == second.process.pid
        finally:
            second.stop(signal.SIGTERM)


async def test_a_tool_without_a_responder_means_that_the_stack_has_ended(
    tmp_path: Path, nats_url: str, connect_bus: ConnectBus
) -> None:
    """The server outlives its stack briefly, and reports only that nobody serves the tool."""
    data_dir = tmp_path / ".local2"
    data_dir.mkdir()
    stack = await connect_bus()

    async def confirm(message: BusMessage) -> None:
        await stack.publish(message.reply, b"")

    with runtime_file(data_dir, nats_url):
        async with local2.connect(home=tmp_path) as memory:
            subscription = await stack.subscribe(subjects.MEMORY_READY, confirm)
            with pytest.raises(local2.UnknownToolError):
                await memory.call("recall")
            with pytest.raises(local2.UnavailableError, match="at the moment"):
                await memory.recall("Who?")
            await subscription.stop(grace=1.0)
            with pytest.raises(local2.StackNotRunningError, match="has just ended"):
                await memory.call("recall")


async def test_a_connection_that_is_still_opening_is_given_up_when_its_context_ends() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    settings = Settings(bus=BusSettings(url=f"nats://127.0.0.1:{port}"))
    async with silent:
        async with StackConnection(settings, name="test") as stack:
            opening = asyncio.create_task(stack.bus())
            await asyncio.sleep(0)

        with pytest.raises(BusError, match="closed"):
            await opening
