"""The Listener stores questions and tool results as they pass on the bus, before any turn does.

A question is stored even if its turn fails, and a tool's result regardless of the caller. These
messages are not acknowledged; if one is missed, the turn that JetStream delivers contains it. See
decision 0004.

So a tool's result becomes searchable at once, unless it has no `session_id`: it belongs to no
conversation then, and is not stored here. Nor is a result without a user in a conversation where a
user has asked: it is the user's, which only the turn says, and not everybody's. Of one above
TOOL_OUTPUT_LIMIT characters the record has a preview; the rest is searched in parts, and
`read_tool_output` reads it.
"""

import asyncio
from contextlib import suppress

import msgspec
import structlog

from local2.agents.memory_agent import ACTION, UnreadLog
from local2.background import go_on
from local2.bounded_dict import BoundedDict
from local2.bus.connection import BusMessage, Connection, has_other_subscribers
from local2.bus.outputs import preview_of
from local2.bus.participant import Participant
from local2.bus.tool_host import OWN_RESULT
from local2.errors import Local2Error, NoRespondersError, RequestError
from local2.memory.intake.intake import Question, Result
from local2.memory.tenant import Memories
from local2.protocol import subjects
from local2.protocol.envelope import decode, utc_now
from local2.protocol.lenient.tools import read_result
from local2.protocol.lenient.turns import read_query
from local2.protocol.payloads import Json, ToolCallRecord, ToolResult
from local2.protocol.times import in_utc
from local2.settings import TOOL_OUTPUT_LIMIT

NAME = "listener"
MAX_ASKED = 10_000
"""Number of conversations that are known to be a user's: those of the latest questions."""

log = structlog.get_logger()


class CallArguments(msgspec.Struct):
    """The arguments of a call, which some tools repeat in their result."""

    args: Json = {}


class Listener(Participant):
    """Listens to `query.received` and `tool.result.*` without answering either."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        super().__init__(bus, name=NAME, description="Remembers questions and results at once.")
        self._memories = memories
        self._unread = UnreadLog()
        self._look: asyncio.Task[bool] | None = None
        self._asked = BoundedDict[tuple[str, str], None](MAX_ASKED)
        """Tenant and session of questions that name a user; without a session, their query ids."""
        self.serve(subjects.QUERY_RECEIVED, self._receive_question, queue=NAME)
        self.serve(subjects.TOOL_RESULTS, self._receive_result, queue=NAME)

    async def _receive_question(self, message: BusMessage) -> None:
        try:
            reading = read_query(message.data)
            envelope, query = reading.envelope, reading.envelope.payload
            self._unread.warn(message.subject, envelope.source, reading.unread)
            question = Question(
                text=query.query,
                at=in_utc(envelope.timestamp_utc or utc_now(), "timestamp_utc"),
                session_id=query.session_id,
                query_id=query.query_id or envelope.id or None,
                named=query.query_id is not None,
            )
            caller = self.bus.identity.caller_of(message, envelope)
            memory = await self._memories.admit(caller, ACTION)
            asked_in = question.session_id or question.query_id
            if caller.user is not None and asked_in is not None:
                self._asked[caller.tenant, asked_in] = None
            written = await memory.intake.store_question(question)
            log.debug("question_remembered", id=written.id, was_new=written.was_new)
        except Local2Error as error:
            log.warning("question_not_remembered", reason=error.logged)
        if not message.reply:
            return
        # Our subscription hides the server's own "no responders". Queries that arrive meanwhile
        # share the look whether anybody answers.
        if self._look is None or self._look.done():
            self._look = go_on(has_other_subscribers(self.bus, subjects.QUERY_RECEIVED, NAME))
        if not await asyncio.shield(self._look):
            unanswered = NoRespondersError(
                "Nobody on the bus answers queries; the question is stored.",
                remedy="Start a generator, for example with `local2 up`.",
            )
            await self.acknowledge(message, ToolResult.failed(unanswered))

    async def _receive_result(self, message: BusMessage) -> None:
        if OWN_RESULT in (message.headers or {}):
            return
        tool = message.subject.removeprefix(subjects.TOOL_RESULTS.removesuffix("*"))
        try:
            envelope = read_result(message.data, message.headers)
            if not envelope.session_id:
                return
            caller, result = self.bus.identity.caller_of(message, envelope), envelope.payload
            places = (envelope.session_id, envelope.query_id)
            if caller.user is None and any((caller.tenant, id_) in self._asked for id_ in places):
                return
            memory = await self._memories.admit(caller, ACTION)
            at = in_utc(envelope.timestamp_utc or utc_now(), "timestamp_utc")
            args: Json = {}
            with suppress(RequestError):
                args = decode(message.data, CallArguments).payload.args
            call = ToolCallRecord(
                id=envelope.correlation_id or envelope.id or None,
                name=tool,
                args=args,
                ok=result.ok,
                content=result.content,
            )
            if memory.intake.skip_reason(call) or not result.content.strip():
                return
            shown = await preview_of(result, memory.outputs.store, limit=TOOL_OUTPUT_LIMIT)
            call = msgspec.structs.replace(
                call, content=shown.content, tool_output_key=shown.tool_output_key
            )
            written = await memory.intake.store_result(
                Result(
                    call=call,
                    at=at,
                    session_id=envelope.session_id,
                    query_id=envelope.query_id,
                )
            )
            log.debug("result_remembered", tool=tool, id=written.id, was_new=written.was_new)
        except Local2Error as error:
            log.warning("result_not_remembered", tool=tool, reason=error.logged)
