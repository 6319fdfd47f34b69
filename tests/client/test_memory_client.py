"""`local2.connect` lets Python programs store, find and erase memories over the bus."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

import local2
from local2.client import access
from local2.settings import Settings
from local2.stack.app import open_stack
from local2.tenants import credentials, tokens
from local2.tenants.credentials import OwnTokens
from stacks import settings_in
from tenant_agents import ACCOUNTS, token_for, with_tenants
from turns import turn
from waiting import eventually
from workers import stack_with_worker_here

GOLD = "The chemical symbol of gold is Au."
QUESTION = "Which letters stand for that precious metal?"
NOWHERE = "nats://127.0.0.1:1"
TALK = [
    {"role": "user", "content": "Which metal is the densest?", "id": "m1"},
    {"role": "assistant", "content": "Osmium.", "id": "m2"},
]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("stack")
    if request.param == "sqlite":
        yield settings_in(folder)
        return
    with request.getfixturevalue("postgres_databases").new_database() as ledger:
        yield settings_in(folder, ledger=ledger)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(settings: Settings) -> AsyncIterator[str]:
    """Run a stack for all tests of this module; each test has its own user."""
    async with stack_with_worker_here(settings, with_generator=False) as stack:
        yield stack.url


@pytest.mark.asyncio(loop_scope="module")
async def test_a_fact_is_stored_once_and_recalled_by_its_meaning(url: str) -> None:
    async with local2.connect(url=url, user="ada") as memory:
        first = await memory.remember(GOLD, importance=0.9, durability="core")
        again = await memory.remember(GOLD, importance=0.9, durability="core")

        async def recall_by_meaning() -> list[local2.RecalledItem]:
            return (await memory.recall(QUESTION, top_k=1, source_kinds=["fact"])).items

        await eventually(recall_by_meaning)  # its vector follows a moment later
        assert (first.was_new, again.was_new, again.id) == (True, False, first.id)
        (item,) = await recall_by_meaning()
        assert (item.id, item.content, item.scope, item.by) == (first.id, GOLD, "user", "self")
        assert [one.content for one in await memory.top_memories()] == [GOLD]
        assert (await memory.recall("gold", scope="agent")).items == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_topic_is_set_read_and_deleted_with_its_history(url: str) -> None:
    async with local2.connect(url=url, user="bob") as memory:
        language = memory.topics["user.language"]
        assert await language is None

        await language.set("Elixir")
        saved = await language.set("Rust")

        assert await memory.topics["User.Language"] == "Rust"
        versions = await language.history()
        assert [version.content for version in versions] == ["Rust", "Elixir"]
        assert saved.superseded == versions[1].id
        receipt = await language.delete()
        assert (receipt.total, receipt.complete) == (2, True)
        assert await language is None


@pytest.mark.asyncio(loop_scope="module")
async def test_a_saved_note_is_found_with_its_metadata(url: str) -> None:
    async with local2.connect(url=url, user="cleo", agent="clerk") as memory:
        saved = await memory.save("The capital of Australia is Canberra.", {"source": "atlas"})
        found = await memory.search("capital of Australia", top_k=1)

        (hit,) = found.hits
        assert (hit.id, hit.metadata["source"], hit.metadata["agent"]) == (
            saved.id,
            "atlas",
            "clerk",
        )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_conversation_is_ingested_once_and_loaded_with_its_notes(url: str) -> None:
    async with local2.connect(url=url, user="dora", session="s1") as memory:
        assert (await memory.ingest(TALK)).added == 2
        assert (await memory.ingest(TALK)).known == 2
        await memory.note("Metals are done.", role="planner")

        session = await memory.load_session(limit=1)
        assert [one.content for one in session.messages] == ["Osmium."]
        assert session.earlier
        assert [(one.role, one.content) for one in session.notes] == [
            ("planner", "Metals are done.")
        ]
        other = await memory.of(session="s2").load_session()
        assert (other.session_id, other.messages) == ("s2", [])


@pytest.mark.asyncio(loop_scope="module")
async def test_two_users_of_one_connection_have_separate_memories(url: str) -> None:
    async with local2.connect(url=url, user="emma") as memory:
        eve = memory.of(user="eve")
        await memory.topics["user.name"].set("Emma")
        await eve.topics["user.name"].set("Eve")

        assert (await memory.topics["user.name"], await eve.topics["user.name"]) == ("Emma", "Eve")
        preview = await memory.forget(everything=True, dry_run=True)
        assert (preview.dry_run, preview.total) == (True, 1)
        await memory.forget(everything=True)
        assert (await memory.topics["user.name"], await eve.topics["user.name"]) == (None, "Eve")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_fact_of_scope_tenant_is_shared_with_every_user(url: str) -> None:
    async with local2.connect(url=url) as memory:
        await memory.remember("The office is in Vienna.", scope="tenant")

        (item,) = (await memory.of(user="fay").recall("Where is the office?", top_k=1)).items
        assert (item.content, item.scope) == ("The office is in Vienna.", "tenant")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_rating_becomes_the_score_of_its_answer(url: str) -> None:
    async with local2.connect(url=url, user="richard", session="s1") as memory:
        bus = await memory._calls.bus()
        await bus.client.jetstream().publish("response.generation", turn())

        await memory.feedback("q1", 0.5, comment="Right.")

        async def rated() -> bool:
            hits = (await memory.search("symbol of gold")).hits
            return [hit.metadata.get("score") for hit in hits] == [0.5]

        await eventually(rated)


@pytest.mark.asyncio(loop_scope="module")
async def test_any_tool_can_be_called_and_a_refusal_raises_the_error_of_its_code(url: str) -> None:
    async with local2.connect(url=url, user="gus") as memory:
        result = await memory.call("recall_topic", topic="user.name")
        assert result.content == "No memories found."

        with pytest.raises(local2.UnknownToolError, match="no_such_tool"):
            await memory.call("no_such_tool")
        with pytest.raises(local2.InvalidArgumentsError, match="query"):
            await memory.recall("")
        with pytest.raises(local2.InvalidArgumentsError, match="session_id"):
            await memory.note("Of which session?")
        scores: list[Any] = [5, -1.1, float("nan"), "1", None]
        for score in scores:
            with pytest.raises(local2.InvalidArgumentsError, match="from -1 to 1"):
                await memory.feedback("q1", score)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_value_that_is_not_json_is_refused_by_name_and_nothing_is_stored(url: str) -> None:
    async with local2.connect(url=url, user="hal") as memory:
        binary: Any = b"Gold is Au."
        with pytest.raises(local2.InvalidArgumentsError, match=r"content.*bytes"):
            await memory.remember(binary)
        for value in (binary, object(), float("nan"), {(1, 2): 3}):
            with pytest.raises(local2.InvalidArgumentsError, match="metadata"):
                await memory.save("Gold is Au.", {"what": [value]})

        assert (await memory.recall("Gold is Au.", scope="user")).items == []


@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_where_a_list_belongs_is_refused_and_not_read_letter_by_letter(
    url: str,
) -> None:
    async with local2.connect(url=url, user="hal") as memory:
        kind: Any = "fact"
        with pytest.raises(local2.InvalidArgumentsError, match=r"Write \['fact'\]"):
            await memory.recall("gold", source_kinds=kind)
        for change in (memory.retire, memory.pin, memory.hide):
            with pytest.raises(local2.InvalidArgumentsError, match="ids: expected a list"):
                await change("0193", "No longer true.")


@pytest.mark.asyncio(loop_scope="module")
async def test_blank_names_of_the_caller_are_refused(url: str) -> None:
    nameless: list[dict[str, Any]] = [{"user": ""}, {"agent": " "}, {"session": ""}]
    for names in nameless:
        (field,) = names
        with pytest.raises(local2.InvalidArgumentsError, match=field):
            async with local2.connect(url=url, **names):
                pass
        async with local2.connect(url=url, user="ida") as memory:
            with pytest.raises(local2.InvalidArgumentsError, match=field):
                memory.of(**names)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_closed_memory_and_one_of_another_loop_raise_errors(url: str) -> None:
    async with local2.connect(url=url, user="ida") as memory:

        async def call_from_another_loop() -> None:
            with pytest.raises(local2.BusError, match="another event loop"):
                await memory.topics["user.name"]

        await asyncio.to_thread(asyncio.run, call_from_another_loop())
    with pytest.raises(local2.BusError, match="is closed"):
        await memory.topics["user.name"]


@pytest.mark.usefixtures("worker_here")
async def test_with_accounts_the_credentials_and_the_token_determine_the_caller(
    tmp_path: Path,
) -> None:
    settings = with_tenants(tmp_path, "acme", "beta")
    ada = token_for(tmp_path, "acme", "ada")
    seeds = {name: tmp_path / ACCOUNTS / name / "agent.nk" for name in ("acme", "beta")}
    async with open_stack(settings, with_generator=False) as stack:
        async with local2.connect(url=stack.url, credentials=seeds["acme"], token=ada) as memory:
            await memory.topics["user.name"].set("Ada")
            bob = memory.of(token=token_for(tmp_path, "acme", "bob"), user="ada")
            assert (await memory.topics["user.name"], await bob.topics["user.name"]) == (
                "Ada",
                None,
            )
            with pytest.raises(local2.ForbiddenError):
                await memory.of(token=f"{ada}x").topics["user.name"]
        async with local2.connect(home=tmp_path, tenant="acme", user="ada") as memory:
            assert await memory.topics["user.name"] == "Ada"
            assert await memory.of(user="cleo").topics["user.name"] is None
        async with local2.connect(url=stack.url, credentials=seeds["beta"], token=ada) as memory:
            with pytest.raises(local2.ForbiddenError):
                await memory.topics["user.name"]
        with pytest.raises(local2.ForbiddenError, match="refuses"):
            async with local2.connect(url=stack.url):
                pass


async def test_a_token_signed_with_a_local_key_is_renewed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = msgspec.structs.replace(with_tenants(tmp_path, "acme").bus, tenant="acme")
    signed: list[str] = []
    sign_token = tokens.sign

    def sign(*args: Any, **named: Any) -> str:
        signed.append(sign_token(*args, **named))
        return signed[-1]

    monkeypatch.setattr(tokens, "sign", sign)
    own = OwnTokens(bus)
    assert [await own.token_for("ada"), await own.token_for("ada"), await own.token_for("bob")] == [
        signed[0],
        signed[0],
        signed[1],
    ]

    monkeypatch.setattr(credentials, "TOKEN_LIFETIME", timedelta(0))
    own = OwnTokens(bus)
    assert [await own.token_for("ada"), await own.token_for("ada")] == signed[2:]
    given_token = OwnTokens(msgspec.structs.replace(bus, token=signed[0]))
    assert (await given_token.token_for("ada"), await own.token_for(None)) == (None, None)


async def test_missing_credentials_and_a_missing_server_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "connected", partial(access.connected, patience=0.2))
    with pytest.raises(local2.ConfigError, match="nobody"):
        async with local2.connect(url=NOWHERE, credentials=tmp_path / "nobody.nk"):
            pass
    with pytest.raises(local2.StackNotRunningError, match="No NATS server answers"):
        async with local2.connect(url=NOWHERE, home=tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []
