"""`local2 mcp` as clients start it: it leaves nothing running, and survives a stack's restart."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from local2.home import is_alive
from mcp import Client
from mcp_clients import command, text_of
from mcp_killing import STAGES, kill_clients
from stacks import pid_of_stack
from waiting import eventually


async def test_clients_of_either_era_need_nothing_but_the_command_and_share_one_stack(
    tmp_path: Path,
) -> None:
    async with (
        Client(command(tmp_path, "--user", "ada"), mode="auto", cache=None) as client,
        Client(command(tmp_path, "--user", "ada"), mode="legacy", cache=None) as legacy,
    ):
        assert client.server_info is not None
        assert client.server_info.name == "local2"
        assert "long-term memory" in (client.instructions or "")
        topic = {"topic": "user.city", "content": "Oslo"}
        assert not (await legacy.call_tool("save_topic", topic)).is_error
        assert "Oslo" in text_of(await client.call_tool("recall_topic", {"topic": "user.city"}))
        stack = pid_of_stack(tmp_path)

    await eventually(lambda: not is_alive(stack), within=30)


async def test_calls_fail_with_the_reason_while_the_stack_is_down(tmp_path: Path) -> None:
    async with Client(command(tmp_path, "--user", "ada"), mode="legacy", cache=None) as client:
        await client.call_tool("save_topic", {"topic": "user.city", "content": "Oslo"})
        first = pid_of_stack(tmp_path)
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: not is_alive(first))

        async def answered() -> bool:
            result = await client.call_tool("recall_topic", {"topic": "user.city"})
            if result.is_error:
                assert "Error (unavailable)" in text_of(result)
                assert (await client.list_tools()).tools
                return False
            return "Oslo" in text_of(result)

        await eventually(answered, within=60)
        assert pid_of_stack(tmp_path) != first


@pytest.mark.timeout(600)  # mostly interpreters that import the SDK
async def test_a_client_killed_at_any_stage_leaves_no_process_behind(tmp_path: Path) -> None:
    await kill_clients(len(STAGES) - 1, tmp_path)


async def test_an_invalid_setting_ends_the_command_with_an_error(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mcp.yaml").write_text("profile: [default, recall]\n")
    with errors.open("wb") as file:
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "local2",
            "mcp",
            "--home",
            str(tmp_path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
        )
        assert server.stdin is not None
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert await server.wait() == 1
    assert "A profile is one name" in errors.read_text()
