"""One query on its way to an answer."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import msgspec
import structlog

from local.agents.prompt import PromptWriter
from local.agents.publication import RECORDED_CHARACTERS, publish_turn
from local.agents.session import Session
from local.bus.connection import Connection
from local.bus.outputs import with_preview
from local.bus.tool_client import call_tool
from local.conversation.compaction import CompactionRuntime
from local.conversation.message import Message, ToolCallMsg
from local.errors import Local2Error, PromptTooLargeError
from local.llm.chat import ChatModel, ToolCall, ToolDefinition, Usage
from local.llm.rules import RulesModel
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import encode
from local.protocol.envelope import seal
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
LEAST_PART = 4
"""Of the context a quarter is for the conversation, however many tools there are."""
SMALLER = 0.5
"""What a prompt may have of its tokens after it was refused as too large."""

log = structlog.get_logger()


class Turn:
    """Rounds of the model and the tools it calls, until it answers or has no rounds left."""

    def __init__(  # noqa: PLR0913 - what a turn consists of
        self,
        bus: Connection,
        model: ChatModel,
        settings: GeneratorSettings,
        *,
        session: Session,
        tools: Sequence[ToolSchema],
        caller: Caller,
        query: str,
        query_id: str,
    ) -> None:
        self._bus = bus
        self._model = model
        self._settings = settings
        self._session = session
        self._tools = {tool.name: tool for tool in tools}
        self._offered = [_definition(tool) for tool in tools]
        self._caller = caller
        self._query = query
        self._query_id = query_id
        self._session_id = caller.session_id or ""
        self._pieces = 0
        self._thinking: list[str] = []
        self._calls: list[ToolCallRecord] = []
        self._said: list[str] = []
        self._runtime = CompactionRuntime(
            model=None if isinstance(model, RulesModel) else model,
            context_tokens=settings.context_size,
        )
        self.answer = ""

    async def run(self) -> None:
        """Answer, and publish the turn whether or not that worked.

        A turn that fails leaves nothing in the session's memory.
        """
        error: ErrorReply | None = None
        try:
            await self._rounds()
        except Local2Error as failure:
            log.warning("turn_failed", query_id=self._query_id, reason=str(failure))
            error = ErrorReply(code=failure.code, message=str(failure))
        except Exception:
            log.exception("turn_failed", query_id=self._query_id)
            message = "The generator failed; its log says where."
            error = ErrorReply(code=Local2Error.code, message=message)
        if error is not None or not self.answer:
            self._unsay()
        generation = Generation(
            answer=self.answer,
            thinking="".join(self._thinking) or None,
            tool_calls=self._calls,
            query=self._query,
            session_id=self._session_id,
            query_id=self._query_id,
            error=error,
        )
        await publish_turn(self._bus, generation, self._caller)
        await self._session.end_turn(self._runtime)

    async def _rounds(self) -> None:
        settings, session = self._settings, self._session
        offered = session.count(_as_message(self._offered))
        writer = PromptWriter(
            system_prompt=settings.system_prompt,
            background=await session.begin_turn(),
            count=session.count,
            room=max(
                int(settings.context_size * settings.compressed_above) - offered,
                settings.context_size // LEAST_PART,
            ),
            tail=settings.compressed_messages,
        )
        self._say(Message(role="user", content=self._query))
        for round_number in range(settings.max_rounds + 1):
            last = round_number == settings.max_rounds
            text, calls = await self._ask_fitting(writer, [] if last else self._offered)
            if not calls or last:
                self.answer = text
                self._say(Message(role="assistant", content=text))
                return
            asked = [_tool_call(call) for call in calls]
            self._say(Message(role="assistant", content=text, tool_calls=asked))
            for result in await asyncio.gather(*(self._call(call) for call in calls)):
                self._say(result)

    async def _ask_fitting(
        self, writer: PromptWriter, tools: Sequence[ToolDefinition]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        """Ask; where the model refuses the prompt as too large, make it smaller and ask again."""
        while True:
            try:
                return await self._ask(writer, tools)
            except PromptTooLargeError as refused:
                log.warning("prompt_too_large", query_id=self._query_id, reason=str(refused))
                if await self._session.memory.compact_for_payload_error(self._runtime):
                    continue
                context = self._session.memory.context
                tokens = writer.write(context).tokens
                writer = msgspec.structs.replace(writer, room=int(tokens * SMALLER))
                if writer.write(context).tokens >= tokens:
                    raise

    async def _ask(
        self, writer: PromptWriter, tools: Sequence[ToolDefinition]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        prompt = writer.write(self._session.memory.context)
        text: list[str] = []
        calls: tuple[ToolCall, ...] = ()
        async with aclosing(self._model.stream(prompt.messages, tools)) as stream:
            async for chunk in stream:
                calls += chunk.tool_calls
                if chunk.thinking:
                    self._thinking.append(chunk.thinking)
                if chunk.content:
                    text.append(chunk.content)
                    await self._stream(chunk.content)
                if chunk.usage is not None:
                    self._learn(prompt.tokens, tools, chunk.usage)
        return "".join(text), calls

    def _learn(self, counted: int, tools: Sequence[ToolDefinition], usage: Usage) -> None:
        count = self._session.count
        count.observe(counted + count(_as_message(tools)), usage.prompt_tokens)
        self._session.memory.recount()

    def _say(self, message: Message) -> None:
        self._said.append(self._session.memory.add(message))

    def _unsay(self) -> None:
        for message_id in self._said:
            self._session.memory.remove_by_id(message_id)

    async def _call(self, call: ToolCall) -> Message:
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
        return Message(role="tool", content=result.content, tool_call_id=call.id, name=call.name)

    async def _result(self, call: ToolCall) -> ToolResult:
        """What the tool answers; a preview of it if it is long, whoever hosts the tool."""
        if call.name not in self._tools:
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
        envelope = seal(
            delta,
            type="response",
            source=NAME,
            user=self._caller.user,
            session_id=self._session_id,
            query_id=self._query_id,
        )
        await self._bus.publish(subjects.RESPONSE_DELTA, encode(envelope))


def _definition(tool: ToolSchema) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters=tool.tool_schema.function.parameters,
    )


def _tool_call(call: ToolCall) -> ToolCallMsg:
    arguments = msgspec.json.encode(call.arguments).decode()
    return ToolCallMsg(
        id=call.id, call_id=call.id, type="function", name=call.name, arguments=arguments
    )


def _as_message(tools: Sequence[ToolDefinition]) -> Message:
    """What the tools are to a counter of tokens."""
    return Message(role="system", content=msgspec.json.encode(tools).decode())
