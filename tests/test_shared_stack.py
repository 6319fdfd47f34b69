"""A stack starts with its first client, is shared by all, and stops after the last."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from commands import Running, start_in_a_fork
from forking import Fork
from local2.client import shared_stack
from local2.client.access import connected
from local2.client.shared_stack import StackUsage, stack_running
from local2.client.tools import call_tool
from local2.config_files import load_settings
from local2.errors import StackNotRunningError, UnwritableError
from local2.home import RUNTIME_FILE, Runtime, is_alive, is_running, running_url
from local2.settings import BusSettings, HttpSettings, McpSettings, Settings
from stacks import CALLER, pid_of_stack, settings_in
from waiting import eventually

CLIENT = """
import asyncio, sys
from pathlib import Path
from local2.client.shared_stack import stack_running
from stacks import settings_in

async def use():
    async with stack_running(settings_in(Path(sys.argv[1]))):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(use())
"""
STOPPED = 30.0
"""Seconds for an unused stack to notice it and stop."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[Fork]:
    """Fork the stacks that clients start, and return them; two tests start them as users do."""
    stacks: list[Fork] = []

    def start(settings: Settings, *, linger: float) -> Fork:
        stacks.append(start_in_a_fork(settings, linger=linger))
        return stacks[-1]

    monkeypatch.setattr(shared_stack, "start_stack", start)
    return stacks


def pid_of(settings: Settings) -> int:
    return pid_of_stack(settings.memory.data_dir.parent)


