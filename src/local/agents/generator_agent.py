"""GeneratorAgent: answers queries with a chat model that may call any tool heard on the bus."""

import asyncio
from collections import OrderedDict, deque
from contextlib import AsyncExitStack

import structlog

from local.agents.turn import NAME, Turn
from local.bus.connection import Connection, Message
from local.bus.identity import caller_of
from local.bus.participant import Participant
from local.bus.toolbox import Toolbox
from local.errors import RequestError
from local.llm.chat import ChatMessage, ChatModel
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import decode, encode
from local.protocol.envelope import new_id, seal
from local.protocol.payloads import Query, ToolResult, ToolSchema
from local.settings import GeneratorSettings

SESSIONS_KEPT = 1_000

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
        self._sessions: OrderedDict[tuple[str | None, str], Session] = OrderedDict()
        self._toolbox = Toolbox(bus, source=NAME)
        self._tools_heard = asyncio.Event()
        self._resources = AsyncExitStack()
        self.serve(subjects.QUERY_RECEIVED, self._hear, queue=NAME)

    async def started(self) -> None:
        await self._resources.enter_async_context(self._toolbox)
        await self._toolbox.settle()
        self._tools_heard.set()

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
        await self._tools_heard.wait()
        turn = Turn(
            self.bus,
            self._model,
            self._settings,
            tools=self._tools(),
            caller=Caller(user=caller.user, agent=NAME, session_id=session_id),
            query=query.query,
            query_id=query.query_id or envelope.query_id or new_id(),
        )
        session = self._session((caller.user, session_id))
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

    def _session(self, key: tuple[str | None, str]) -> Session:
        """One user's session: another user's of the same id is another one."""
        session = self._sessions.setdefault(key, Session(self._settings.history_messages))
        self._sessions.move_to_end(key)
        if len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        return session

    def _tools(self) -> list[ToolSchema]:
        """What the model is offered: those the settings name, else all that they do not hide."""
        wanted, hidden = self._settings.tools, self._settings.hidden_tools
        return [
            tool
            for tool in self._toolbox.schemas
            if (tool.name in wanted if wanted else tool.name not in hidden)
        ]
