"""Pydantic AI on local2: a capability that remembers an agent's runs, and reminds it of them."""

from copy import copy
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from local2.client.memory import Memory
from local2.integrations.base import AsyncAdapter, background_memory, recalled_context
from local2.protocol.payloads import Json

FRAMEWORK = "pydantic-ai"


class LocalMemory(AsyncAdapter, AbstractCapability[Any]):
    """A run begins with what earlier conversations say about its prompt, and is remembered itself.

    A conversation is a session. `memory` is an open memory to share; without it, the capability
    opens one. `options` are those of `local2.connect`; with an open memory they are those of
    `Memory.of`, which name the caller. For the users of an application, pass each run its own one:
    `agent.run(…, capabilities=[LocalMemory(memory=memory, user="ada")])`.
    """

    def __init__(self, *, memory: Memory | None = None, **options: Any) -> None:
        super().__init__()
        self._memory = background_memory(memory, options, FRAMEWORK)
        self._recalled: str | None = None

    async def for_run(self, ctx: RunContext[Any]) -> "LocalMemory":
        del ctx
        return copy(self)  # what is recalled belongs to one run

    async def before_run(self, ctx: RunContext[Any]) -> None:
        prompt, session_id = text_of(ctx.prompt), str(ctx.conversation_id)
        self._recalled = await self._memory.do(
            lambda memory: recalled_context(memory, prompt, session_id)
        )

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Show what was recalled before the messages of this run. The history stays without it."""
        if self._recalled is None:
            return request_context
        messages = request_context.messages
        first = next(
            (place for place, message in enumerate(messages) if message.run_id == ctx.run_id),
            len(messages),
        )
        recalled = ModelRequest(parts=[UserPromptPart(content=self._recalled)])
        return replace(request_context, messages=[*messages[:first], recalled, *messages[first:]])

    async def after_run(
        self, ctx: RunContext[Any], *, result: AgentRunResult[Any]
    ) -> AgentRunResult[Any]:
        """Store the messages of this run; they are on disk when the run ends."""
        found = [part for message in result.new_messages() for part in messages_in(message)]
        numbered = [
            {**message, "id": f"{ctx.run_id}.{number}"} for number, message in enumerate(found)
        ]
        if numbered:
            await self._memory.do(
                lambda memory: memory.ingest(numbered, session=str(ctx.conversation_id))
            )
        return result


def messages_in(message: ModelMessage) -> list[Json]:
    """Messages to ingest: texts, calls and results, no instructions, thoughts or files."""
    if isinstance(message, ModelRequest):
        prompts = [part for part in message.parts if isinstance(part, UserPromptPart)]
        results = [part for part in message.parts if isinstance(part, ToolReturnPart)]
        return [
            *(
                {
                    "role": "tool",
                    "tool_call_id": part.tool_call_id,
                    "name": part.tool_name,
                    "content": part.model_response_str(),
                }
                for part in results
            ),
            *({"role": "user", "content": text_of(part.content)} for part in prompts),
        ]
    texts = [part.content for part in message.parts if isinstance(part, TextPart)]
    calls = [
        {"id": part.tool_call_id, "name": part.tool_name, "args": part.args_as_dict()}
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    answer: Json = {"role": "assistant", "content": "\n".join(texts)}
    if calls:
        answer["tool_calls"] = calls
    return [answer] if calls or answer["content"].strip() else []


def text_of(prompt: object) -> str:
    """The texts of a prompt, which may also have files."""
    parts = [prompt] if isinstance(prompt, str) else prompt if isinstance(prompt, list) else []
    return "\n".join(part for part in parts if isinstance(part, str))
