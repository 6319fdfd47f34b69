"""The memory as a Python library, as docs/library.md shows it: as a client, and embedded."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import structlog

import local2
from calling import caller_named
from commands import served
from doc_pages import printed_by
from local2.bus.connection import connect
from local2.config_files import load_settings
from local2.errors import NoRespondersError
from local2.home import running_url
from local2.protocol import subjects
from local2.settings import HOME_VARIABLE
from local2.stack.app import open_memory
from stacks import settings_in
from waiting import eventually

DOCS = Path(__file__).parents[1] / "docs" / "library.md"
RICHARD = caller_named("richard")
PARIS = "Q: What is the capital of France?\nA: Paris."
GOLD = "The chemical symbol of gold is Au."
TEN = 10
OFFLINE = {"LOCAL2_MEMORY__EMBEDDER": "minilm", "LOCAL2_GENERATOR__CHAT": "rules"}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder without settings, and without a model to ask."""
    monkeypatch.chdir(tmp_path)
    for variable, value in OFFLINE.items():
        monkeypatch.setenv(variable, value)
    return tmp_path


def examples() -> list[tuple[str, str]]:
    """Return each program of the page, and what it prints."""
    page = DOCS.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)


@pytest.mark.usefixtures("worker_here")
@pytest.mark.parametrize(("code", "printed"), examples(), ids=["client", "blocking", "inside"])
def test_the_programs_of_the_docs_print_what_the_docs_say(
    offline: Path, monkeypatch: pytest.MonkeyPatch, code: str, printed: str
) -> None:
    """Those of clients find a stack; the README's, in `test_ways_in.py`, starts its own."""
    monkeypatch.setenv(HOME_VARIABLE, str(offline))
    is_inside = "open_memory" in code
    with nullcontext() if is_inside else served(settings_in(offline)):
        assert printed_by(code, offline) == printed

    assert (offline / "notes" / ".local2" / "ledger.sqlite3").exists() == is_inside
    assert len([line for line in code.splitlines() if line]) <= TEN


@pytest.mark.usefixtures("worker_here")
async def test_an_opened_memory_is_a_stack_without_a_generator(offline: Path) -> None:
    async with (
        open_memory(offline),
        connect(running_url(load_settings()), name="test") as bus,
    ):
        await bus.request(subjects.discovery("PING", "memory_agent"), b"")
        with pytest.raises(NoRespondersError):
            await bus.request(subjects.discovery("PING", "generator_agent"), b"")


@pytest.mark.usefixtures("worker_here")
async def test_a_programs_own_logging_is_unchanged(offline: Path) -> None:
    before = structlog.get_config()

    async with open_memory(offline):
        assert structlog.get_config() == before


@pytest.mark.usefixtures("worker_here")
async def test_the_four_operations_match_the_reference(offline: Path) -> None:
    """Reference 001: exact keys that are overwritten, and episodes with scores and metadata."""
    async with local2.open_memory(offline) as memory:
        service = memory.of(RICHARD)
        assert await service.recall_topic("user.language_preference") is None
        first = await service.write_topic("user.language_preference", "Elixir")
        again = await service.write_topic("user.language_preference", "Elixir")
        other = await service.write_topic("user.language_preference", "Rust")
        assert (first == again, first == other) == (True, False)
        assert await service.recall_topic("user.language_preference") == "Rust"
        assert await service.recall_topic("user.language") is None

        about = {
            "session_id": "s1",
            "query_id": "q1",
            "timestamp_utc": "2026-05-30T10:00:00Z",
            "tool_calls": 2,
        }
        paris = await service.write_episodic(PARIS, about)
        assert await service.write_episodic(PARIS, about) == paris
        await service.write_episodic(GOLD, {})

        async def is_found_by_meaning() -> list[local2.Hit]:
            return (await service.search_episodic("Which city governs the French?", 1)).hits

        await eventually(is_found_by_meaning, within=30)
        (hit,) = await is_found_by_meaning()
        assert (hit.id, hit.content) == (paris, PARIS)
        assert service.caller.tenant == "default"
        assert 0 < hit.score <= 1
        assert {name: hit.metadata[name] for name in about} == about
        assert (await service.search_episodic("Which team won the ice hockey final?")).hits == []


@pytest.mark.usefixtures("worker_here")
async def test_the_folder_is_a_home_with_its_own_settings_and_clients(offline: Path) -> None:
    (offline / "config").mkdir()
    (offline / "config" / "memory.yaml").write_text("top_k: no_number\n")
    notes = offline / "notes"
    (notes / "config").mkdir(parents=True)
    (notes / "config" / "memory.yaml").write_text("chroma_path: vectors\n")

    async with (
        local2.open_memory(notes) as memory,
        local2.connect(home=notes, user="richard") as client,
    ):
        await memory.of(RICHARD).write_topic("user.name", "Richard")
        assert await client.topics["user.name"] == "Richard"

    assert (notes / "vectors").is_dir()
