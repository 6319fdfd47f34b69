"""One user's conversation in the generator, restored over the bus and compacted after turns.

The memory on the bus has the whole history. A session only holds what prompts need, so it can be
dropped at any time and restored with `load_session`.
"""

import asyncio
from collections.abc import Collection
from itertools import chain

import msgspec
import structlog

from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.context import CalibratedCounter
from local2.conversation.conversation import Snapshot
from local2.conversation.events import (
    CompactionEvent,
    EventBus,
    EventContext,
    EventSink,
    MemoryEvent,
)
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import ROLES, Message, ToolCallMsg
from local2.conversation.stages import CompactionRuntime
from local2.errors import BusError, Local2Error
from local2.generator.prompt import Background
from local2.protocol import subjects
from local2.protocol.envelope import Sender, encode, seal_from
from local2.protocol.memory_tools import (
    LOAD_SESSION,
    TOP_MEMORIES,
    A,
    D,
    LoadSession,
    MemoryTool,
    NoArguments,
    SessionContent,
    SessionMessage,
)
from local2.settings import GeneratorSettings

LOAD_SECONDS = 5.0
"""Maximum seconds that a turn waits for its history before it continues without. A user is waiting,
and the next turn asks again."""
RECENT = 8
"""Number of newest messages by which a generator notices that another one has taken turns."""
TOP_SECONDS = 2.0
"""Maximum seconds that a turn waits for the top memories."""

log = structlog.get_logger()


class GeneratorSession:
    """A managed conversation, with a lock that makes its turns run one at a time.

    `is_shared`: whether generators of other stacks may take turns of the same session.
    """

    def __init__(
        self,
        bus: Connection,
        settings: GeneratorSettings,
        caller: Sender,
        events: EventSink,
        *,
        is_shared: bool = False,
    ) -> None:
        self.turn = asyncio.Lock()
        self.count = CalibratedCounter()
        config = ManagedMemoryConfig(
            threshold_tokens=settings.compaction_threshold, token_counter=self.count
        )
        self.conversation = ManagedConversationMemory(config)
        self.conversation.event_context = EventContext(
            agent_name=caller.agent or "", event_bus=events, session_id=caller.session_id or ""
        )
        self._bus = bus
        self._caller = caller
        self._messages_to_restore = self._restored_messages = settings.restored_messages
        self._known: set[tuple[str | None, str]] | None = set() if is_shared else None
        """The query ids and roles of the messages that the conversation contains, if other stacks
        may add some."""
        self.waiting: set[str] = set()
        """Query ids of the turns that run or wait. The memory has already received their questions,
        which must not be restored as history."""
        self._unrestored_turns: set[str] = set()
        """Query ids of the turns that ran without history because the memory did not answer."""
        self._cleared: set[str | None] = set()
        """The ids of the messages from before the session was cleared, and of their queries."""

    async def begin_turn(self, query: str, query_id: str) -> Background:
        """Load notes and memories, and before the first turn the history as well.

        If the memory does not answer, the turn continues without them, and the next one asks again.
        """
        if self._known is not None and not self._messages_to_restore:
            newest = await self._load(RECENT)
            if any(
                (message.query_id, message.role) not in self._known
                and message.query_id not in self.waiting
                for message in (newest.messages if newest else ())
            ):  # another stack has answered since: the conversation is restored
                self._known.clear()
                self.conversation.restore(Snapshot(messages=[]))
                self._messages_to_restore = self._restored_messages
        loaded, top = await asyncio.gather(
            self._load(self._messages_to_restore),
            self._ask(TOP_MEMORIES, NoArguments(), TOP_SECONDS),
        )
        if loaded is None:
            if self._messages_to_restore:
                self._unrestored_turns.add(query_id)
        elif self._messages_to_restore:
            # The history goes in front of the messages since the restart.
            since_restart = self.conversation.snapshot().messages
            excluded = self._unrestored_turns | self.waiting
            history = {m.id: m for m in loaded.messages if m.query_id not in excluded}
            last = loaded.messages[-1] if loaded.messages else None
            if last and (last.role, last.query_id, last.content) == ("user", None, query):
                # The memory received this very question, without a query id, before the turn began.
                history.pop(last.id, None)
            answered = {m.tool_call_id for m in history.values() if m.role == "tool"}
            messages = [_as_models_accept(m, answered) for m in history.values()]
            if self._known is not None:
                self._known.update((m.query_id, m.role) for m in history.values())
            restored = Snapshot(messages=[*filter(None, messages), *since_restart])
            self.conversation.restore(restored)
            self._messages_to_restore = 0
            self._unrestored_turns.clear()
        if self._known is not None:
            self._known.update((query_id, role) for role in ("user", "assistant", "tool"))
        return Background(
            notes=loaded.notes if loaded else (), memories=top.memories if top else ()
        )

    async def clear(self) -> None:
        """Clear a session that has had no turn here: no prompt contains earlier messages.

        Beside other stacks, what they answer afterwards is restored, and nothing from before.
        """
        async with self.turn:
            self.conversation.reset_memory()
            before = None
            if self._known is not None:
                before = await self._load(max(RECENT, self._restored_messages))
            if before is None:
                self._messages_to_restore, self._known = 0, None
            else:
                ids = ((message.id, message.query_id) for message in before.messages)
                self._cleared = {*chain.from_iterable(ids)} - {None}

    async def end_turn(self, runtime: CompactionRuntime) -> None:
        """Compact the conversation if it is too long; if that fails, it stays as it is.

        Summarised messages are dropped here, because the memory on the bus has them.
        """
        try:
            await self.conversation.compact_if_needed(runtime)
        except Local2Error as error:
            log.warning("not_compacted", reason=str(error))
        if (context := self.conversation.snapshot().context) is not None:
            self.conversation.restore(Snapshot(messages=context))

    async def _load(self, limit: int) -> SessionContent | None:
        loaded = await self._ask(LOAD_SESSION, LoadSession(limit=limit), LOAD_SECONDS)
        if loaded is not None and self._cleared:
            since = [m for m in loaded.messages if self._cleared.isdisjoint((m.id, m.query_id))]
            loaded = msgspec.structs.replace(loaded, messages=since)
        return loaded

    async def _ask(self, tool: MemoryTool[A, D], args: A, within: float) -> D | None:
        """Call a tool of the memory; a failure is only logged, and the turn goes on."""
        result = await call_tool(
            self._bus, tool.name, args.given(), caller=self._caller, timeout=within
        )
        try:
            if result.ok:
                return msgspec.convert(result.data, tool.answer)
            log.warning("not_loaded", tool=tool.name, reason=result.outcome)
        except msgspec.ValidationError:
            log.warning("not_loaded", tool=tool.name, reason="Its answer is of another form.")
        return None


