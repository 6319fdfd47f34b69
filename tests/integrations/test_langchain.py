"""LangChain's own suites for retrievers and stores; histories compared with LangChain's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.stores import BaseStore
from langchain_tests.integration_tests import (
    BaseStoreAsyncTests,
    BaseStoreSyncTests,
    RetrieversIntegrationTests,
)

from integrations.finding import found_by
from local2.client.memory import connect
from local2.integrations.langchain import LocalByteStore, LocalChatMessageHistory, LocalRetriever

TEXTS = [
    "The green umbrella stands in the hall.",
    "The red umbrella stands in the cellar.",
    "The blue umbrella was lost on the train.",
    "An umbrella keeps the rain away.",
]
PNG = "data:image/png;base64,iVBORw0KGgo="
MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("Where is the green umbrella?", id="h1", name="ada"),
    AIMessage(
        content=[
            {"type": "reasoning", "reasoning": "It rained."},
            {"type": "text", "text": "Let me look."},
        ],
        tool_calls=[{"id": "c1", "name": "look", "args": {"room": "hall"}}],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    ToolMessage("An umbrella, green.", tool_call_id="c1", name="look", artifact={"n": [1.5]}),
    AIMessage("In the hall. ☂", response_metadata={"model": "m"}),
    HumanMessage([{"type": "image_url", "image_url": {"url": PNG}}]),
    ChatMessage(content="Hello.", role="narrator"),
]
replaced = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
"""LangChain recommends LangGraph's persistence instead."""


class TestRetriever(RetrieversIntegrationTests):
    """The suite of `langchain-tests` for retrievers."""

    @pytest.fixture(autouse=True)
    def _user(self, home: Path, user: str) -> Iterator[None]:
        self._arguments: dict[str, Any] = {"home": home, "user": user}
        self.opened: list[LocalRetriever] = []
        asyncio.run(ingest_messages(home, user))
        yield
        for retriever in self.opened:
            retriever.close()

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        test = self

        class Closed(LocalRetriever):
            """An argument that closes its retriever at the end of the test."""

            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                test.opened.append(self)

        return Closed

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self._arguments

    @property
    def retriever_query_example(self) -> str:
        return "Where is the umbrella?"


class TestSyncStore(BaseStoreSyncTests[bytes]):
    """The suite of `langchain-tests` for stores, from plain functions."""

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"foo", b"", bytes(range(256))

    @pytest.fixture
    def kv_store(self, home: Path, user: str) -> Iterator[BaseStore[str, bytes]]:
        store = LocalByteStore("cache", home=home, user=user)
        yield store
        store.close()


class TestAsyncStore(BaseStoreAsyncTests[bytes]):
    """The same suite in an event loop."""

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"foo", b"", bytes(range(256))

    @pytest.fixture
    async def kv_store(self, home: Path, user: str) -> AsyncIterator[BaseStore[str, bytes]]:
        store = LocalByteStore("cache", home=home, user=user)
        yield store
        await store.aclose()


async def test_stores_of_two_users_and_of_two_names_are_separate(home: Path, user: str) -> None:
    hers, his = (LocalByteStore("cache", home=home, user=one) for one in (user, f"not {user}"))
    another = LocalByteStore("another", home=home, user=user)
    await hers.amset([("key", b"hers")])
    await his.amset([("key", b"his")])

    assert await hers.amget(["key"]) == [b"hers"]
    assert await another.amget(["key"]) == [None]
    for store in (hers, his, another):
        await store.aclose()


async def ingest_messages(home: Path, user: str) -> None:
    async with connect(home=home, user=user, session="monday") as memory:
        await memory.ingest([{"role": "user", "content": text} for text in TEXTS])


async def test_a_document_describes_its_memory(home: Path, user: str) -> None:
    await ingest_messages(home, user)
    retriever = LocalRetriever(home=home, user=user, k=1)

    (document,) = await retriever.ainvoke("Where is the green umbrella?")
    await retriever.aclose()

    assert document.page_content == TEXTS[0]
    assert document.id == document.metadata["id"]
    assert 0 < document.metadata["score"] <= 1
    assert {name: document.metadata[name] for name in ("kind", "source", "session_id", "role")} == {
        "kind": "chat_message",
        "source": "stated",
        "session_id": "monday",
        "role": "user",
    }
    assert json.loads(json.dumps(document.metadata)) == document.metadata


async def test_a_retriever_searches_its_scope(home: Path, user: str) -> None:
    async with connect(home=home, user=user, session="monday") as memory:
        await memory.ingest([{"role": "user", "content": TEXTS[0]}])
        await memory.remember("Prefers umbrellas to raincoats.")
    retriever = LocalRetriever(home=home, user=user, scope="user")

    found = await retriever.ainvoke("umbrella")
    await retriever.aclose()

    assert [document.page_content for document in found] == ["Prefers umbrellas to raincoats."]


