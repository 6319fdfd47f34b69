"""One query on its way to an answer."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import msgspec
import structlog

from local.agents.prompt import Background, PromptWriter
from local.agents.publication import RECORDED_CHARACTERS, publish_turn
from local.agents.session import Session
from local.bus.connection import Connection
from local.bus.outputs import with_preview
from local.bus.tool_client import call_tool
from local.conversation.compaction import CompactionRuntime
from local.conversation.conversation import Snapshot
from local.conversation.message import Message, ToolCallMsg
from local.errors import Local2Error, ModelError, PromptTooLargeError
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
RECALL = "recall"
"""The tool that reaches what a compressed prompt does not show."""
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
        self._caller = caller
        self._query = query
        self._query_id = query_id
        self._session_id = caller.session_id or ""
        self._offered = self._fitting([_definition(tool) for tool in tools])
        offered = {tool.name for tool in self._offered}
        self._tools = {tool.name: tool for tool in tools if tool.name in offered}
        self._pieces = 0
        self._thinking: list[str] = []
        self._calls: list[ToolCallRecord] = []
        self._before: Snapshot | None = None
        self._runtime = CompactionRuntime(
            model=None if isinstance(model, RulesModel) else model,
            context_tokens=settings.context_size,
        )
        self.answer = ""

    def _fitting(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """The tools that the context has room for: recall, and then rather many than large ones."""
        room = self._settings.context_size - self._settings.context_size // LEAST_PART
        sizes = {tool.name: self._session.count(_as_message([tool])) for tool in tools}
        kept: set[str] = set()
        for name in sorted(sizes, key=lambda name: (name != RECALL, sizes[name])):
            if (room := room - sizes[name]) < 0:
                break
            kept.add(name)
        if left_out := sizes.keys() - kept:
            log.warning("tools_left_out", query_id=self._query_id, tools=sorted(left_out))
        return [tool for tool in tools if tool.name in kept]

    async def run(self) -> None:
        """Answer, and publish the turn whether or not that worked.

        A turn that fails leaves nothing in the session's memory.
        """
        error: ErrorReply | None = None
        try:
            await self._rounds()
        except asyncio.CancelledError:
            message = "The generator was stopped before it had an answer."
            await self._publish(ErrorReply(code=ModelError.code, message=message))
            raise
        except Local2Error as failure:
            log.warning("turn_failed", query_id=self._query_id, reason=str(failure))
            error = ErrorReply(code=failure.code, message=str(failure))
        except Exception:
            log.exception("turn_failed", query_id=self._query_id)
            message = "The generator failed; its log says where."
            error = ErrorReply(code=Local2Error.code, message=message)
        await self._publish(error)
        await self._session.end_turn(self._runtime)

    async def _publish(self, error: ErrorReply | None) -> None:
        """Tell everybody; what nobody will remember is taken back."""
        turn = Generation(
            answer=self.answer,
            thinking="".join(self._thinking) or None,
            tool_calls=self._calls,
            query=self._query,
            session_id=self._session_id,
            query_id=self._query_id,
            error=error,
        )
        answered = False
        try:
            answered = (await publish_turn(self._bus, turn, self._caller)).error is None
        finally:
            if not answered:
                self._take_back()

    def _take_back(self) -> None:
        """Leave the conversation as it was, summaries that the turn had a part in included."""
        self.answer = ""
        if self._before is not None:
            self._session.memory.restore(self._before)

    async def _rounds(self) -> None:
        memory, most = self._session.memory, self._settings.max_rounds
        background = await self._session.begin_turn(self._query_id)
        self._before = memory.snapshot()
        memory.add(role="user", content=self._query)
        for round_number in range(most + 1):
            last = round_number == most
            offered = [] if last else self._offered
            text, calls = await self._ask_fitting(self._writer(background), offered)
            if not calls or last:
                self._answered(text)
                return
            asked = [_tool_call(call) for call in calls]
            memory.add(role="assistant", content=text, tool_calls=asked)
            for message, record in await asyncio.gather(*map(self._call, calls)):
                memory.add(message)
                self._calls.append(record)

    def _answered(self, text: str) -> None:
        if not text.strip():
            raise ModelError(f"{self._model.name} gave no answer.", remedy="Ask again.")
        self.answer = text
        self._session.memory.add(role="assistant", content=text)

    def _writer(self, background: Background) -> PromptWriter:
        """With the room that the tools leave, as tokens are counted now."""
        settings, count = self._settings, self._session.count
        upper = int(settings.context_size * settings.compressed_above)
        return PromptWriter(
            system_prompt=settings.system_prompt,
            background=background,
            count=count,
            room=max(
                upper - count(_as_message(self._offered)), settings.context_size // LEAST_PART
            ),
            tail=settings.compressed_messages,
        )

    async def _ask_fitting(
        self, writer: PromptWriter, tools: Sequence[ToolDefinition]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        """Ask; where the model refuses the prompt as too large, make it smaller and ask again."""
        while True:
            try:
                return await self._ask(writer, tools)
            except PromptTooLargeError as refused:
                log.warning("prompt_too_large", query_id=self._query_id, reason=str(refused))
                memory = self._session.memory
                if await memory.compact_for_payload_error(self._runtime):
                    continue
                tokens = writer.write(memory.context).tokens
                writer = msgspec.structs.replace(writer, room=int(tokens * SMALLER))
                if writer.write(memory.context).tokens >= tokens:
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

    async def _call(self, call: ToolCall) -> tuple[Message, ToolCallRecord]:
        """Call one tool; failing or missing, it becomes a message that the model can read."""
        result = await self._result(call)
        recorded = await self._previewed(call, result, RECORDED_CHARACTERS)
        record = ToolCallRecord(
            id=call.id,
            name=call.name,
            args=call.arguments,
            ok=result.ok,
            content=recorded.content[:RECORDED_CHARACTERS],
            tool_output_key=recorded.tool_output_key,
        )
        said = Message(role="tool", content=result.content, tool_call_id=call.id, name=call.name)
        return said, record

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
