"""Adapters on a stack with accounts, with right and wrong credentials."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agents.items import TResponseInputItem
from google.adk.events import Event
from google.genai import types
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from local2.errors import ConfigError, ForbiddenError
from local2.integrations.google_adk import LocalMemoryService
from local2.integrations.langchain import LocalChatMessageHistory, LocalRetriever
from local2.integrations.langgraph import LocalSaver, LocalStore
from local2.integrations.openai_agents import LocalSession
from local2.stack.app import Stack
from tenant_agents import ACCOUNTS, token_for, with_tenants
from workers import stack_with_worker_here

UMBRELLA = "The green umbrella stands in the hall."
shared_stack = pytest.mark.asyncio(loop_scope="module")


def item(text: str = UMBRELLA) -> TResponseInputItem:
    return {"role": "user", "content": text}


def event(id_: str = "e1") -> Event:
    content = types.Content(role="user", parts=[types.Part(text=UMBRELLA)])
    return Event(id=id_, author="user", content=content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tenants")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(folder: Path) -> AsyncIterator[Stack]:
    """A stack with two tenants."""
    settings = with_tenants(folder, "acme", "beta")
    async with stack_with_worker_here(settings, with_generator=False) as running:
        yield running


def proof(stack: Stack, folder: Path, tenant: str, user: str) -> dict[str, Any]:
    """Return the connection arguments of a tenant's agent that acts for a person."""
    return {
        "url": stack.url,
        "credentials": folder / ACCOUNTS / tenant / "agent.nk",
        "token": token_for(folder, tenant, user),
        "user": user,
    }


@shared_stack
async def test_a_session_belongs_to_its_person_and_tenant_only(stack: Stack, folder: Path) -> None:
    async with (
        LocalSession("monday", **proof(stack, folder, "acme", "ada")) as adas,
        LocalSession("monday", **proof(stack, folder, "acme", "bob")) as bobs,
        LocalSession("monday", **proof(stack, folder, "beta", "ada")) as another_adas,
    ):
        await adas.add_items([item()])

        assert await bobs.get_items() == await another_adas.get_items() == []
        assert await adas.get_items() == [item()]


@shared_stack
async def test_a_claimed_user_name_does_not_open_that_users_session(
    stack: Stack, folder: Path
) -> None:
    claimed = {**proof(stack, folder, "acme", "eve"), "user": "carl"}
    async with LocalSession("monday", **proof(stack, folder, "acme", "carl")) as carls:
        await carls.add_items([item()])
    async with LocalSession("monday", **claimed) as eves:
        assert await eves.get_items() == []


@shared_stack
async def test_clearing_a_session_erases_nothing_of_other_users(stack: Stack, folder: Path) -> None:
    as_dora, as_elsa = (proof(stack, folder, "acme", name) for name in ("dora", "elsa"))
    async with (
        LocalSession("monday", **as_dora) as doras,
        LocalSession("monday", **as_elsa) as elsas,
    ):
        for session in (doras, elsas):
            await session.add_items([item(), item("And the blue one is lost.")])

        assert await doras.pop_item() == item("And the blue one is lost.")
        assert await found_by(as_dora) == {UMBRELLA}
        await doras.clear_session()
        assert await doras.get_items() == []
    assert await found_by(as_dora) == set()
    assert await found_by(as_elsa) == {UMBRELLA, "And the blue one is lost."}


@shared_stack
async def test_clearing_a_session_without_a_user_leaves_its_memories(
    stack: Stack, folder: Path
) -> None:
    """An agent without a user stores for everybody; the session itself belongs to no user."""
    without_user = {name: proof(stack, folder, "beta", "")[name] for name in ("url", "credentials")}
    async with LocalSession("monday", **without_user) as session:
        await session.add_items([item(), item("And the blue one is lost.")])

        assert await session.pop_item() == item("And the blue one is lost.")
        await session.clear_session()
        assert await session.get_items() == []
    assert await found_by(without_user) == {UMBRELLA, "And the blue one is lost."}


async def found_by(person: dict[str, Any]) -> set[str]:
    """Return what is found about umbrellas."""
    retriever = LocalRetriever(**person)
    found = await retriever.ainvoke("Where is the green umbrella? Where is the blue one?")
    await retriever.aclose()
    return {document.page_content for document in found}


