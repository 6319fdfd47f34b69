"""The memory for Python programs: `local2.connect`.

Each method of `Memory` calls one of the memory's tools and returns its answer as a Struct.
`SyncMemory` has the same methods, for programs without an event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from local2.client.access import StackConnection
from local2.client.blocking import Blocking, Opening, blocking, iterating, returning
from local2.client.calls import Calls, Topic, Topics
from local2.client.items import Items
from local2.config_files import load_settings
from local2.errors import InvalidArgumentsError, quoted
from local2.home import asking_user, home_of
from local2.logs import is_configured, logging_to
from local2.protocol.browsing import (
    Browse,
    BrowseAll,
    BrowsedPage,
    ListSessions,
    Overview,
    SessionsPage,
)
from local2.protocol.conversation import IngestReport
from local2.protocol.envelope import Sender
from local2.protocol.explaining import Explain, Explained
from local2.protocol.memories import Durability, MemoryType, Scope, SourceKind
from local2.protocol.memory_tools import (
    DEFAULT_LIMIT,
    EDIT_MEMORY,
    HIDE_MEMORIES,
    INGEST,
    LOAD_SESSION,
    NOTE,
    PIN_MEMORIES,
    RECALL,
    REMEMBER_FACT,
    RETIRE_FACT,
    SAVE_MEMORY,
    SEARCH_MEMORY,
    TOP_MEMORIES,
    UNDO,
    EditedMemory,
    EditMemory,
    FactScope,
    Forget,
    FoundMemories,
    HiddenMemories,
    HideMemories,
    Ingest,
    LoadSession,
    MakeNote,
    NoArguments,
    PinMemories,
    PinnedMemories,
    Recall,
    RecalledItems,
    Receipt,
    RememberedFact,
    RememberFact,
    RetiredFacts,
    RetireFact,
    SavedMemory,
    SaveMemory,
    SearchMemory,
    SessionContent,
    SessionNotes,
    TopMemory,
    Undo,
    UndoReport,
)
from local2.protocol.payloads import Empty, Feedback, Json, ToolResult
from local2.protocol.services import (
    BROWSE,
    BROWSE_ALL,
    EXPLAIN,
    OVERVIEW,
    OVERVIEW_ALL,
    SESSIONS,
    SESSIONS_ALL,
    SHOWN,
)
from local2.protocol.showings import FindShowings, ShowingsPage
from local2.settings import Settings

T = TypeVar("T")


def connect(
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    home: Path | str | None = None,
    url: str | None = None,
    credentials: Path | str | None = None,
    tenant: str | None = None,
    token: str | None = None,
    timeout: float = 10.0,
    settings: Settings | None = None,
) -> Opening["Memory", "SyncMemory"]:
    """Open a memory while the context lasts. If no stack runs, one is started for that time.

    `async with` opens a `Memory`; `with` a `SyncMemory`, for programs without an event loop.

    Args:
        user: The user who asks. A stack without accounts trusts this name; None means the user who
            is logged in there, and the one whom the token names with accounts.
        agent: The agent that asks.
        session: The session of calls that name none.
        home: The folder of the memory. None means that of the project, else that of the user.
        url: The bus of a stack elsewhere. No stack is started then.
        credentials: An agent's credentials file, for a stack with accounts.
        tenant: The tenant whose credentials to use, if the folder itself has the accounts.
        token: Proves who the user is, on a stack with accounts.
        timeout: Seconds that each call may take.
        settings: They replace those of the home.

    Raises:
        StackNotRunningError: The stack does not start, or does not answer.
        ForbiddenError: The stack refuses the credentials.
        ConfigError: A setting is wrong, or the credentials cannot be read.
        UnwritableError: The folder cannot be written to.
        InvalidArgumentsError: The user, the agent or the session is blank.
    """
    check_named(user=user, agent=agent, session=session)
    settings = settings or load_settings(home=home_of(home))
    named: dict[str, Any] = {"url": url, "tenant": tenant, "token": token}
    if credentials is not None:
        named["credentials"] = Path(credentials).expanduser()
    given = {name: value for name, value in named.items() if value is not None}
    bus = msgspec.structs.replace(settings.bus, **given)
    settings = msgspec.structs.replace(settings, bus=bus)
    user = asking_user(settings.bus, user)

    @asynccontextmanager
    async def open_memory() -> AsyncIterator[Memory]:
        async with AsyncExitStack() as resources:
            if not is_configured():
                resources.enter_context(logging_to(level="error"))
            stack = StackConnection(settings, name=agent or "local2 client", user=user)
            await resources.enter_async_context(stack)
            await stack.bus()
            caller = Sender(user=user, agent=agent, session_id=session)
            yield Memory(Calls(stack, caller, timeout))

    return Opening(open_memory(), lambda memory: SyncMemory(memory, memory.loop))


def check_named(**who: str | None) -> None:
    """Raise InvalidArgumentsError for a user, agent or session that is given but blank."""
    for field, name in who.items():
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise InvalidArgumentsError(
                f"{field}: expected a name, got {name!r}.", remedy="Leave it out if there is none."
            )


class Memory:
    """One caller's memory. What a method stores is on disk when the method returns.

    An error reply is raised as the exception of its code. Every method also raises BusTimeoutError
    if no reply arrives in time, and StackNotRunningError if the stack has ended.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def of(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        token: str | None = None,
    ) -> "Memory":
        """The same memory for another caller or session, over the same connection."""
        check_named(user=user, agent=agent, session=session)
        return Memory(self._calls.of(user=user, agent=agent, session_id=session, token=token))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the memory was opened, and the only one it works in."""
        return self._calls.loop

    def can_act_as(self, user: str) -> bool:
        """Whether `of` accepts this user without a token."""
        return self._calls.can_act_as(user)

    @property
    def topics(self) -> Topics:
        """Facts under fixed keys: `await memory.topics["user.name"]`."""
        return Topics(self._calls)

    async def remember(
        self,
        content: str,
        *,
        topic: str | None = None,
        scope: FactScope | None = None,
        memory_type: MemoryType = "fact",
        durability: Durability = "standard",
        importance: float = 0.5,
        replaces: Sequence[str] | None = None,
    ) -> RememberedFact:
        """Remember a fact until a newer one contradicts it.

        The answer has up to three standing facts about the same thing as `related`.

        Args:
            content: The fact, in a sentence that makes sense by itself.
            topic: Its key, if it has one. A newer fact under the key replaces it.
            scope: Who it belongs to. None means the user, or everybody if there is no user;
                with a topic, everybody unless it starts with `user.`.
            memory_type: The kind of fact.
            durability: `core` never fades, `standard` fades slowly, `ephemeral` soon.
            importance: How much it matters, 0 to 1.
            replaces: The ids of facts that no longer hold because of this one.
        """
        return await self._calls.ask(
            REMEMBER_FACT,
            RememberFact(
                content=content,
                topic=topic,
                scope=scope,
                memory_type=memory_type,
                durability=durability,
                importance=importance,
                replaces=None if replaces is None else _list(replaces, "replaces"),
            ),
        )

    async def retire(self, ids: Sequence[str], reason: str) -> RetiredFacts:
        """Retire facts and saved notes that no longer hold; `retired` has those that still stood.

        They stay in the history with the reason. Only what the user stated can be retired.
        """
        return await self._calls.ask(RETIRE_FACT, RetireFact(ids=_list(ids, "ids"), reason=reason))

    async def edit(
        self,
        id: str,  # noqa: A002 - its name everywhere
        content: str,
        reason: str,
    ) -> EditedMemory:
        """Write a fact or a saved note anew; the former version stays in the history."""
        return await self._calls.ask(EDIT_MEMORY, EditMemory(id=id, content=content, reason=reason))

    async def pin(self, ids: Sequence[str], reason: str, *, unpin: bool = False) -> PinnedMemories:
        """Pin facts: they are among the first memories that are shown without a question."""
        wanted = PinMemories(ids=_list(ids, "ids"), reason=reason, unpin=unpin)
        return await self._calls.ask(PIN_MEMORIES, wanted)

    async def hide(self, ids: Sequence[str], reason: str) -> HiddenMemories:
        """Never recall memories again, of any kind. They stay in the history."""
        return await self._calls.ask(
            HIDE_MEMORIES, HideMemories(ids=_list(ids, "ids"), reason=reason)
        )

    async def undo(self, run: str) -> UndoReport:
        """Undo the changes of a run of `edit`, `hide`, a retirement or a consolidation."""
        return await self._calls.ask(UNDO, Undo(run=run))

    async def recall(
        self,
        query: str,
        *,
        top_k: int = 5,
        scope: Scope = "any",
        source_kinds: Sequence[SourceKind] | None = None,
        since: str | None = None,
        until: str | None = None,
        as_of: str | None = None,
        min_relevance: float = 0.0,
        synthesize: bool = False,
    ) -> RecalledItems:
        """Find messages, answers, documents, facts and notes; `items` are best first.

        Args:
            query: What to look for, in any words.
            top_k: Maximum number of items.
            scope: Where to search: `session`, `history`, `user`, `agent`, `tenant`, or `any` for
                all of them.
            source_kinds: The kinds to find; None means all.
            since: Leave out everything older than this date or time, e.g. 2026-05-01.
            until: Leave out everything newer than this date or time.
            as_of: Search as of this time: leave out everything that happened later.
            min_relevance: Minimum score of an item, as a fraction of the best item's score.
            synthesize: Whether to also write an `answer` to the query from the items.
        """
        return await self._calls.ask(
            RECALL,
            Recall(
                query=query,
                top_k=top_k,
                scope=scope,
                source_kinds=None if source_kinds is None else _list(source_kinds, "source_kinds"),
                since=since,
                until=until,
                as_of=as_of,
                min_relevance=min_relevance,
                synthesize=synthesize,
            ),
        )

    async def explain(self, asked: Explain) -> Explained:
        """Explain what `recall` returns for a question: places, scores, and what was left out.

        `asked.id` names a memory whose place is explained, or why it is not in the answer.
        """
        return await self._calls.ask_service(EXPLAIN, asked)

    async def shown(self, wanted: FindShowings) -> ShowingsPage:
        """Read which memories were shown in a session, for a query, or when one memory was.

        What was shown before each answer is kept with its turn; recalls are only if the setting
        `recall_log_days` says so.
        """
        return await self._calls.ask_service(SHOWN, wanted)

    async def browse(self, wanted: Browse | None = None) -> BrowsedPage:
        """Look through memories, the newest first: one's own and those for everybody.

        Pass `next` of a page as `after` to get the following one. A page may have fewer memories
        than its limit although there are more.

        Args:
            wanted: Which memories to show; None means all that stand. With `BrowseAll`, also those
                of other users, which needs the role admin on a stack with accounts.
        """
        if isinstance(wanted, BrowseAll):
            return await self._calls.ask_service(BROWSE_ALL, wanted)
        return await self._calls.ask_service(BROWSE, wanted or Browse())

    async def overview(self, *, everybody: bool = False) -> Overview:
        """Count memories by scope and kind, list users, agents and the sessions used last.

        `everybody`: of all users, which needs the role admin on a stack with accounts.
        """
        return await self._calls.ask_service(OVERVIEW_ALL if everybody else OVERVIEW, Empty())

    async def sessions(
        self, wanted: ListSessions | None = None, *, everybody: bool = False
    ) -> SessionsPage:
        """List sessions, those that were used last first.

        Pass `next` of a page as `after` to get the following one. `everybody`: of all users, which
        needs the role admin on a stack with accounts.
        """
        service = SESSIONS_ALL if everybody else SESSIONS
        return await self._calls.ask_service(service, wanted or ListSessions())

    async def save(self, content: str, metadata: Json | None = None) -> SavedMemory:
        """Store a note about something that happened or was learned."""
        return await self._calls.ask(SAVE_MEMORY, SaveMemory(content=content, metadata=metadata))

    async def search(self, query: str, *, top_k: int | None = None) -> FoundMemories:
        """Find earlier questions with their answers, and saved notes."""
        return await self._calls.ask(SEARCH_MEMORY, SearchMemory(query=query, top_k=top_k))

    async def ingest(self, messages: Sequence[Json], *, session: str | None = None) -> IngestReport:
        """Store a conversation word for word. Sent again, or continued, it adds only what is new.

        Args:
            messages: Messages with the roles of chat models, e.g.
                `{"role": "user", "content": "…"}`.
            session: The session id of the conversation.
        """
        return await self._calls.ask(
            INGEST, Ingest(messages=_list(messages, "messages"), session_id=session)
        )

    async def load_session(
        self, session: str | None = None, *, limit: int = DEFAULT_LIMIT
    ) -> SessionContent:
        """Load what continuing a session needs: its newest messages, its notes, top memories."""
        return await self._calls.ask(LOAD_SESSION, LoadSession(session_id=session, limit=limit))

    async def note(self, content: str, *, role: str | None = None) -> SessionNotes:
        """Add a note for the rest of the session; return all its notes."""
        return await self._calls.ask(NOTE, MakeNote(content=content, role=role))

    async def top_memories(self) -> list[TopMemory]:
        """List the memories that matter most whatever the question, to begin a session with."""
        return (await self._calls.ask(TOP_MEMORIES, NoArguments())).memories

    async def forget(
        self,
        *,
        everything: bool = False,
        session: str | None = None,
        topic: str | None = None,
        id: str | None = None,  # noqa: A002 - its name everywhere
        dry_run: bool = False,
        allow_again: bool = False,
    ) -> Receipt:
        """Erase for good what the user said or stated; the receipt lists what was erased.

        Args:
            everything: Erase all of it.
            session: Erase what was said in this session.
            topic: Erase this topic with all its versions.
            id: Erase this record with its turn or document.
            dry_run: Only report what would be erased.
            allow_again: Let a later import store it again.
        """
        return await self._calls.forget(
            Forget(
                everything=everything,
                session_id=session,
                topic=topic,
                id=id,
                dry_run=dry_run,
                allow_again=allow_again,
            )
        )

    async def feedback(
        self, query_id: str, score: float, *, comment: str | None = None, session: str | None = None
    ) -> None:
        """Rate the answer of a turn from -1 to 1. Searches rank better answers higher.

        Raises:
            InvalidArgumentsError: The score is out of range. This is checked here because a
                published rating gets no reply.
        """
        if not isinstance(score, float | int) or not -1 <= score <= 1:
            raise InvalidArgumentsError(
                f"score: expected a number from -1 to 1, got {quoted(score)}."
            )
        rating = Feedback(query_id=query_id, score=score, comment=comment, session_id=session)
        await self._calls.rate(rating)

    def items(self, collection: str) -> Items:
        """Open the items that an application stores verbatim under namespaces and keys."""
        return Items(self._calls, collection)

    async def call(self, tool: str, /, **args: Any) -> ToolResult:
        """Call any tool on the bus. The result's `content` is text, its `data` is structured."""
        return await self._calls.call(tool, args)


