"""GeneratorAgent: answers queries with a chat model that may call any tool heard on the bus."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TypeVar

import structlog

from local.bus.connection import Connection, Message
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.bus.streams import publish_durably
from local.bus.tool_client import call_tool
from local.bus.toolbox import Toolbox
from local.errors import BusError, ModelError, RequestError
from local.llm.chat import ChatMessage, ChatModel, ToolCall, ToolDefinition
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import decode, encode
from local.protocol.envelope import Envelope, new_id, seal
from local.protocol.payloads import (
    Delta,
    ErrorReply,
    Generation,
    Query,
    ToolCallRecord,
    ToolResult,
)
from local.settings import GeneratorSettings

NAME = "generator_agent"
SESSIONS_KEPT = 1_000
PUBLISH_ATTEMPTS = 3
PUBLISH_DELAY = 0.5

P = TypeVar("P")

log = structlog.get_logger()


class Session:
    """One conversation: what was said lately, and a lock, since its turns come one by one."""

    def __init__(self, length: int) -> None:
        self.messages: deque[ChatMessage] = deque(maxlen=length)
        self.turn = asyncio.Lock()


class GeneratorAgent(Participant):
    """Hears `query.received`, streams `response.delta`, ends with `response.generation`."""

    def __init__(self, bus: Connection, model: ChatModel, settings: GeneratorSettings) -> None:
        super().__init__(bus, name=NAME, description=f"Answers queries ({model.name}).")
        self._model = model
        self._settings = settings
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._toolbox = Toolbox(bus, source=NAME)
        self._resources = AsyncExitStack()
        self.serve(subjects.QUERY_RECEIVED, self._hear, queue=NAME)

    async def started(self) -> None:
        await self._resources.enter_async_context(self._toolbox)

    async def stopping(self) -> None:
        await self._resources.aclose()

    async def _hear(self, message: Message) -> None:
        try:
            envelope = decode(message.data, Query)
        except RequestError as error:
            log.warning("query_refused", reason=str(error))
            await self._acknowledge(message, ToolResult.failed(error))
            return
        query = envelope.payload
        caller = caller_of(envelope)
        session_id = query.session_id or caller.session_id or new_id()
        accepted = "The answer follows on response.generation."
        await self._acknowledge(message, ToolResult(ok=True, content=accepted))
        turn = Turn(
            self.bus,
            self._model,
            self._settings,
            tools=self._tools(),
            caller=Caller(user=caller.user, agent=NAME, session_id=session_id),
            query=query.query,
            query_id=query.query_id or envelope.query_id or new_id(),
        )
        session = self._session(session_id)
        async with session.turn:
            await turn.run(list(session.messages))
            if turn.answer:
                session.messages.append(ChatMessage(role="user", content=query.query))
                session.messages.append(ChatMessage(role="assistant", content=turn.answer))

    async def _acknowledge(self, message: Message, result: ToolResult) -> None:
        """Tell who asked by request that the query has arrived, or why it was refused."""
        if message.reply:
            acknowledgement = seal(result, type="result", source=NAME)
            await self.bus.publish(message.reply, encode(acknowledgement))

    def _session(self, session_id: str) -> Session:
        session = self._sessions.setdefault(session_id, Session(self._settings.history_messages))
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        return session

    def _tools(self) -> list[ToolDefinition]:
        """What the model is offered: all that was announced, or those the settings name."""
        wanted = self._settings.tools
        return [
            ToolDefinition(
                name=schema.name,
                description=schema.description,
                parameters=schema.tool_schema.function.parameters,
            )
            for schema in self._toolbox.schemas
            if not wanted or schema.name in wanted
        ]


class Turn:
    """One query on its way to an answer: rounds of the model and the tools it calls."""

    def __init__(  # noqa: PLR0913 - what a turn consists of
        self,
        bus: Connection,
        model: ChatModel,
        settings: GeneratorSettings,
        *,
        tools: Sequence[ToolDefinition],
        caller: Caller,
        query: str,
        query_id: str,
    ) -> None:
        self._bus = bus
        self._model = model
        self._settings = settings
        self._tools = tools
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
        except ModelError as failure:
            log.warning("model_failed", query_id=self._query_id, reason=str(failure))
            error = ErrorReply(code=failure.code, message=str(failure))
        await self._publish(error)

    async def _rounds(self, history: Sequence[ChatMessage]) -> None:
        messages = [
            ChatMessage(role="system", content=self._settings.system_prompt),
            *history,
            ChatMessage(role="user", content=self._query),
        ]
        for round_number in range(self._settings.max_rounds + 1):
            last = round_number == self._settings.max_rounds
            text, calls = await self._ask(messages, [] if last else self._tools)
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
        if any(tool.name == call.name for tool in self._tools):
            result = await call_tool(
                self._bus,
                call.name,
                call.arguments,
                caller=self._caller,
                query_id=self._query_id,
                timeout=self._settings.tool_timeout,
            )
        else:
            names = ", ".join(tool.name for tool in self._tools) or "none"
            result = ToolResult(ok=False, content=f"Error: no tool {call.name}. Tools: {names}.")
        self._calls.append(
            ToolCallRecord(
                id=call.id,
                name=call.name,
                args=call.arguments,
                ok=result.ok,
                content=result.content,
            )
        )
        return ChatMessage(
            role="tool", content=result.content, tool_call_id=call.id, tool_name=call.name
        )

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
