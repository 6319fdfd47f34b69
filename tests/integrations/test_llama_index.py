"""`LocalMemory` and LlamaIndex's own memory give the same answers to the same calls.

LlamaIndex has no tests of memories that others could run; agents run with its own scripted model.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.tools import FunctionTool

import local2
from integrations.finding import found_by
from local2.integrations.llama_index import LocalMemory, LocalRetriever
from local2.protocol.envelope import new_id

UMBRELLA = "My umbrella is the green one."
CALL = ToolCallBlock(tool_call_id="c1", tool_name="look_around", tool_kwargs={"room": "hall"})
CHAT = [
    ChatMessage(role="user", content=UMBRELLA),
    ChatMessage(role="assistant", blocks=[TextBlock(text="Let me look."), CALL]),
    ChatMessage(
        role="tool",
        content="A green umbrella in the hall.",
        additional_kwargs={"tool_call_id": "c1", "name": "look_around"},
    ),
    ChatMessage(role="assistant", content="In the hall. ☂"),
    ChatMessage(
        role="user",
        blocks=[TextBlock(text="Is it this one?"), ImageBlock(url="https://example.org/x.png")],
    ),
    ChatMessage(role="user", content=""),
]


@pytest.fixture
def chat(home: Path, user: str) -> Iterator[LocalMemory]:
    with LocalMemory(new_id(), home=home, user=user) as memory:
        yield memory


def every_call(memory: BaseMemory) -> list[list[ChatMessage]]:
    """Return the answers to a number of calls."""
    answers = [memory.get(), memory.get_all()]
    memory.put(CHAT[0])
    memory.put_messages(CHAT[1:])
    answers += [memory.get(), memory.get_all()]
    memory.set(CHAT[:2])
    answers += [memory.get(), memory.get_all()]
    memory.reset()
    return [*answers, memory.get(), memory.get_all()]


async def every_async_call(memory: BaseMemory) -> list[list[ChatMessage]]:
    await memory.aput(CHAT[0])
    await memory.aput_messages(CHAT[1:])
    answers = [await memory.aget(), await memory.aget_all()]
    await memory.aset(CHAT[:2])
    answers.append(await memory.aget_all())
    await memory.areset()
    return [*answers, await memory.aget_all()]


async def test_every_call_answers_like_the_memory_of_llama_index(chat: LocalMemory) -> None:
    assert await asyncio.to_thread(every_call, chat) == every_call(ChatMemoryBuffer.from_defaults())
    assert await every_async_call(chat) == await every_async_call(ChatMemoryBuffer.from_defaults())


def test_a_prompt_has_the_newest_messages_and_the_chat_has_all(home: Path, user: str) -> None:
    said = [ChatMessage(role="user", content=f"Number {number}.") for number in range(40)]
    with LocalMemory("long", token_limit=40, home=home, user=user) as chat:
        chat.put_messages(said)
        newest = chat.get()

        assert newest
        assert newest == said[-len(newest) :]
        assert len(newest) < len(said)
        assert chat.get_all() == said


async def test_a_chat_is_found_by_other_agents_without_its_images(
    home: Path, user: str, chat: LocalMemory
) -> None:
    await chat.aput_messages(CHAT)

    found = {item.content: item for item in await found_by(home, user, "the green umbrella")}

    assert UMBRELLA in found
    assert found["A green umbrella in the hall."].source_kind == "tool_output"
    assert not any("example.org" in content for content in found)


@pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecationWarning")  # of LlamaIndex itself
async def test_an_agent_is_reminded_of_earlier_chats_and_the_chat_keeps_only_what_was_said(
    home: Path, user: str
) -> None:
    requests: list[list[ChatMessage]] = []

    def answer(messages: list[ChatMessage], **_: object) -> ChatMessage:
        requests.append(list(messages))
        if messages[-1].role.value == "user":
            return ChatMessage(role="assistant", blocks=[CALL])
        return ChatMessage(role="assistant", content="In the hall.")

    def look_around(room: str) -> str:
        return f"Nothing in the {room}."

    async with local2.connect(home=home, user=user) as memory:
        earlier = LocalMemory("monday", memory=memory)
        await earlier.aput(ChatMessage(role="user", content=UMBRELLA))
        chat = LocalMemory("tuesday", memory=memory)
        agent = FunctionAgent(
            tools=[FunctionTool.from_defaults(look_around)],
            llm=MockFunctionCallingLLM(response_generator=answer),
            streaming=False,
        )
        result = await agent.run("Which umbrella is mine?", memory=chat)
        kept = await chat.aget_all()

    assert str(result) == "In the hall."
    assert all(UMBRELLA in str(messages[0].content) for messages in requests)
    assert requests[0][0].role.value == "system"
    assert [message.role.value for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert not any(UMBRELLA in str(message.content) for message in kept)


async def test_the_retriever_finds_memories_with_scores(home: Path, user: str) -> None:
    async with local2.connect(home=home, user=user) as memory:
        fact = await memory.remember(UMBRELLA)
        retriever = LocalRetriever(similarity_top_k=1, memory=memory)
        (node,) = await retriever.aretrieve("Which umbrella?")
        (same,) = await asyncio.to_thread(retriever.retrieve, "Which umbrella?")

    assert (node.node.node_id, node.text, node.metadata["kind"]) == (fact.id, UMBRELLA, "fact")
    assert node.score is not None
    assert same.node.node_id == node.node.node_id