class SyncTopic(Blocking[Topic]):
    """A topic, for any thread."""

    get = blocking(Topic.get)
    set = blocking(Topic.set)
    history = blocking(Topic.history)
    delete = blocking(Topic.delete)


class SyncTopics(Blocking[Topics]):
    """The topics of a memory, by their keys, for any thread."""

    __getitem__ = returning(Topics.__getitem__, SyncTopic)


class SyncItems(Blocking[Items]):
    """The items of one application, for one user and any thread."""

    # the class does not exist yet
    in_session = returning(Items.in_session, lambda items, loop: SyncItems(items, loop))  # noqa: PLW0108
    put = blocking(Items.put)
    get = blocking(Items.get)
    search = blocking(Items.search)
    each_in = iterating(Items.each_in)
    namespaces = blocking(Items.namespaces)
    delete = blocking(Items.delete)


def _list(values: Sequence[T], name: str) -> list[T]:
    """The values as a list.

    Raises:
        InvalidArgumentsError: They are one text, whose letters would each be a value.
    """
    if isinstance(values, str):
        raise InvalidArgumentsError(
            f"{name}: expected a list, got {quoted(values)}.", remedy=f"Write [{quoted(values)}]."
        )
    return list(values)


class SyncMemory(Blocking[Memory]):
    """One caller's memory for any thread; its methods are those of `Memory`, without `await`."""

    # the class does not exist yet
    of = returning(Memory.of, lambda memory, loop: SyncMemory(memory, loop))  # noqa: PLW0108
    items = returning(Memory.items, SyncItems)
    remember = blocking(Memory.remember)
    retire = blocking(Memory.retire)
    edit = blocking(Memory.edit)
    pin = blocking(Memory.pin)
    hide = blocking(Memory.hide)
    undo = blocking(Memory.undo)
    recall = blocking(Memory.recall)
    browse = blocking(Memory.browse)
    overview = blocking(Memory.overview)
    sessions = blocking(Memory.sessions)
    explain = blocking(Memory.explain)
    shown = blocking(Memory.shown)
    save = blocking(Memory.save)
    search = blocking(Memory.search)
    ingest = blocking(Memory.ingest)
    load_session = blocking(Memory.load_session)
    note = blocking(Memory.note)
    top_memories = blocking(Memory.top_memories)
    forget = blocking(Memory.forget)
    feedback = blocking(Memory.feedback)
    call = blocking(Memory.call)

    @property
    def topics(self) -> SyncTopics:
        """Facts under fixed keys: `memory.topics["user.name"].get()`."""
        return SyncTopics(self._awaited.topics, self._loop)
