"""Pydantic AI's agents are reminded of earlier conversations, with its own scripted model."""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import local2
from integrations.finding import found_by
from local2.integrations.pydantic_ai import LocalMemory

UMBRELLA = "My umbrella is the green one."
QUESTION = "Which umbrella is mine?"


class Scripted:
    """A model that looks around once for each question, answers, and stores its requests."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(ModelMessagesTypeAdapter.dump_json(messages).decode())
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        if info.function_tools and last.parts[-1].part_kind == "user-prompt":
            return ModelResponse(parts=[ToolCallPart("look_around", {"room": "hall"})])
        return ModelResponse(parts=[TextPart("The green one.")])


async def test_an_agent_is_reminded_of_earlier_conversations_in_every_step_of_a_run(
    home: Path, user: str
) -> None:
    scripted = Scripted()
    async with LocalMemory(home=home, user=user) as memory:
        agent = Agent(scripted.model, capabilities=[memory])

        @agent.tool_plain
        def look_around(room: str) -> str:
            return f"A lamp in the {room}."

        await agent.run(UMBRELLA)
        scripted.requests.clear()
        result = await agent.run(QUESTION)

    assert len(scripted.requests) == 2
    assert all(UMBRELLA in request for request in scripted.requests)
    assert UMBRELLA not in result.all_messages_json().decode()
    found = {item.content: item for item in await found_by(home, user, "umbrella or lamp?")}
    assert found[UMBRELLA].session_id != found[QUESTION].session_id
    assert found["A lamp in the hall."].source_kind == "tool_output"
    assert not any("local2-memory" in content for content in found)


async def test_a_conversation_is_one_session_and_is_stored_once(home: Path, user: str) -> None:
    scripted = Scripted()
    async with local2.connect(home=home, user=user) as memory:
        agent = Agent(scripted.model, capabilities=[LocalMemory(memory=memory)])
        first = await agent.run(UMBRELLA)
        second = await agent.run(QUESTION, message_history=first.all_messages())
        session = await memory.load_session(str(second.conversation_id))

    assert [message.content for message in session.messages] == [
        UMBRELLA,
        "The green one.",
        QUESTION,
        "The green one.",
    ]
    assert "local2-memory" not in scripted.requests[-1]


async def test_each_run_may_have_a_user_of_its_own(home: Path, user: str) -> None:
    scripted = Scripted()
    async with local2.connect(home=home) as memory:
        agent = Agent(scripted.model)
        of_user = [LocalMemory(memory=memory, user=user)]
        of_other = [LocalMemory(memory=memory, user=f"not {user}")]
        await agent.run(UMBRELLA, capabilities=of_user)
        await agent.run(QUESTION, capabilities=of_other)
        await agent.run(QUESTION, capabilities=of_user)

    assert [UMBRELLA in request for request in scripted.requests] == [True, False, True]


def test_an_agent_runs_without_an_event_loop(home: Path, user: str) -> None:
    agent = Agent(Scripted().model, capabilities=[LocalMemory(home=home, user=user)])

    agent.run_sync(UMBRELLA)

    with local2.connect(home=home, user=user) as memory:
        assert UMBRELLA in {item.content for item in memory.recall("umbrella").items}
