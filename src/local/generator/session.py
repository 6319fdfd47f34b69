"""One user's conversation as the generator keeps it: restored over the bus, counted, compacted."""

import asyncio
from collections.abc import Collection, Sequence

import msgspec
import structlog

from local.bus.connection import Connection
from local.client.tools import call_tool
from local.conversation.compaction.stages import CompactionRuntime
from local.conversation.config import ManagedMemoryConfig
from local.conversation.conversation import Snapshot
from local.conversation.events import EventContext, EventSink
from local.conversation.managed import ManagedConversationMemory
from local.conversation.message import ROLES, Message, ToolCallMsg
from local.conversation.tokens import Calibrated
from local.errors import Local2Error
from local.generator.prompt import Background, Known, Note
from local.protocol.envelope import Caller
from local.protocol.payloads import Json
from local.settings import GeneratorSettings

LOAD = "load_session"
LOAD_SECONDS = 5.0

log = structlog.get_logger()


class LoadedCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    args: Json = {}


class LoadedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What `load_session` says of a message, as far as a conversation needs it."""

    id: str
    role: str
    content: str
    name: str | None = None
    query_id: str | None = None
    tool_calls: list[LoadedCall] = []
    tool_call_id: str | None = None

    def message(self, answered: Collection[str | None]) -> Message | None:
        """As models take it: calls that were `answered`, no blanks, roles that they know.

        Instructions were for another agent, and are left out.
        """
        calls = [
            ToolCallMsg.calling(call.name, call.args, id_=call.id)
            for call in self.tool_calls
            if call.id in answered
        ]
        if self.role == "system" or not (self.content.strip() or calls or self.role == "tool"):
            return None
        known = next((role for role in ROLES if role == self.role), None)
        return Message(
            role=known or "user",
            content=self.content if known else f"{self.name or self.role}: {self.content}",
            message_id=self.id,
            name=self.name if self.role == "tool" else None,
            tool_calls=calls or None,
            tool_call_id=self.tool_call_id,
        )

    def asks(self, query: str) -> bool:
        return self.role == "user" and self.query_id is None and self.content == query


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[LoadedMessage] = []
    notes: list[Note] = []
    memories: list[Known] = []


class Session:
    """A managed conversation, and a lock, since its turns come one by one."""

    def __init__(
        self, bus: Connection, settings: GeneratorSettings, caller: Caller, events: EventSink
    ) -> None:
        self.turn = asyncio.Lock()
        self.count = Calibrated()
        config = ManagedMemoryConfig(
            threshold_tokens=settings.compaction_threshold, token_counter=self.count
        )
        self.memory = ManagedConversationMemory(config)
        self.memory.event_context = EventContext(
            agent_name=caller.agent or "", event_bus=events, session_id=caller.session_id or ""
        )
        self._bus = bus
        self._caller = caller
        self._to_restore = settings.restored_messages
        self.waiting: set[str] = set()
        """The turns that are going on or wait: the memory has received their questions already."""
        self._turns_since: set[str] = set()
        """The turns that went on without what was said before them."""

    async def begin_turn(self, query: str, query_id: str) -> Background:
        """Notes and memories as they are now; at first, what was said before a restart as well.

        Without a memory on the bus the turn goes on without them, and the next one asks again.
        """
        loaded = await self._load()
        if loaded is None:
            if self._to_restore:
                self._turns_since.add(query_id)
            return Background()
        if self._to_restore:
            self._restore(loaded.messages, query)
        return Background(notes=loaded.notes, memories=loaded.memories)

    def clear(self) -> None:
        """Begin anew: nothing said so far is in a prompt again until the generator restarts."""
        self._to_restore = 0
        self._turns_since.clear()
        self.memory.reset_memory()

    async def end_turn(self, runtime: CompactionRuntime) -> None:
        """Compact what has become too long; failing leaves the conversation as it is.

        What a summary stands for is forgotten here; the memory on the bus has it.
        """
        try:
            await self.memory.compact_if_needed(runtime)
        except Local2Error as error:
            log.warning("not_compacted", reason=str(error))
        if (context := self.memory.snapshot().context) is not None:
            self.memory.restore(Snapshot(messages=context))

    async def _load(self) -> Loaded | None:
        """None where the memory is not there, or is none."""
        result = await call_tool(
            self._bus, LOAD, {"limit": self._to_restore}, caller=self._caller, timeout=LOAD_SECONDS
        )
        try:
            if result.ok:
                return msgspec.convert(result.data, Loaded)
            log.warning("session_not_loaded", reason=result.outcome)
        except msgspec.ValidationError:
            log.warning("session_not_loaded", reason="Its answer is no session.")
        return None

    def _restore(self, loaded: Sequence[LoadedMessage], query: str) -> None:
        """Put what was said before the restart in front of what has been said since."""
        since = self.memory.snapshot().messages
        apart = self._turns_since | self.waiting
        before = {m.id: m for m in loaded if m.query_id not in apart}
        if loaded and loaded[-1].asks(query):
            before.pop(loaded[-1].id, None)  # received before it is asked here, without a query id
        answered = {m.tool_call_id for m in before.values() if m.role == "tool"}
        messages = [m.message(answered) for m in before.values()]
        self.memory.restore(Snapshot(messages=[*filter(None, messages), *since]))
        self._to_restore = 0
        self._turns_since.clear()
