"""Conversations for tests, and models that summarise them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from local2.conversation.config import ActiveContextPolicyConfig, ManagedMemoryConfig
from local2.conversation.events import CompactionEvent, MemoryEvent
from local2.conversation.images import images_of
from local2.conversation.message import Message, ToolCallMsg, text_of
from local2.conversation.stages import CompactionRuntime, StageInput
from local2.errors import ModelError
from local2.llm.models import ChatChunk, ChatMessage, ChatModel, ToolDefinition

IMAGE_TOKENS = 10


def words(message: Message) -> int:
    """Count tokens in a way that is easy to follow: one per word, ten per image."""
    return len(text_of(message).split()) + IMAGE_TOKENS * len(images_of(message))


def system(text: str = "You help.") -> Message:
    return Message(role="system", content=text)


def user(text: str, *, images: list[str] | None = None) -> Message:
    return Message(role="user", content=text, images=images)


def assistant(text: str | None = None, *, calls: Sequence[str] = ()) -> Message:
    tool_calls = [ToolCallMsg(call, call, "function", "look", "{}") for call in calls]
    return Message(role="assistant", content=text, tool_calls=tool_calls or None)


def tool(call: str | None, text: str = "Found.") -> Message:
    return Message(role="tool", content=text, tool_call_id=call, name="look")


def chat(turns: int, *, length: int = 10) -> Iterator[Message]:
    """Yield questions and answers with this many words each, of which the first is unique."""
    for turn in range(turns):
        yield user(f"question{turn} " + "why " * (length - 1))
        yield assistant(f"answer{turn} " + "so " * (length - 1))


def config(threshold: int = 100, **policy: Any) -> ManagedMemoryConfig:
    return ManagedMemoryConfig(
        threshold_tokens=threshold,
        image_token_estimate=IMAGE_TOKENS,
        token_counter=words,
        active_context=ActiveContextPolicyConfig(**policy),
    )


def job(
    threshold: int = 100, *, runtime: CompactionRuntime | None = None, **policy: Any
) -> StageInput:
    return StageInput(
        config=config(threshold, **policy), count=words, runtime=runtime or CompactionRuntime()
    )


class Writer:
    """A chat model that writes these summaries, and counts its prompts and words."""

    name = "writer"

    def __init__(self, *answers: str) -> None:
        self.prompts: list[Sequence[ChatMessage]] = []
        self.written = 0
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._answers = list(answers)

    async def stream(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolDefinition],  # noqa: ARG002 - of the protocol
    ) -> AsyncGenerator[ChatChunk, None]:
        self.prompts.append(messages)
        self.asked.set()
        await self.may_answer.wait()
        if not self._answers:
            raise ModelError("The writer is out of answers.")
        for word in self._answers.pop(0).split():
            self.written += 1
            yield ChatChunk(content=f"{word} ")

    async def close(self) -> None:
        """Close nothing."""


def runtime_with(
    model: ChatModel | None = None, *, provider: str | None = None
) -> CompactionRuntime:
    return CompactionRuntime(model=model, provider=provider)


class RecordedEvents:
    """An event bus that records the events it receives."""

    def __init__(self) -> None:
        self.events: list[MemoryEvent] = []

    def emit(self, event: MemoryEvent) -> None:
        self.events.append(event)

    @property
    def statuses(self) -> list[str]:
        return [event.status for event in self.events if isinstance(event, CompactionEvent)]
