"""GeneratorAgent: answers queries with a chat model that may call any tool heard on the bus."""

import asyncio
from collections import OrderedDict
from contextlib import AsyncExitStack, ExitStack
from weakref import WeakValueDictionary

import structlog

from local.bus.connection import Connection, Message
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.client.tools import Toolbox
from local.errors import InvalidArgumentsError, OverloadedError, RequestError
from local.fair_slots import FairSlots
from local.generator.events import Announcements
from local.generator.learning import learn
from local.generator.publication import Publications
from local.generator.session import Session
from local.generator.toolset import Uses
from local.generator.turn import NAME, Turn
from local.llm.chat import ChatModel
from local.llm.structured import StructuredModel
from local.protocol import subjects
from local.protocol.envelope import Caller, Envelope, decode, encode, new_id, seal
from local.protocol.generation import read_query
from local.protocol.payloads import ClearSession, Query, ToolResult, ToolSchema
from local.settings import GeneratorSettings

SESSIONS_KEPT = 1_000
"""Beside those that are in use."""
TURNS = 256
"""At once, of all users."""
TURNS_ADMITTED = 1_024
"""Those that wait included."""

ACCEPTED = "The answer follows on response.generation."

Whose = tuple[str | None, str | None]

log = structlog.get_logger()


class GeneratorAgent(Participant):
    """Hears `query.received`, streams `response.delta`, ends with `response.generation`."""

    def __init__(self, bus: Connection, model: ChatModel, settings: GeneratorSettings) -> None:
        super().__init__(bus, name=NAME, description=f"Answers queries ({model.name}).")
        self._model = model
        self._settings = settings
        self._turns = FairSlots(TURNS, settings.turns_per_user, admitted=TURNS_ADMITTED)
        self._sessions = WeakValueDictionary[Whose, Session]()
        self._recent = OrderedDict[Whose, Session]()
        self._announcements = Announcements(bus)
        self._publications = Publications(bus)
        self._toolbox = Toolbox(bus, source=NAME)
        self._uses = Uses()
        self._tools_heard = asyncio.Event()
        self._resources = AsyncExitStack()
        self.serve(subjects.QUERY_RECEIVED, self._hear, queue=NAME, limit=None)
        self.serve(subjects.SESSION_CLEAR, self._clear, queue=NAME)

    async def started(self) -> None:
        await self._resources.enter_async_context(self._toolbox)
        await self._toolbox.settle()
        self._tools_heard.set()

    async def stopping(self) -> None:
        await self._announcements.settle()
        await self._publications.close()
        await self._resources.aclose()

    async def _hear(self, message: Message) -> None:
        with ExitStack() as admitted:
            try:
                envelope = read_query(message.data).envelope
                caller = caller_of(envelope)
                admitted.enter_context(self._turns.admitted(caller.principal, len(message.data)))
            except (RequestError, OverloadedError) as error:
                log.warning("query_refused", reason=error.logged)
                await self._acknowledge(message, ToolResult.failed(error))
                return
            await self._acknowledge(message, ToolResult(ok=True, content=ACCEPTED))
            await self._answer(envelope, caller)

    async def _answer(self, envelope: Envelope[Query], asking: Caller) -> None:
        query = envelope.payload
        caller = Caller(user=asking.user, agent=NAME, session_id=query.session_id or new_id())
        await self._tools_heard.wait()
        turn = Turn(
            self.bus,
            self._model,
            self._settings,
            session=self._session(caller),
            publications=self._publications,
            tools=self._tools(),
            own=self._toolbox.own,
            uses=self._uses,
            caller=caller,
            query=query.query,
            query_id=query.query_id or envelope.id or new_id(),
        )
        await turn.run(self._turns.slot(asking.principal))
        if self._settings.knowledge and turn.answer and caller.user is not None:
            await self._learn(query.query, caller)

    async def _clear(self, message: Message) -> None:
        try:
            envelope = decode(message.data, ClearSession)
            asking = caller_of(envelope)
            session_id = envelope.payload.session_id or asking.session_id
            if session_id is None:
                raise InvalidArgumentsError("session_id: the request has none.")
        except RequestError as error:
            await self._acknowledge(message, ToolResult.failed(error))
            return
        self._begin_anew(Caller(user=asking.user, agent=NAME, session_id=session_id))
        await self._acknowledge(message, ToolResult(ok=True, content="The session begins anew."))

    async def _learn(self, text: str, caller: Caller) -> None:
        await learn(
            self.bus,
            text,
            caller=caller,
            model=self._model if isinstance(self._model, StructuredModel) else None,
            within=self._settings.tool_timeout,
        )

    async def _acknowledge(self, message: Message, result: ToolResult) -> None:
        """Tell who asked by request that the query has arrived, or why it was refused."""
        if message.reply:
            acknowledgement = seal(result, type="result", source=NAME)
            await self.bus.publish(message.reply, encode(acknowledgement))

    def _session(self, caller: Caller) -> Session:
        """One user's session: another user's of the same id is another one."""
        session = self._sessions.get((caller.user, caller.session_id))
        return self._kept(session or self._new_session(caller), caller)

    def _new_session(self, caller: Caller) -> Session:
        return Session(self.bus, self._settings, caller, self._announcements.of(caller))

    def _begin_anew(self, caller: Caller) -> None:
        """Another session takes this one's place: its turns go on, and nobody waits for them."""
        self._kept(self._new_session(caller), caller).clear()

    def _kept(self, session: Session, caller: Caller) -> Session:
        key = caller.user, caller.session_id
        self._sessions[key] = self._recent[key] = session
        self._recent.move_to_end(key)
        if len(self._recent) > SESSIONS_KEPT:
            self._recent.popitem(last=False)
        return session

    def _tools(self) -> list[ToolSchema]:
        """What the model may be offered.

        Those the settings name, else all that are for models and that the settings do not hide.
        """
        wanted, hidden = self._settings.tools, self._settings.hidden_tools
        tools = self._toolbox.announced
        if wanted:
            return [tool for tool in tools if tool.name in wanted]
        return [tool for tool in tools if tool.for_models and tool.name not in hidden]
