"""GeneratorAgent: answers queries with a chat model that may call any tool announced on the bus.

Like any other agent, it reaches the memory only over the bus. So it can run anywhere, and needs
nothing that other agents lack.
"""

import asyncio
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from weakref import WeakValueDictionary

import msgspec
import structlog

from local2.admission import FairSlots
from local2.background import in_background
from local2.bounded_dict import BoundedDict
from local2.bus.connection import BusMessage, Connection
from local2.bus.participant import Participant
from local2.bus.running_calls import RunningCalls
from local2.client.tools import Toolbox, call_tool
from local2.conversation.knowledge_graph import KGMemory
from local2.errors import (
    BadRequestError,
    CancelledCallError,
    InvalidArgumentsError,
    Local2Error,
    ModelError,
    OverloadedError,
    RequestError,
)
from local2.generator.publication import TurnPublisher
from local2.generator.session import GeneratorSession, SessionEvents
from local2.generator.toolset import RecentTools, ToolMenu
from local2.generator.turn import NAME, GeneratorTurn
from local2.llm.models import ChatModel, StructuredModel
from local2.protocol import subjects
from local2.protocol.envelope import Sender, decode, encode, new_id, seal_from
from local2.protocol.lenient.turns import read_query, sender_of
from local2.protocol.memory_tools import ADD_KNOWLEDGE, MAX_FACTS
from local2.protocol.payloads import ClearSession, Empty, Generation, ToolResult
from local2.settings import GeneratorSettings, SlotLimits

MAX_SESSIONS = 1_000
"""Maximum number of sessions in memory, besides those in use. A dropped session costs its next turn
a `load_session` of more messages; a cached one costs memory."""
MAX_TURNS = 256
"""Maximum number of concurrent turns of all users (decision 0016). They mostly wait for the
model."""
MAX_ADMITTED_TURNS = 1_024
"""Maximum number of turns that run or wait; more are refused as `overloaded`. One user may have
half of them."""
ACCEPTED = "The answer follows on response.generation."

SessionKey = tuple[str | None, str | None]
"""User and session id, since two users may choose the same id."""

log = structlog.get_logger()


