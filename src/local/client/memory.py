"""The memory for programs in Python: `local2.connect`.

Each method is a call of one of the memory's tools, whose answer it returns as a Struct.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog

from local.client.calls import Calls, Following, Topics, check_named
from local.client.embedded import stack_running
from local.client.items import Items
from local.config_files import load_settings
from local.errors import InvalidArgumentsError
from local.home import home_of
from local.logs import logging_to
from local.protocol.answers import (
    FoundMemories,
    Receipt,
    RememberedFact,
    SavedMemory,
    SessionContent,
    SessionNotes,
    TopMemory,
)
from local.protocol.conversation import IngestReport
from local.protocol.envelope import Sender
from local.protocol.memories import (
    Durability,
    MemoryType,
    Owning,
    RecalledItems,
    Scope,
    SourceKind,
)
from local.protocol.payloads import Feedback, Json, ToolResult
from local.settings import Settings


@asynccontextmanager
async def connect(  # noqa: PLR0913 - who asks, and where
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    home: Path | str | None = None,
    url: str | None = None,
    credentials: Path | str | None = None,
    tenant: str | None = None,
    token: str | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 - of each call
    settings: Settings | None = None,
) -> AsyncIterator["Memory"]:
    """Use a memory while the context lasts; where no stack runs, one is started for as long.

    Args:
        user: Who asks; without accounts it is believed.
        agent: Which agent asks.
        session: The session of calls that name none.
        home: The folder of the memory. None: that of the project, else the user's own.
        url: The bus of a stack elsewhere; then none is started.
        credentials: The file of an agent's credentials, of a stack with accounts.
        tenant: The tenant whose credentials to use, where the folder itself has the accounts.
        token: Proves who the user is, on a stack with accounts.
        timeout: Seconds that a call may take.
        settings: They replace those of the home.

    Raises:
        StackNotRunningError: The stack does not start, or does not answer.
        ForbiddenError: It refuses the credentials.
        ConfigError: A setting is wrong, or the credentials cannot be read.
        UnwritableError: The folder cannot be written to.
        InvalidArgumentsError: The user, the agent or the session is blank.
    """
    check_named(user=user, agent=agent, session=session)
    settings = settings or load_settings(home=home_of(home))
    settings = _asking(settings, credentials, url=url, tenant=tenant, token=token)
    async with AsyncExitStack() as resources:
        if not structlog.is_configured():
            resources.enter_context(logging_to(level="error"))
        await resources.enter_async_context(stack_running(settings))
        following = Following(settings, name=agent or "local2 client", user=user)
        await resources.enter_async_context(following)
        caller = Sender(user=user, agent=agent, session_id=session)
        yield Memory(Calls(following, caller, timeout))


def _asking(settings: Settings, credentials: Path | str | None, **bus: str | None) -> Settings:
    """Return the settings, with the named ones in their place."""
    named: dict[str, Any] = {name: value for name, value in bus.items() if value is not None}
    if credentials is not None:
        named["credentials"] = Path(credentials).expanduser()
    return msgspec.structs.replace(settings, bus=msgspec.structs.replace(settings.bus, **named))


class Memory:
    """One caller's memory. What it stores is on disk when a method returns.

    Every method raises the error of the code in its answer; it raises BusTimeoutError if no answer
    comes in time, and StackNotRunningError if there is no stack any more.
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
        """Return the same memory for another caller or session, over the same connection."""
        check_named(user=user, agent=agent, session=session)
        return Memory(self._calls.of(user=user, agent=agent, session_id=session, token=token))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which it was opened; it can be used in no other."""
        return self._calls.loop

    def may_be(self, user: str) -> bool:
        """Return whether `of` this user needs no token."""
        return self._calls.may_be(user)

    @property
    def topics(self) -> Topics:
        """Standing facts by their keys."""
        return Topics(self._calls)

    async def remember(  # noqa: PLR0913 - what a fact consists of
        self,
        text: str,
        *,
        topic: str | None = None,
        scope: Owning | None = None,
        memory_type: MemoryType | None = None,
        durability: Durability | None = None,
        importance: float | None = None,
    ) -> RememberedFact:
        """Remember a fact until a newer one contradicts it.

        Args:
            text: The fact, in a sentence that makes sense by itself.
            topic: Its key, if it has one: a newer fact of the key replaces it.
            scope: Whom it belongs to. None means the user, or everybody where no user is named.
            memory_type: What kind of fact it is.
            durability: `core` never fades, `standard` slowly, `ephemeral` soon.
            importance: How much it matters, 0 to 1.
        """
        return await self._calls.ask(
            RememberedFact,
            "remember_fact",
            content=text,
            topic=topic,
            scope=scope or ("user" if self._calls.caller.user else "tenant"),
            memory_type=memory_type,
            durability=durability,
            importance=importance,
        )

    async def recall(  # noqa: PLR0913 - what a search consists of
        self,
        query: str,
        *,
        limit: int | None = None,
        scope: Scope | None = None,
        kinds: Sequence[SourceKind] | None = None,
        since: str | None = None,
        until: str | None = None,
        as_of: str | None = None,
        min_relevance: float | None = None,
        synthesize: bool | None = None,
    ) -> RecalledItems:
        """Find what was said, answered, documented, stated or noted; `items` are best first.

        Args:
            query: What to look for, in any words.
            limit: How many items at most.
            scope: Where to search: `session`, `history`, `user`, `agent`, `tenant`, or `any` of
                them.
            kinds: The kinds to find; None means all.
            since: Leave out what is older than this date or time, e.g. 2026-05-01.
            until: Leave out what is newer than this one.
            as_of: Search as at this time: what happened later is left out.
            min_relevance: The least share of the best item's score.
            synthesize: Whether to `answer` the query from what was found, too.
        """
        return await self._calls.ask(
            RecalledItems,
            "recall",
            query=query,
            top_k=limit,
            scope=scope,
            source_kinds=list(kinds) if kinds is not None else None,
            since=since,
            until=until,
            as_of=as_of,
            min_relevance=min_relevance,
            synthesize=synthesize,
        )

    async def save(self, text: str, metadata: Json | None = None) -> SavedMemory:
        """Store a note about something that happened or was found out."""
        return await self._calls.ask(SavedMemory, "save_memory", content=text, metadata=metadata)

    async def search(self, query: str, *, limit: int | None = None) -> FoundMemories:
        """Find earlier questions with their answers, and notes that were saved."""
        return await self._calls.ask(FoundMemories, "search_memory", query=query, top_k=limit)

    async def ingest(self, messages: Sequence[Json], *, session: str | None = None) -> IngestReport:
        """Store a conversation word for word; sending it again, or longer, adds what is new.

        Args:
            messages: In the roles of chat models, e.g. `{"role": "user", "content": "…"}`.
            session: Which conversation it is.
        """
        return await self._calls.ask(
            IngestReport, "ingest", messages=list(messages), session_id=session
        )

    async def load_session(
        self, session: str | None = None, *, limit: int | None = None
    ) -> SessionContent:
        """Return a session to continue: its newest messages, its notes, and what matters most."""
        return await self._calls.ask(
            SessionContent, "load_session", session_id=session, limit=limit
        )

    async def note(self, text: str, *, role: str | None = None) -> SessionNotes:
        """Note something for the rest of the session; returns all its notes."""
        return await self._calls.ask(SessionNotes, "note", content=text, role=role)

    async def top_memories(self) -> list[TopMemory]:
        """Return what matters most, whatever the question: to begin a session with."""
        result = await self._calls.ask(dict[str, list[TopMemory]], "top_memories")
        return result["memories"]

    async def forget(  # noqa: PLR0913 - what can be chosen
        self,
        *,
        everything: bool = False,
        session: str | None = None,
        topic: str | None = None,
        id: str | None = None,  # noqa: A002 - as it is called everywhere
        dry_run: bool = False,
        allow_again: bool = False,
    ) -> Receipt:
        """Erase for good what the user said or stated, everywhere; the receipt lists what.

        Args:
            everything: All of it.
            session: What was said in this session.
            topic: This standing fact, with all its versions.
            id: This record, with its turn or document.
            dry_run: Only report what would be erased.
            allow_again: A later import may store it again.
        """
        return await self._calls.forget(
            everything=everything,
            session_id=session,
            topic=topic,
            id=id,
            dry_run=dry_run,
            allow_again=allow_again,
        )

    async def feedback(
        self, query_id: str, score: float, *, comment: str | None = None, session: str | None = None
    ) -> None:
        """Rate the answer of a turn, from -1 to 1: searches find better answers first.

        Raises:
            InvalidArgumentsError: The score is invalid; a published rating gets no answer.
        """
        if not -1 <= score <= 1:
            raise InvalidArgumentsError(f"score: expected a number from -1 to 1, got {score}.")
        rating = Feedback(query_id=query_id, score=score, comment=comment, session_id=session)
        await self._calls.rate(rating)

    def items(self, collection: str) -> Items:
        """The items that an application stores exactly, under namespaces and keys."""
        return Items(self._calls, collection)

    async def call(self, tool: str, /, **args: Any) -> ToolResult:
        """Call any tool on the bus: `content` of the result is text, `data` is structured."""
        return await self._calls.call(tool, args)
