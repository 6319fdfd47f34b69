"""Adapters that are passed an open memory share its connection, and answer as usual."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.adk.events import Event
from google.genai import types
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

import local2
from local2.client import access
from local2.integrations.google_adk import LocalMemoryService
from local2.integrations.langchain import LocalByteStore, LocalChatMessageHistory, LocalRetriever
from local2.integrations.langgraph import LocalSaver, LocalStore
from local2.integrations.openai_agents import LocalSession

UMBRELLA = "The green umbrella stands in the hall."


@pytest.fixture
async def memory(
    home: Path, user: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[local2.Memory]:
    """An open memory; any other connection fails."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("A connection more.")

    async with local2.connect(home=home, user=user) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(access, "connect", refuse)
            yield opened


async def test_adapters_of_every_framework_share_a_memory(memory: local2.Memory) -> None:
    async with (
        LocalSession("monday", memory=memory) as session,
        LocalChatMessageHistory("tuesday", memory=memory) as history,
    ):
        await session.add_items([{"role": "user", "content": UMBRELLA}])
        await history.aadd_messages([HumanMessage(UMBRELLA)])
        bytes_ = LocalByteStore("cache", memory=memory)
        await bytes_.amset([("k", b"v")])
        store = LocalStore(memory)
        await store.aput(("n",), "k", {"n": 1})
        saver = LocalSaver(memory)
        config = await saver.aput(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {}
        )

        assert len(await session.get_items()) == len(await history.aget_messages()) == 1
        assert await bytes_.amget(["k"]) == [b"v"]
        assert await store.aget(("n",), "k") is not None
        assert await saver.aget_tuple(config) is not None
        found = await LocalRetriever(memory=memory, k=1).ainvoke("Where is the green umbrella?")
        assert [document.page_content for document in found] == [UMBRELLA]
        await store.aclose()


async def test_a_service_serves_its_users_over_a_shared_memory(
    memory: local2.Memory, user: str
) -> None:
    content = types.Content(role="user", parts=[types.Part(text=UMBRELLA)])
    async with LocalMemoryService(memory=memory) as service:
        await service.add_events_to_memory(
            app_name="notes",
            user_id=f"{user}-2",
            events=[Event(id="e1", author="user", content=content)],
            session_id="s",
        )
        found = [
            len((await service.search_memory(app_name="n", user_id=one, query="umbrella")).memories)
            for one in (user, f"{user}-2")
        ]

    assert found == [0, 1]


async def test_closing_adapters_leaves_a_shared_memory_open(
    memory: local2.Memory,
) -> None:
    async with LocalSession("monday", memory=memory) as session:
        await session.add_items([{"role": "user", "content": UMBRELLA}])
    await LocalRetriever(memory=memory).aclose()

    assert len((await memory.load_session("monday")).messages) == 1


async def test_an_adapter_can_serve_another_user_over_a_shared_memory(
    memory: local2.Memory, user: str
) -> None:
    another = LocalSession("monday", memory=memory, user=f"{user}-2", agent="desk")
    await another.add_items([{"role": "user", "content": UMBRELLA}])

    assert await LocalSession("monday", memory=memory).get_items() == []
    assert len((await memory.of(user=f"{user}-2").load_session("monday")).messages) == 1


async def test_a_shared_memory_serves_other_threads_and_refuses_to_block_its_own_loop(
    memory: local2.Memory,
) -> None:
    history = LocalChatMessageHistory("monday", memory=memory)
    await asyncio.to_thread(history.add_messages, [HumanMessage(UMBRELLA)])

    assert len(await asyncio.to_thread(lambda: history.messages)) == 1
    with pytest.raises(asyncio.InvalidStateError, match="begins with `a`"):
        _ = history.messages


async def test_a_location_is_refused_together_with_an_open_memory(memory: local2.Memory) -> None:
    with pytest.raises(TypeError, match="url"):
        LocalSession("monday", memory=memory, url="nats://127.0.0.1:1")