def _as_models_accept(loaded: SessionMessage, answered: Collection[str | None]) -> Message | None:
    """Turn a loaded message into one that models accept: a known role, only `answered` calls.

    Return None for a blank message, and for a system message, which was for another agent.
    """
    calls = [
        ToolCallMsg.calling(call.name, call.args, id_=call.id)
        for call in loaded.tool_calls
        if call.id in answered
    ]
    if loaded.role == "system":
        return None
    if not (loaded.content.strip() or calls or loaded.role == "tool"):
        return None
    known = next((role for role in ROLES if role == loaded.role), None)
    return Message(
        role=known or "user",
        content=loaded.content if known else f"{loaded.name or loaded.role}: {loaded.content}",
        message_id=loaded.id,
        name=loaded.name if loaded.role == "tool" else None,
        tool_calls=calls or None,
        tool_call_id=loaded.tool_call_id,
    )


class _CallersEvent(msgspec.Struct, frozen=True):
    event: MemoryEvent
    caller: Sender


class SessionEvents:
    """Publishes the events of all sessions on the bus, in order.

    Conversations emit events without waiting; `settle` waits until all are published.
    """

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._events = EventBus()
        self._events.subscribe(_CallersEvent, self._publish)

    def sink_for(self, caller: Sender) -> EventSink:
        return _SessionSink(self._events, caller)

    async def settle(self) -> None:
        await self._events.settle()

    async def _publish(self, emitted: _CallersEvent) -> None:
        event, caller = emitted.event, emitted.caller
        compaction = isinstance(event, CompactionEvent)
        subject = subjects.SESSION_COMPACTION if compaction else subjects.SESSION_RESET
        try:
            await self._bus.publish(subject, encode(seal_from(caller, event, type="event")))
        except BusError as error:
            log.warning("event_not_published", subject=subject, reason=str(error))


class _SessionSink:
    """Adds the caller to the events of the caller's conversation."""

    def __init__(self, events: EventBus, caller: Sender) -> None:
        self._events = events
        self._caller = caller

    def emit(self, event: MemoryEvent) -> None:
        self._events.emit(_CallersEvent(event, self._caller))
