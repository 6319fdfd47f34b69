"""The memory as a library, as docs/library.md shows it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from local.bus.connection import connect
from local.errors import FolderLockedError, NoRespondersError
from local.library import Caller, open_memory
from local.memory.service import MemoryService
from local.protocol import subjects
from local.runtime import running_url
from local.settings import load_settings
from waiting import eventually

DOCS = Path(__file__).parents[1] / "docs" / "library.md"
RICHARD = Caller(tenant="default", user="richard")
GOLD = "The chemical symbol of gold is Au."
TEN = 10
OFFLINE = {"LOCAL2_MEMORY__EMBEDDER": "minilm", "LOCAL2_GENERATOR__CHAT": "rules"}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder without settings; no model is asked for."""
    monkeypatch.chdir(tmp_path)
    for variable, value in OFFLINE.items():
        monkeypatch.setenv(variable, value)
    return tmp_path


def blocks() -> list[str]:
    """The code of the page, and what it prints."""
    return re.findall(r"```(?:python)?\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def test_the_ten_lines_of_the_docs_print_what_the_docs_say(offline: Path) -> None:
    code, printed = blocks()

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=offline,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == (printed, "")
    assert (offline / "notes" / ".local2" / "ledger.sqlite3").exists()
    assert len([line for line in code.splitlines() if line]) == TEN


@pytest.mark.usefixtures("worker_here")
async def test_what_was_remembered_is_found_by_its_meaning_when_it_is_opened_again(
    offline: Path,
) -> None:
    async def meant(service: MemoryService) -> list[str]:
        found = await service.search_episodic("Which letters stand for that precious metal?")
        return [hit.content for hit in found.hits]

    async with open_memory(offline / "notes") as memory:
        await memory.of(RICHARD).write_episodic(GOLD)
    async with open_memory(offline / "notes") as memory:
        await eventually(lambda: meant(memory.of(RICHARD)), within=30)

        assert await meant(memory.of(RICHARD)) == [GOLD]
        assert await meant(memory.of(Caller(tenant="default", user="eve"))) == []


@pytest.mark.usefixtures("worker_here")
async def test_a_folder_is_opened_once_at_a_time(offline: Path) -> None:
    async with open_memory(offline):
        with pytest.raises(FolderLockedError):
            async with open_memory(offline):
                pass


@pytest.mark.usefixtures("worker_here")
async def test_it_is_a_stack_without_a_generator(offline: Path) -> None:
    async with (
        open_memory(offline),
        connect(running_url(load_settings()), name="test") as bus,
    ):
        await bus.request(subjects.discovery("PING", "memory_agent"), b"")
        with pytest.raises(NoRespondersError):
            await bus.request(subjects.discovery("PING", "generator_agent"), b"")


@pytest.mark.usefixtures("worker_here")
async def test_a_programs_own_logging_is_left_alone(offline: Path) -> None:
    before = structlog.get_config()

    async with open_memory(offline):
        assert structlog.get_config() == before
