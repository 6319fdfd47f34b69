"""One query on its way to an answer."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import TypeVar

import msgspec
import structlog

from local.bus.connection import Connection
from local.bus.outputs import with_preview
from local.bus.streams import publish_durably
from local.bus.tool_client import call_tool
from local.errors import BusError, Local2Error, TooLargeError
from local.llm.chat import ChatMessage, ChatModel, ToolCall, ToolDefinition
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import encode
from local.protocol.envelope import Envelope, seal
from local.protocol.payloads import (
    Delta,
    ErrorReply,
    Generation,
    ToolCallRecord,
    ToolResult,
    ToolSchema,
)
from local.settings import GeneratorSettings

NAME = "generator_agent"
PUBLISH_ATTEMPTS = 3
PUBLISH_DELAY = 0.5
RECORDED_CHARACTERS = 10_000
"""What a turn records of a tool's result; several whole ones are more than a message carries."""

P = TypeVar("P")

log = structlog.get_logger()


class Turn:
    """Rounds of the model and the tools it calls, until it answers or has no rounds left."""

    def __init__(  # noqa: PLR0913 - what a turn consists of
        self,
        bus: Connection,
        model: ChatModel,
        settings: GeneratorSettings,
        *,
        tools: Sequence[ToolSchema],
        caller: Caller,
        query: str,
        query_id: str,
    ) -> None:
        self._bus = bus
        self._model = model
        self._settings = settings
        self._tools = {tool.name: tool for tool in tools}
        self._offered = [_definition(tool) for tool in tools]
        self._caller = caller
        self._query = query
        self._query_id = query_id
        self._session_id = caller.session_id or ""
        self._pieces = 0
        self._thinking: list[str] = []
        self._calls: list[ToolCallRecord] = []
        self.answer = ""

    async def run(self, history: Sequence[ChatMessage]) -> None:
        """Answer, and publish the turn whether or not that worked."""
        error: ErrorReply | None = None
        try:
            await self._rounds(history)
        except Local2Error as failure:
            log.warning("turn_failed", query_id=self._query_id, reason=str(failure))
            error = ErrorReply(code=failure.code, message=str(failure))
        except Exception:
            log.exception("turn_failed", query_id=self._query_id)
            message = "The generator failed; its log says where."
            error = ErrorReply(code=Local2Error.code, message=message)
        await self._publish(error)

    async def _rounds(self, history: Sequence[ChatMessage]) -> None:
        messages = [
            ChatMessage(role="system", content=self._settings.system_prompt),
            *history,
            ChatMessage(role="user", content=self._query),
        ]
        for round_number in range(self._settings.max_rounds + 1):
            last = round_number == self._settings.max_rounds
            text, calls = await self._ask(messages, [] if last else self._offered)
            if not calls or last:
                self.answer = text
                return
            messages.append(ChatMessage(role="assistant", content=text, tool_calls=calls))
            messages += await asyncio.gather(*(self._call(call) for call in calls))

    async def _ask(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        text: list[str] = []
        calls: tuple[ToolCall, ...] = ()
        async with aclosing(self._model.stream(messages, tools)) as stream:
            async for chunk in stream:
                calls += chunk.tool_calls
                if chunk.thinking:
                    self._thinking.append(chunk.thinking)
                if chunk.content:
                    text.append(chunk.content)
                    await self._stream(chunk.content)
        return "".join(text), calls

    async def _call(self, call: ToolCall) -> ChatMessage:
        """Call one tool; failing or missing, it becomes a message that the model can read."""
        result = await self._result(call)
        recorded = await self._previewed(call, result, RECORDED_CHARACTERS)
        self._calls.append(
            ToolCallRecord(
                id=call.id,
                name=call.name,
                args=call.arguments,
                ok=result.ok,
                content=recorded.content[:RECORDED_CHARACTERS],
                tool_output_key=recorded.tool_output_key,
            )
        )
        return ChatMessage(
            role="tool", content=result.content, tool_call_id=call.id, tool_name=call.name
        )

    async def _result(self, call: ToolCall) -> ToolResult:
        """What the tool answers; a preview of it if it is long, whoever hosts the tool."""
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            return ToolResult(ok=False, content=f"Error: no tool {call.name}. Tools: {names}.")
        result = await call_tool(
            self._bus,
            call.name,
            call.arguments,
            caller=self._caller,
            query_id=self._query_id,
            timeout=self._settings.tool_timeout,
        )
        return await self._previewed(call, result, self._settings.tool_output_limit)

    async def _previewed(self, call: ToolCall, result: ToolResult, limit: int) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None or tool.whole:
            return result
        return await with_preview(self._bus, result, caller=self._caller, limit=limit)

    async def _stream(self, text: str) -> None:
        delta = Delta(
            text=text, index=self._pieces, session_id=self._session_id, query_id=self._query_id
        )
        self._pieces += 1
        await self._bus.publish(subjects.RESPONSE_DELTA, encode(self._sealed(delta)))

    async def _publish(self, error: ErrorReply | None) -> None:
        generation = Generation(
            answer=self.answer,
            thinking="".join(self._thinking) or None,
            tool_calls=self._calls,
            query=self._query,
            session_id=self._session_id,
            query_id=self._query_id,
            error=error,
        )
        for shorter in _ever_shorter(generation):
            try:
                await self._store(shorter)
            except TooLargeError as failure:
                log.warning("turn_shortened", query_id=self._query_id, reason=str(failure))
            else:
                return

    async def _store(self, generation: Generation) -> None:
        data = encode(self._sealed(generation))
        for attempt in range(1, PUBLISH_ATTEMPTS + 1):
            try:
                await publish_durably(
                    self._bus, subjects.RESPONSE_GENERATION, data, message_id=self._query_id
                )
            except BusError as failure:
                log.warning("turn_not_stored", attempt=attempt, reason=str(failure))
                await asyncio.sleep(PUBLISH_DELAY * attempt)
            else:
                return
        raise BusError(f"The turn {self._query_id} could not be stored; nobody will remember it.")

    def _sealed(self, payload: P) -> Envelope[P]:
        return seal(
            payload,
            type="response",
            source=NAME,
            user=self._caller.user,
            session_id=self._session_id,
            query_id=self._query_id,
        )


def _definition(tool: ToolSchema) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters=tool.tool_schema.function.parameters,
    )


def _ever_shorter(turn: Generation) -> Iterator[Generation]:
    """The turn; without what may be left out; and that it was too large, which is no memory."""
    yield turn
    calls = [msgspec.structs.replace(call, args={}, content="") for call in turn.tool_calls]
    yield msgspec.structs.replace(turn, thinking=None, tool_calls=calls)
    message = "The turn is larger than the bus carries; nobody will remember it."
    yield Generation(
        answer="",
        query=turn.query[:RECORDED_CHARACTERS],
        session_id=turn.session_id,
        query_id=turn.query_id,
        error=ErrorReply(code=TooLargeError.code, message=message),
    )
