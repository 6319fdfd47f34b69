"""Commands on files show a progress bar, on a terminal only."""

import asyncio
import json
import os
import pty
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from commands import COMMAND, shown_on
from factories import ConnectBus
from local2.bus.tool_host import ToolHost
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import INGEST
from local2.tools.catalog import bind

MESSAGES = [{"role": "user", "content": f"Osmium {n}."} for n in range(3)]


@pytest.fixture
async def folder(connect_bus: ConnectBus, memory: Memory, tmp_path: Path) -> AsyncIterator[Path]:
    """Return a folder with a file of messages, while `ingest` is served."""
    lines = "\n".join(map(json.dumps, MESSAGES))
    (tmp_path / "talk.jsonl").write_text(lines)
    async with ToolHost(await connect_bus(), bind(INGEST, Memories(memory))):
        yield tmp_path


async def run_ingest(folder: Path, nats_url: str, *words: str) -> tuple[str, str]:
    """Return the command's output, and what it shows on the terminal of its standard error."""
    terminal_side, process_side = pty.openpty()
    environment = {"LOCAL2_BUS__URL": nats_url, "TERM": "xterm", "COLUMNS": "100", "LINES": "25"}
    try:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            "ingest",
            *words,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=process_side,
        )
    finally:
        os.close(process_side)
    shown = asyncio.create_task(asyncio.to_thread(lambda: b"".join(shown_on(terminal_side))))
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode(), (await shown).decode()


@pytest.mark.parametrize("count", [1, 2])
async def test_a_terminal_shows_the_progress_and_is_cleared_at_the_end(
    folder: Path, nats_url: str, count: int
) -> None:
    printed, shown = await run_ingest(folder, nats_url, *["talk.jsonl"] * count)

    assert printed.startswith("talk.jsonl: 3 stored, 0 already known.\n")
    bars = re.findall(r"talk\.jsonl .*?(\d)/(\d)", shown)
    assert bars[-1] == (str(3 * count), str(3 * count))
    *_, after = shown.rpartition("/")
    assert "\x1b[2K" in after, "the line is erased"
    assert "talk.jsonl" not in after


async def test_json_output_shows_no_progress(folder: Path, nats_url: str) -> None:
    printed, shown = await run_ingest(folder, nats_url, "talk.jsonl", "--json")

    assert json.loads(printed)[0]["data"]["remembered"] == 3
    assert shown == ""