async def test_a_chain_calls_a_retriever_inside_and_outside_an_event_loop(
    home: Path, user: str
) -> None:
    await ingest_messages(home, user)
    retriever = LocalRetriever(home=home, user=user, k=2)

    def contents(documents: list[Document]) -> list[str]:
        return [document.page_content for document in documents]

    chain = retriever | RunnableLambda(contents)
    within = await chain.ainvoke("green umbrella")
    outside = await asyncio.to_thread(chain.invoke, "green umbrella")
    await retriever.aclose()

    assert within == outside
    assert within[0] == TEXTS[0]


def test_credentials_are_not_shown() -> None:
    retriever = LocalRetriever(user="ada", token="eyJ.secret")  # noqa: S106

    assert "eyJ" not in repr(retriever) + str(retriever) + retriever.model_dump_json()


def every_call(history: BaseChatMessageHistory) -> list[object]:
    """Return the answers to a number of calls."""
    answers: list[object] = [list(history.messages)]
    history.add_messages([])
    history.add_messages(MESSAGES[:3])
    history.add_messages(MESSAGES[3:])
    history.add_user_message("Thank you.")
    history.add_ai_message("You are welcome.")
    answers += [list(history.messages), str(history)]
    history.clear()
    answers.append(list(history.messages))
    history.add_message(MESSAGES[1])
    return [*answers, list(history.messages)]


async def every_async_call(history: BaseChatMessageHistory) -> list[object]:
    answers: list[object] = [list(await history.aget_messages())]
    await history.aadd_messages([])
    await history.aadd_messages(MESSAGES[:3])
    await history.aadd_messages(MESSAGES[3:])
    answers.append(list(await history.aget_messages()))
    await history.aclear()
    answers.append(list(await history.aget_messages()))
    await history.aadd_messages(MESSAGES[1:2])
    return [*answers, list(await history.aget_messages())]


@replaced
def test_every_call_answers_like_langchains_own_history(home: Path, user: str) -> None:
    with LocalChatMessageHistory("monday", home=home, user=user) as history:
        assert every_call(history) == every_call(InMemoryChatMessageHistory())


@replaced
async def test_every_async_call_answers_like_langchains_own_history(home: Path, user: str) -> None:
    async with LocalChatMessageHistory("monday", home=home, user=user) as history:
        assert await every_async_call(history) == await every_async_call(
            InMemoryChatMessageHistory()
        )


async def test_histories_of_two_users_and_of_two_ids_are_separate(home: Path, user: str) -> None:
    async with (
        LocalChatMessageHistory("monday", home=home, user=user) as hers,
        LocalChatMessageHistory("monday", home=home, user=f"not {user}") as his,
        LocalChatMessageHistory("tuesday", home=home, user=user) as another,
    ):
        await hers.aadd_messages(MESSAGES)

        assert await his.aget_messages() == await another.aget_messages() == []
        await his.aclear()
        assert await hers.aget_messages() == MESSAGES


async def test_messages_of_a_chat_are_found_in_later_chats(home: Path, user: str) -> None:
    async with LocalChatMessageHistory("monday", home=home, user=user) as history:
        await history.aadd_messages(MESSAGES)
        found = await found_by(home, user, "green umbrella")
        await history.aclear()

    assert {item.content for item in found} >= {
        "Where is the green umbrella?",
        "An umbrella, green.",
        "In the hall. ☂",
    }
    assert not any("rained" in item.content for item in found)
    assert await found_by(home, user, "green umbrella") == []


@replaced
async def test_a_chain_with_a_history_receives_the_earlier_messages(home: Path, user: str) -> None:
    prompts: list[list[BaseMessage]] = []
    model = GenericFakeChatModel(messages=iter([AIMessage("In the hall."), AIMessage("Yes.")]))

    def record(messages: list[BaseMessage]) -> list[BaseMessage]:
        prompts.append(messages)
        return messages

    async with LocalChatMessageHistory("monday", home=home, user=user) as history:
        chain = RunnableWithMessageHistory(RunnableLambda(record) | model, lambda _: history)
        chosen: Any = {"configurable": {"session_id": "monday"}}
        await chain.ainvoke([HumanMessage("Where is my umbrella?")], chosen)
        await chain.ainvoke([HumanMessage("Is it green?")], chosen)

    assert [message.text for message in prompts[1]] == [
        "Where is my umbrella?",
        "In the hall.",
        "Is it green?",
    ]