def answers(url: str) -> bool:
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port), timeout=1).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def client(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a separate program that uses the stack of a folder."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CLIENT,
        folder,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ready(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"


async def test_a_stack_starts_serves_its_client_and_stops(settings: Settings) -> None:
    async with stack_running(settings), connected(settings, name="test") as bus:
        stack = pid_of(settings)
        saved = await call_tool(bus, "save_memory", {"content": "Gold is Au."}, caller=CALLER)
        assert saved.ok
        assert stack != os.getpid()

    await eventually(lambda: not is_alive(stack), within=STOPPED)
    assert not is_running(settings)


async def test_simultaneous_clients_share_one_stack_until_the_last_is_killed(
    tmp_path: Path, settings: Settings
) -> None:
    async with client(tmp_path) as one, client(tmp_path) as two:
        await asyncio.gather(ready(one), ready(two))
        stack = pid_of(settings)
        one.send_signal(signal.SIGKILL)
        await one.wait()
        async with stack_running(settings):
            assert pid_of(settings) == stack
            two.send_signal(signal.SIGKILL)
            await two.wait()
            async with connected(settings, name="test"):
                assert is_alive(stack)

    await eventually(lambda: not is_alive(stack), within=STOPPED)


async def test_one_of_several_simultaneous_clients_starts_the_stack(
    settings: Settings, forked: list[Fork]
) -> None:
    async def use(barrier: asyncio.Barrier) -> int:
        async with stack_running(settings):
            await barrier.wait()
            return pid_of(settings)

    barrier = asyncio.Barrier(5)
    stacks = await asyncio.gather(*(use(barrier) for _ in range(5)))

    assert set(stacks) == {process.pid for process in forked}
    assert len(forked) == 1
    await eventually(lambda: forked[0].returncode is not None, within=STOPPED)
    assert forked[0].returncode == 0


@pytest.mark.usefixtures("forked")
async def test_a_returning_client_is_served_whether_or_not_the_stack_is_stopping(
    settings: Settings,
) -> None:
    for pause in (0.0, 0.3, 0.6, 0.9):
        async with stack_running(settings), connected(settings, name="test") as bus:
            found = await call_tool(bus, "recall_topic", {"topic": "user.name"}, caller=CALLER)
            assert found.ok
        await asyncio.sleep(pause)  # the stack may be in any phase of stopping

    await eventually(lambda: not is_running(settings), within=STOPPED)


@pytest.mark.usefixtures("forked")
async def test_a_killed_stack_is_restarted_although_its_file_names_another_process(
    settings: Settings,
) -> None:
    async with stack_running(settings):
        url, stack = running_url(settings), pid_of(settings)
        os.kill(stack, signal.SIGKILL)
        await eventually(lambda: not is_running(settings))
        left = msgspec.json.encode(Runtime(url=url, pid=os.getpid()))
        (settings.memory.data_dir / RUNTIME_FILE).write_bytes(left)
        await eventually(lambda: not answers(url))  # the server ends after its stack

        async with stack_running(settings), connected(settings, name="test"):
            assert pid_of(settings) not in {stack, os.getpid()}


async def test_a_stack_started_by_hand_is_used_and_left_running(tmp_path: Path) -> None:
    running = Running(tmp_path, LOCAL2_MEMORY__EMBEDDER="minilm")
    settings = settings_in(tmp_path)
    try:
        async with stack_running(settings):
            assert running_url(settings) == running.url
        with StackUsage(settings.memory.data_dir) as anybody:
            assert anybody.is_over(0)

        assert running.process.poll() is None
        assert not (settings.memory.data_dir / shared_stack.LOG).exists()
    finally:
        running.stop(signal.SIGTERM)


async def test_a_stack_that_does_not_start_reports_the_reason_and_a_remedy(
    settings: Settings,
) -> None:
    no_model = msgspec.structs.replace(
        settings,
        generator=msgspec.structs.replace(
            settings.generator, chat="ollama", ollama_url="http://127.0.0.1:1"
        ),
    )

    with pytest.raises(StackNotRunningError) as caught:
        async with stack_running(no_model):
            pass

    assert "did not start (exit code 1)" in caught.value.message
    assert "Error: " in caught.value.message
    assert "http://127.0.0.1:1" in caught.value.message
    assert str(shared_stack.LOG) in str(caught.value.remedy)


async def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".local2").write_text("a file")

    with pytest.raises(UnwritableError):
        async with stack_running(settings_in(tmp_path)):
            pass


@pytest.mark.parametrize(
    "bus", [BusSettings(url="nats://127.0.0.1:1"), BusSettings(credentials=Path("richard.creds"))]
)
async def test_no_stack_is_started_when_the_bus_is_configured(
    settings: Settings, bus: BusSettings
) -> None:
    elsewhere = msgspec.structs.replace(settings, bus=bus)

    async with stack_running(elsewhere):
        assert not elsewhere.memory.data_dir.exists()


def test_a_stack_has_the_settings_of_the_client_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings files in its folder and variables that the client did not use are ignored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCAL2_MEMORY__TOP_K", "19")
    client_settings = msgspec.structs.replace(
        settings_in(tmp_path), bus=BusSettings(tenant="acme", request_timeout=1e-07)
    )
    memory = msgspec.structs.replace(
        client_settings.memory, anonymise="on", reranker_model="a: b #c\n\"'é"
    )

    client_settings = msgspec.structs.replace(client_settings, memory=memory)
    environment = shared_stack._environment(client_settings)

    accounts = msgspec.structs.replace(client_settings.bus, accounts=tmp_path / "config" / "nats")
    expected = msgspec.structs.replace(client_settings, bus=accounts)
    assert load_settings(environment=environment) == expected


def test_a_clients_token_does_not_reach_the_stack_that_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "of a person"  # noqa: S105 - nobody's
    monkeypatch.setenv("LOCAL2_MCP__TOKEN", secret)
    client_settings = msgspec.structs.replace(
        settings_in(tmp_path),
        bus=BusSettings(tenant="acme", token=secret),
        mcp=McpSettings(token=secret),
        http=HttpSettings(token=secret),
    )

    assert secret not in str(shared_stack._environment(client_settings))


def test_a_stack_stays_while_it_was_used_recently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with StackUsage(tmp_path) as stack, StackUsage(tmp_path) as client:
        client.touch()
        monkeypatch.setattr(time, "time", lambda: now + 50)
        assert not stack.is_over(60)
        monkeypatch.setattr(time, "time", lambda: now + 70)
        assert stack.is_over(60)


async def test_a_stack_waiting_for_the_folder_ends_with_the_stack_that_is_stopping(
    tmp_path: Path,
) -> None:
    with (
        StackUsage(tmp_path) as ending,
        StackUsage(tmp_path) as waiting,
        StackUsage(tmp_path) as client,
    ):
        await client.begin(within=0)
        assert not waiting.is_over(0)
        assert not ending.is_over(0)

    with StackUsage(tmp_path) as ending, StackUsage(tmp_path) as waiting:
        assert ending.is_over(0)
        assert waiting.is_over(0)


async def test_a_stopping_stack_accepts_no_new_client(tmp_path: Path) -> None:
    with StackUsage(tmp_path) as late:
        with StackUsage(tmp_path) as stack:
            assert stack.is_over(0)
            with pytest.raises(StackNotRunningError, match="is stopping"):
                await late.begin(within=0)

        await late.begin(within=0)
        with StackUsage(tmp_path) as stack:
            assert not stack.is_over(0)