class GeneratorAgent(Participant):
    """Receives `query.received`, streams `response.delta`, ends with `response.generation`."""

    def __init__(
        self,
        bus: Connection,
        model: ChatModel,
        settings: GeneratorSettings,
        *,
        is_shared: bool = False,
    ) -> None:
        """`is_shared`: whether generators of other stacks share the queries."""
        super().__init__(bus, name=NAME, description=f"Answers queries ({model.name}).")
        self._model = model
        self._settings = settings
        self._is_shared = is_shared
        self._turns = FairSlots(
            SlotLimits(
                requests=MAX_TURNS,
                tenant_requests=MAX_TURNS,
                user_requests=settings.turns_per_user,
                waiting=MAX_ADMITTED_TURNS,
                tenant_waiting=MAX_ADMITTED_TURNS,
                user_waiting=MAX_ADMITTED_TURNS // 2,
            )
        )
        self._running = RunningCalls(self)
        self._sessions = WeakValueDictionary[SessionKey, GeneratorSession]()
        self._recent = BoundedDict[SessionKey, GeneratorSession](MAX_SESSIONS)
        self._events = SessionEvents(bus)
        self._publisher = TurnPublisher(bus)
        self._toolbox = Toolbox(bus, source=NAME, on_change=self._note_change)
        self._menu = ToolMenu()
        self._menu_outdated = True
        self._recent_tools = RecentTools()
        self._tools_known = asyncio.Semaphore(0)
        """Free once the tools are known; queries pass it in the order of their arrival."""
        self._resources = AsyncExitStack()
        self.serve(subjects.QUERY_RECEIVED, self._receive, queue=NAME, limit=None)
        self._running.cancel_on(subjects.QUERY_CANCEL)
        self._running.tell_on(subjects.QUERY_RUNNING)
        # Each generator clears what it has of the session.
        self.serve(subjects.SESSION_CLEAR, self._clear, queue="" if is_shared else NAME)
        self.serve(subjects.MEMORY_FORGOTTEN, self._forget)

    async def started(self) -> None:
        await self._resources.enter_async_context(self._toolbox)
        await in_background(self._resources, tools=self._know_tools())

    async def _know_tools(self) -> None:
        """Let queries, and nothing else, wait until the tools have announced themselves."""
        await self._toolbox.settle()
        self._tools_known.release()

    async def stopping(self) -> None:
        await self._events.settle()
        await self._publisher.close()
        await self._resources.aclose()

    async def _receive(self, message: BusMessage) -> None:
        with ExitStack() as admitted:
            try:
                envelope = read_query(message.data).envelope
                caller = self.bus.identity.caller_of(message, envelope)
                admitted.enter_context(self._turns.admitted(caller.principal, len(message.data)))
                admitted.enter_context(suppress(CancelledCallError))
                admitted.enter_context(self._running.cancellable(caller, envelope.id))
            except (RequestError, OverloadedError) as error:
                log.warning("query_refused", reason=error.logged)
                await self._refuse(message, error)
                return
            await self.acknowledge(message, ToolResult(ok=True, content=ACCEPTED))
            query = envelope.payload
            session_id = query.session_id or new_id()
            sender = Sender(user=caller.user, agent=NAME, session_id=session_id, token=caller.token)
            async with self._tools_known:
                pass
            known = self._sessions.get((sender.user, session_id))
            if self._menu_outdated:
                # The tools that the settings name, else all for models that they do not hide.
                wanted, hidden = self._settings.tools, self._settings.hidden_tools
                offered = [
                    tool
                    for tool in self._toolbox.announced
                    if (
                        tool.name in wanted
                        if wanted
                        else tool.for_models and tool.name not in hidden
                    )
                ]
                self._menu.update(offered, self._toolbox.own)
                self._menu_outdated = False
            turn = GeneratorTurn(
                self.bus,
                self._model,
                self._settings,
                session=self._keep_session(known or self._new_session(sender), sender),
                publisher=self._publisher,
                menu=self._menu,
                recent_tools=self._recent_tools,
                caller=sender,
                query=query.query,
                query_id=query.query_id or envelope.id or new_id(),
            )
            was_cancelled = partial(self._running.was_cancelled, caller, envelope.id)
            await turn.run(self._turns.slot(caller.principal), was_cancelled)
            if self._settings.knowledge and turn.answer and sender.user is not None:
                await learn(
                    self.bus,
                    query.query,
                    caller=sender,
                    model=self._model if isinstance(self._model, StructuredModel) else None,
                    within=self._settings.tool_timeout,
                )

    async def _refuse(self, message: BusMessage, error: Local2Error) -> None:
        """Tell the sender of a query why it is refused; if nobody waits for a reply, everybody."""
        refused = ToolResult.failed(error)
        await self.acknowledge(message, refused)
        try:
            sender = msgspec.structs.replace(sender_of(message.data), agent=NAME)
        except BadRequestError:
            return  # nobody can know it again
        if not message.reply and sender.query_id:
            turn = Generation(
                answer="",
                query="",
                session_id=sender.session_id,
                query_id=sender.query_id,
                error=refused.error,
            )
            envelope = seal_from(sender, turn, type="response")
            await self.bus.publish(subjects.RESPONSE_GENERATION, encode(envelope))

    async def _clear(self, message: BusMessage) -> None:
        try:
            envelope = decode(message.data, ClearSession)
            caller = self.bus.identity.caller_of(message, envelope)
            session_id = envelope.payload.session_id or caller.session_id
            if session_id is None:
                raise InvalidArgumentsError("session_id: the request has none.")
        except RequestError as error:
            await self.acknowledge(message, ToolResult.failed(error))
            return
        # Turns that run in the old session end by themselves.
        sender = Sender(user=caller.user, agent=NAME, session_id=session_id)
        await self._keep_session(self._new_session(sender), sender).clear()
        await self.acknowledge(message, ToolResult(ok=True, content="The session was cleared."))

    async def _forget(self, message: BusMessage) -> None:
        """Drop conversations of which a part was erased; their next turn restores the rest."""
        erased = decode(message.data, Empty)
        for user, session_id in list(self._sessions):
            if user == erased.user and erased.session_id in {None, session_id}:
                self._sessions.pop((user, session_id), None)
                self._recent.pop((user, session_id), None)

    def _new_session(self, caller: Sender) -> GeneratorSession:
        return GeneratorSession(
            self.bus,
            self._settings,
            caller,
            self._events.sink_for(caller),
            is_shared=self._is_shared,
        )

    def _keep_session(self, session: GeneratorSession, caller: Sender) -> GeneratorSession:
        """Keep the most recent sessions; any other one exists only while a turn uses it."""
        key = caller.user, caller.session_id
        self._sessions[key] = self._recent[key] = session
        return session

    def _note_change(self) -> None:
        self._menu_outdated = True


async def learn(
    bus: Connection, text: str, *, caller: Sender, model: StructuredModel | None, within: float
) -> None:
    """Extract facts from a user's text, and store them for that user as linked facts.

    A failure is only logged, because the turn itself has been stored word for word.

    Args:
        bus: The bus that the memory is on.
        text: What the user wrote.
        caller: The user.
        model: Extracts the facts; without one, rules do.
        within: Seconds to wait for the memory.
    """
    knowledge = KGMemory(model)
    try:
        triplets = await knowledge.extract_and_update_from_text(text, role="user")
    except ModelError as error:
        log.warning("nothing_learned", reason=str(error))
        return
    facts = [msgspec.to_builtins(triplet) for triplet in triplets]
    for start in range(0, len(facts), MAX_FACTS):
        arguments = {"facts": facts[start : start + MAX_FACTS], "scope": "user"}
        result = await call_tool(bus, ADD_KNOWLEDGE.name, arguments, caller=caller, timeout=within)
        if not result.ok:
            log.warning("not_learned", facts=len(facts) - start, reason=result.outcome)
            return
