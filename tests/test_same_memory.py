"""Every way in uses the same memory: of the user who is logged in, in the same folder."""

import asyncio
import getpass
from contextlib import chdir
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import local2
from calling import RICHARD, ask, call
from calling import answer as tool_answer
from commands import answer, recalled, served
from local2.bus.connection import Connection
from local2.cli import app
from local2.home import asking_user
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.settings import BusSettings
from stacks import settings_in

LOGGED_IN = msgspec.structs.replace(RICHARD, user=getpass.getuser())
NOBODY = msgspec.structs.replace(RICHARD, user=None)


def test_who_asks_is_named_or_logged_in_and_with_accounts_the_token_decides() -> None:
    assert asking_user(BusSettings(), "ada") == "ada"
    assert asking_user(BusSettings(), None) == getpass.getuser()
    assert asking_user(BusSettings(), "") is None
    assert asking_user(BusSettings(tenant="acme"), None) is None
    assert asking_user(BusSettings(credentials=Path("shell.nk")), None) is None


def test_commands_use_the_nearest_memory_upwards_or_else_the_users_own(tmp_path: Path) -> None:
    inside = tmp_path / "project" / "src"
    inside.mkdir(parents=True)

    def error_of_recall(*words: str) -> str:
        with chdir(inside):
            own = {"LOCAL2_HOME": str(tmp_path / "own"), "COLUMNS": "10000"}
            return CliRunner().invoke(app, [*words, "recall", "osmium"], env=own).stderr

    assert str(tmp_path / "own" / ".local2") in error_of_recall()
    (tmp_path / "project" / ".local2").mkdir(mode=0o700)
    assert str(tmp_path / "project" / ".local2") in error_of_recall()
    assert str(tmp_path / "other" / ".local2") in error_of_recall("--home", str(tmp_path / "other"))


def test_commands_and_programs_ask_as_the_user_who_is_logged_in(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)

    async def metals() -> list[str | None]:
        async with local2.connect(settings=settings) as memory:
            named = (memory, memory.of(user=getpass.getuser()), memory.of(user="eve"))
            return [await one.topics["user.metal"] for one in named]

    with served(settings) as stack:
        answer(stack.folder, "call", "save_topic", "topic=user.metal", "content=osmium")

        assert asyncio.run(metals()) == ["osmium", "osmium", None]
        assert [one["topic"] for one in recalled(stack.folder, "metal")] == ["user.metal"]
        assert recalled(stack.folder, "metal", "--user", "") == []


@pytest.mark.usefixtures("tools")
async def test_memories_without_a_user_are_those_of_the_user_who_runs_the_stack(
    bus: Connection,
) -> None:
    async def found(caller: Caller) -> list[str]:
        items = (await call(bus, "recall", {"query": "Which metal?"}, caller))["items"]
        return sorted(item["content"] for item in items)

    await call(bus, "save_topic", {"topic": "user.metal", "content": "osmium"}, NOBODY)
    await call(bus, "ingest", {"messages": [{"role": "user", "content": "A metal: lead."}]}, NOBODY)

    assert await found(LOGGED_IN) == ["A metal: lead.", "osmium"]
    assert (await call(bus, "recall_topic", {"topic": "user.metal"}, LOGGED_IN))["found"]
    assert await found(RICHARD) == []
    assert not (await call(bus, "recall_topic", {"topic": "user.metal"}, RICHARD))["found"]


async def test_the_users_fact_replaces_that_of_the_same_key_without_a_user(
    bus: Connection, tools: Memory
) -> None:
    for caller, city in ((NOBODY, "Oslo"), (LOGGED_IN, "Bergen")):
        saved = await call(bus, "save_topic", {"topic": "user.city", "content": city}, caller)
    await call(bus, "save_topic", {"topic": "user.city", "content": "Rome"}, RICHARD)

    assert saved["superseded"] is not None
    assert await tools.of(LOGGED_IN).recall_topic("user.city") == "Bergen"
    assert await tools.of(NOBODY).recall_topic("user.city") is None
    assert await tools.of(RICHARD).recall_topic("user.city") == "Rome"


@pytest.mark.usefixtures("tools")
async def test_the_user_who_runs_the_stack_corrects_what_was_stored_without_a_user(
    bus: Connection,
) -> None:
    async def city() -> str | None:
        found = await call(bus, "recall_topic", {"topic": "user.city"}, LOGGED_IN)
        content: str | None = found["content"]
        return content

    saved = await call(bus, "save_topic", {"topic": "user.city", "content": "Oslo"}, NOBODY)
    corrected = {"id": saved["id"], "content": "Bergen", "reason": "A mistake."}

    assert not (await ask(bus, "edit_memory", corrected, RICHARD)).ok
    edited = await call(bus, "edit_memory", corrected, LOGGED_IN)
    assert await city() == "Bergen"

    await call(bus, "undo", {"run": edited["run"]}, LOGGED_IN)
    assert await city() == "Oslo"

    await call(bus, "retire_fact", {"ids": [saved["id"]], "reason": "Moved."}, LOGGED_IN)
    assert await city() is None


async def test_if_nothing_is_found_other_users_are_named_to_the_user_who_runs_the_stack(
    bus: Connection, tools: Memory
) -> None:
    del tools
    for user in ("ada", "zoë"):
        ada = msgspec.structs.replace(RICHARD, user=user)
        await call(bus, "save_topic", {"topic": "user.metal", "content": "osmium"}, ada)
        await call(bus, "ingest", {"messages": [{"role": "user", "content": "A metal."}]}, ada)

    async def answered(caller: Caller) -> tuple[str, list[str]]:
        result = await tool_answer(bus, "recall", {"query": "Which metal?"}, caller)
        return result.content, result.data["other_users"]

    text, users = await answered(LOGGED_IN)
    assert sorted(users) == ["ada", "zoë"]
    assert text.startswith("No memories found.")
    assert "ada, zoë" in text
    for other in (RICHARD, NOBODY):
        text, users = await answered(other)
        assert users == []
        assert "ada" not in text


def test_if_nothing_is_found_other_folders_with_a_memory_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    (own / ".local2").mkdir(mode=0o700, parents=True)
    (own / ".local2" / "ledger.sqlite3").touch()
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("LOCAL2_HOME", str(own))
    monkeypatch.setenv("COLUMNS", "10000")
    with served(settings_in(project)) as stack, chdir(stack.folder):
        runner = CliRunner()
        told = [
            runner.invoke(app, words).stdout
            for words in (
                ["recall", "osmium"],
                ["call", "search_memory", "query=osmium"],
                ["call", "recall_topic", "topic=user.metal"],
            )
        ]
        elsewhere = runner.invoke(app, ["recall", "osmium", "--user", "ada"])

    for text in told:
        assert f"There is another memory in {own}" in text
    assert str(own) not in elsewhere.stdout