@shared_stack
async def test_a_history_and_a_retriever_belong_to_their_person_only(
    stack: Stack, folder: Path
) -> None:
    async with LocalChatMessageHistory("m", **proof(stack, folder, "acme", "fay")) as history:
        await history.aadd_messages([HumanMessage(UMBRELLA)])
    for name, expected in (("fay", [UMBRELLA]), ("gus", [])):
        retriever = LocalRetriever(**proof(stack, folder, "acme", name))
        found = await retriever.ainvoke("umbrella")
        await retriever.aclose()
        assert [document.page_content for document in found] == expected


@shared_stack
async def test_a_service_serves_many_users_by_their_tokens(stack: Stack, folder: Path) -> None:
    options: dict[str, Any] = {
        "url": stack.url,
        "credentials": folder / ACCOUNTS / "acme" / "agent.nk",
    }

    def token_of(user: str) -> str:
        return token_for(folder, "acme", user)

    async with LocalMemoryService(token_of=token_of, **options) as service:
        await service.add_events_to_memory(
            app_name="notes", user_id="hal", events=[event()], session_id="s"
        )
        hals, ivys = [
            await service.search_memory(app_name="notes", user_id=name, query="umbrella")
            for name in ("hal", "ivy")
        ]

    assert [UMBRELLA in str(memory.content) for memory in hals.memories] == [True]
    assert ivys.memories == []


@shared_stack
async def test_a_service_with_the_tenants_key_serves_users_separately(
    stack: Stack,  # noqa: ARG001 - it runs in the folder
    folder: Path,
) -> None:
    async with LocalMemoryService(home=folder, tenant="acme") as service:
        await service.add_events_to_memory(
            app_name="notes", user_id="ned", events=[event()], session_id="s"
        )
        neds, oles = [
            await service.search_memory(app_name="notes", user_id=name, query="umbrella")
            for name in ("ned", "ole")
        ]

    assert len(neds.memories) == 1
    assert oles.memories == []


@shared_stack
async def test_a_service_refuses_a_user_without_proof(stack: Stack, folder: Path) -> None:
    async with LocalMemoryService(**proof(stack, folder, "acme", "jo")) as service:
        await service.add_events_to_memory(
            app_name="notes", user_id="jo", events=[event()], session_id="s"
        )
        with pytest.raises(ForbiddenError, match=r"'kim'.*token_of"):
            await service.search_memory(app_name="notes", user_id="kim", query="umbrella")


@shared_stack
async def test_wrong_credentials_are_reported_as_wrong(stack: Stack, folder: Path) -> None:
    right = proof(stack, folder, "acme", "ada")
    for wrong, error in (
        ({**right, "token": f"{right['token']}x"}, ForbiddenError),
        ({**right, "token": proof(stack, folder, "beta", "ada")["token"]}, ForbiddenError),
        ({**right, "credentials": None}, ForbiddenError),
        ({**right, "credentials": folder / "nobody.nk"}, ConfigError),
    ):
        retriever = LocalRetriever(**wrong)
        async with LocalSession("monday", **wrong) as session:
            refused = await asyncio.gather(
                session.get_items(), retriever.ainvoke("umbrella"), return_exceptions=True
            )
        await retriever.aclose()
        assert [type(one) for one in refused] == [error, error]


@shared_stack
async def test_graphs_of_persons_and_tenants_are_separate(stack: Stack, folder: Path) -> None:
    thread: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    as_pia = proof(stack, folder, "acme", "pia")
    async with LocalSaver.connect(**as_pia) as saver, LocalStore.connect(**as_pia) as store:
        config = await saver.aput(thread, empty_checkpoint(), {}, {})
        await store.aput(("n",), "k", {"text": UMBRELLA})
        assert await saver.aget_tuple(config) is not None

    for tenant, user in (("acme", "quinn"), ("beta", "pia")):
        as_other = proof(stack, folder, tenant, user)
        async with LocalSaver.connect(**as_other) as saver, LocalStore.connect(**as_other) as store:
            assert await saver.aget_tuple(config) is None
            assert await store.aget(("n",), "k") is None
