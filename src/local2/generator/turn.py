"""One turn of the generator: from a query to its answer, with the tool calls in between.

Remains of a failed turn would mislead every later turn, so a failure restores the conversation to
its former state.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import cached_property

import msgspec
import structlog

from local2.background import go_on
from local2.bus.connection import Connection
from local2.conversation.conversation import Snapshot
from local2.conversation.message import ToolCallMsg
from local2.conversation.stages import CompactionRuntime
from local2.errors import CancelledCallError, Local2Error, ModelError, PromptTooLargeError
from local2.generator.prompt import Background, PromptWriter, prompt_budget, tool_budget
from local2.generator.publication import TurnPublisher
from local2.generator.session import GeneratorSession
from local2.generator.toolset import RecentTools, ToolMenu, Toolset, tools_message
from local2.llm.models import ChatModel, ToolCall, ToolDefinition
from local2.llm.rules import RulesModel
from local2.protocol import subjects
from local2.protocol.envelope import Sender, encode, seal_from
from local2.protocol.payloads import (
    Delta,
    ErrorReply,
    Generation,
    ToolCallRecord,
)
from local2.settings import GeneratorSettings

NAME = "generator_agent"
ATTEMPTS = 5
"""How often a prompt is sent that is refused as too large. Its room is halved each time, and the
last one is the smallest there can be: what the question itself takes does not shrink, so halving
alone would approach that size by fewer tokens each time."""

log = structlog.get_logger()


class GeneratorTurn:
    """Alternates between the model and its tool calls until it answers or has no rounds left."""

    def __init__(
        self,
        bus: Connection,
        model: ChatModel,
        settings: GeneratorSettings,
        *,
        session: GeneratorSession,
        publisher: TurnPublisher,
        menu: ToolMenu,
        recent_tools: RecentTools,
        caller: Sender,
        query: str,
        query_id: str,
    ) -> None:
        self._bus = bus
        self._model = model
        self._settings = settings
        self._session = session
        self._publisher = publisher
        self._caller = msgspec.structs.replace(caller, query_id=query_id)
        self._query = query
        self._query_id = query_id
        self._session_id = caller.session_id or ""
        self._menu = menu
        self._recent_tools = recent_tools
        self._deltas = 0
        self._thinking: list[str] = []
        self._calls: list[ToolCallRecord] = []
        self._snapshot: Snapshot | None = None
        self._runtime = CompactionRuntime(
            model=None if isinstance(model, RulesModel) else model,
            context_tokens=settings.context_size,
        )
        self._published = False
        self._shown: list[str] = []
        self._hint = ""
        self.answer = ""

    @cached_property
    def _tools(self) -> Toolset:
        """The tools of this turn, chosen when it runs: hundreds may wait."""
        room = tool_budget(self._settings.context_size)
        recent = self._recent_tools.used_by(self._caller.user)
        offered = self._menu.choose(recent, room, self._session.count)
        return Toolset(self._bus, self._settings, offered, self._caller)

    async def run(
        self, slot: AbstractAsyncContextManager[None], was_cancelled: Callable[[], bool]
    ) -> None:
        """Answer after the session's earlier turns, and publish the answer or the error.

        `slot` admits the user's turns. It is entered last, so that a turn that waits for its
        session does not occupy it. A turn that fails leaves nothing in the session.
        `was_cancelled`: whether who asked stopped it, and not the generator's end.
        """
        self._session.waiting.add(self._query_id)
        try:
            async with self._session.turn, slot:
                error: ErrorReply | None = None
                try:
                    await self._run_rounds()
                except Local2Error as failure:
                    log.warning("turn_failed", query_id=self._query_id, reason=str(failure))
                    error = ErrorReply(code=failure.code, message=str(failure))
                except Exception:
                    log.exception("turn_failed", query_id=self._query_id)
                    message = "The generator failed; its log says where."
                    error = ErrorReply(code=Local2Error.code, message=message)
                publishing = go_on(self._publish(error))
                try:
                    await asyncio.shield(publishing)
                finally:  # whoever stops a turn now does not lose its answer
                    await asyncio.wait({publishing})
                await self._session.end_turn(self._runtime)
        except asyncio.CancelledError:
            if not self._published:
                stop: Local2Error = ModelError("The generator was stopped before it had an answer.")
                if was_cancelled():
                    stop = CancelledCallError("The query was cancelled.")
                await self._publish(ErrorReply.of(stop))
            raise
        finally:
            self._session.waiting.discard(self._query_id)

    async def _publish(self, error: ErrorReply | None) -> None:
        """Publish the turn; if it failed or cannot be stored, remove it from the conversation."""
        self._published = True
        turn = Generation(
            answer=self.answer,
            thinking="".join(self._thinking) or None,
            tool_calls=self._calls,
            query=self._query,
            session_id=self._session_id,
            query_id=self._query_id,
            error=error,
            shown=self._shown,
            hint=self._hint,
        )
        answered = False
        try:
            answered = (await self._publisher.publish(turn, self._caller)).error is None
        finally:
            if not answered:
                self.answer = ""
                if self._snapshot is not None:  # this drops summaries of its parts, too
                    self._session.conversation.restore(self._snapshot)

    async def _run_rounds(self) -> None:
        conversation, max_rounds = self._session.conversation, self._settings.max_rounds
        background = await self._session.begin_turn(self._query, self._query_id)
        self._shown = [memory.id for memory in background.memories]
        self._snapshot = conversation.snapshot()
        conversation.add(role="user", content=self._query)
        for round_number in range(max_rounds + 1):
            last = round_number == max_rounds
            offered = [] if last else self._tools.definitions
            text, calls = await self._ask_until_it_fits(background, offered)
            if not calls or last:
                if not text.strip():
                    remedy = "Ask again."
                    if calls:
                        remedy = "Ask again, or raise max_rounds in config/generator.yaml."
                    raise ModelError(f"{self._model.name} gave no answer.", remedy=remedy)
                self.answer = text
                conversation.add(role="assistant", content=text)
                return
            made = [ToolCallMsg.calling(call.name, call.arguments, id_=call.id) for call in calls]
            conversation.add(role="assistant", content=text, tool_calls=made)
            for message, record in await asyncio.gather(*map(self._tools.call, calls)):
                conversation.add(message)
                self._calls.append(record)
            self._recent_tools.note_use(self._caller.user, [call.name for call in calls])

    async def _ask_until_it_fits(
        self, background: Background, tools: Sequence[ToolDefinition]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        """Ask the model; if it refuses the prompt as too large, shrink the prompt and ask again."""
        count = self._session.count
        writer = PromptWriter(
            system_prompt=self._settings.system_prompt,
            background=background,
            count=count,
            room=prompt_budget(self._settings, count(tools_message(self._tools.definitions))),
            tail=self._settings.compressed_messages,
        )
        conversation, left = self._session.conversation, ATTEMPTS
        while True:
            try:
                return await self._ask(writer, tools)
            except PromptTooLargeError as refused:
                log.warning("prompt_too_large", query_id=self._query_id, reason=str(refused))
                left -= 1
                if left > 1 and await conversation.compact_for_payload_error(self._runtime):
                    continue
                tokens = writer.write(conversation.context).tokens
                rooms = (min(writer.room, tokens) // 2, 0) if left > 1 else (0,)
                narrower = (msgspec.structs.replace(writer, room=room) for room in rooms)
                shorter = (
                    one for one in narrower if one.write(conversation.context).tokens < tokens
                )
                if not left or (next_writer := next(shorter, None)) is None:
                    raise PromptTooLargeError(
                        f"Even the shortest prompt for this question, {tokens:,} tokens, is too "
                        f"long: {refused.message}",
                        remedy="Ask a shorter question, offer fewer tools, or let the model have a "
                        "larger context.",
                    ) from refused
                writer = next_writer

    async def _ask(
        self, writer: PromptWriter, tools: Sequence[ToolDefinition]
    ) -> tuple[str, tuple[ToolCall, ...]]:
        prompt = writer.write(self._session.conversation.context)
        text: list[str] = []
        calls: tuple[ToolCall, ...] = ()
        async with aclosing(self._model.stream(prompt.messages, tools)) as stream:
            async for chunk in stream:
                calls += chunk.tool_calls
                self._hint = chunk.hint or self._hint
                if chunk.thinking:
                    self._thinking.append(chunk.thinking)
                if chunk.content:
                    text.append(chunk.content)
                    delta = Delta(
                        text=chunk.content,
                        index=self._deltas,
                        session_id=self._session_id,
                        query_id=self._query_id,
                    )
                    self._deltas += 1
                    envelope = seal_from(self._caller, delta, type="response")
                    await self._bus.publish(subjects.RESPONSE_DELTA, encode(envelope))
                if chunk.usage is not None:
                    count = self._session.count
                    counted = prompt.tokens + count(tools_message(tools))
                    count.observe(counted, chunk.usage.prompt_tokens)
                    self._session.conversation.recount()
        return "".join(text), calls
