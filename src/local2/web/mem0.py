"""The routes that mem0's own client uses for add, search, get, get all, update, delete and history.

They call the memory's tools and its service for browsing. A message that is added becomes a saved
note. Paths by id name no user, so an id that is given out ends with its user: `ID@USER`.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from http import HTTPMethod
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import Request

from local2.errors import InvalidArgumentsError, TooLargeError, abridged
from local2.protocol.browsing import MAX_PAGE, Browse, BrowsedMemory
from local2.protocol.envelope import Name, Sender
from local2.protocol.memory_tools import (
    EDIT_MEMORY,
    FORGET,
    MEMORY_HISTORY,
    RECALL,
    SAVE_MEMORY,
    Content,
    EditMemory,
    Forget,
    MemoryHistory,
    QueryText,
    Recall,
    RecalledItem,
    SaveMemory,
    Version,
)
from local2.protocol.msgspec_errors import NOT_BLANK, with_own_names
from local2.protocol.payloads import Json
from local2.protocol.services import BROWSE
from local2.web.answers import HttpAnswer, NotFoundError

if TYPE_CHECKING:
    from local2.web.server import HttpServer

PATH = "/mem0"
NAME = "local2"
"""The organization and the project, which the client asks for and nothing depends on."""
MAX_FOUND = 20
"""Maximum number of memories that a search finds; those of other agents and sessions are left out
afterwards."""
MAX_LISTED = 10_000
"""Maximum number of memories that are counted and listed by pages."""
REASON = "Changed with mem0's client."

B = TypeVar("B", bound=msgspec.Struct)
Handler = Callable[[Request, Sender], Awaitable[HttpAnswer]]


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all bodies. What is not served is refused, not ignored."""


class _Who(_Body, frozen=True, kw_only=True):
    """Whose memories: a user's, of one agent, of one session."""

    user_id: Name | None = None
    agent_id: Name | None = None
    run_id: Name | None = None


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    """What a note may not be is refused here, before the messages before it are stored."""

    role: str
    content: Annotated[Content, msgspec.Meta(pattern=NOT_BLANK)]


class _Add(_Who, frozen=True, kw_only=True):
    messages: list[_Message]
    filters: Json = {}
    metadata: Json = {}
    infer: bool = True


class _Search(_Body, frozen=True, kw_only=True):
    query: QueryText
    filters: Json = {}
    top_k: Annotated[int, msgspec.Meta(ge=1, le=MAX_FOUND)] = 10
    threshold: float = 0.0
    rerank: bool = True


class _List(_Body, frozen=True, kw_only=True):
    filters: Json = {}


class _Update(_Body, frozen=True, kw_only=True):
    text: str


class Mem0Memory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A memory as mem0's client expects it."""

    id: str
    memory: str
    created_at: datetime
    updated_at: datetime
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    score: float | None = None
    metadata: Json | None = None


class Mem0Route(NamedTuple):
    method: HTTPMethod
    path: str
    handle: Handler


class Mem0:
    """Answers the requests of mem0's client."""

    def __init__(self, memory: "HttpServer") -> None:
        self._memory = memory

    def routes(self) -> Iterator[Mem0Route]:
        by_id = f"{PATH}/v1/memories/{{id}}/"
        yield Mem0Route(HTTPMethod.GET, f"{PATH}/v1/ping/", self._ping)
        yield Mem0Route(HTTPMethod.POST, f"{PATH}/v3/memories/add/", self._add)
        yield Mem0Route(HTTPMethod.POST, f"{PATH}/v3/memories/search/", self._search)
        yield Mem0Route(HTTPMethod.POST, f"{PATH}/v3/memories/", self._list)
        yield Mem0Route(HTTPMethod.GET, by_id, self._get)
        yield Mem0Route(HTTPMethod.PUT, by_id, self._update)
        yield Mem0Route(HTTPMethod.DELETE, by_id, self._delete)
        yield Mem0Route(HTTPMethod.GET, f"{by_id}history/", self._history)

    async def _ping(self, request: Request, caller: Sender) -> HttpAnswer:
        del request
        await self._memory.ask_service(BROWSE, Browse(limit=1), caller)
        return HttpAnswer.with_value({"status": "ok", "org_id": NAME, "project_id": NAME})

    async def _add(self, request: Request, caller: Sender) -> HttpAnswer:
        wanted = await self._read(request, _Add)
        caller = _as(caller, _who(wanted.filters), wanted)
        results = []
        for message in wanted.messages:
            metadata = {**wanted.metadata, "role": message.role}
            note = SaveMemory(content=message.content, metadata=metadata)
            saved = await self._memory.ask_tool(SAVE_MEMORY, note, caller)
            event = "ADD" if saved.was_new else "NONE"
            results.append({"id": _id(saved.id, caller), "memory": message.content, "event": event})
        return HttpAnswer.with_value({"results": results})

    async def _search(self, request: Request, caller: Sender) -> HttpAnswer:
        wanted = await self._read(request, _Search)
        who = _who(wanted.filters)
        caller = _as(caller, who)
        question = Recall(query=wanted.query, top_k=MAX_FOUND, enable_rerank=wanted.rerank)
        found = await self._memory.ask_tool(RECALL, question, caller)
        results = [
            _memory_of(item, caller)
            for item in found.items
            if item.score >= wanted.threshold
            and who.agent_id in {None, item.agent}
            and who.run_id in {None, item.session_id}
        ]
        return HttpAnswer.with_value({"results": results[: wanted.top_k]})

    async def _list(self, request: Request, caller: Sender) -> HttpAnswer:
        who = _who((await self._read(request, _List)).filters)
        caller = _as(caller, who)
        page, size = _number(request, "page", 1), _number(request, "page_size", MAX_PAGE)
        browsed: list[BrowsedMemory] = []
        wanted = Browse(
            kinds=("fact", "note"),
            scopes=("user",),
            agent=who.agent_id,
            session_id=who.run_id,
            limit=MAX_PAGE,
        )
        while True:
            found = await self._memory.ask_service(BROWSE, wanted, caller)
            browsed += found.memories
            if found.next is None:
                break
            if len(browsed) > MAX_LISTED:
                raise TooLargeError(
                    f"The user has more than {MAX_LISTED:,} memories.",
                    remedy=f"Search them, or page through them with `{BROWSE.subject}`.",
                )
            wanted = msgspec.structs.replace(wanted, after=found.next)
        shown = browsed[(page - 1) * size : page * size]
        results = [
            msgspec.structs.replace(
                memory, content=(await self._versions(memory.id, caller))[0].content
            )
            if memory.cut
            else memory
            for memory in shown
        ]
        of_page = f"{request.url.path}?page_size={size}&page="
        pages = {
            "next": f"{of_page}{page + 1}" if page * size < len(browsed) else None,
            "previous": f"{of_page}{page - 1}" if page > 1 else None,
        }
        memories = [_memory_of(memory, caller) for memory in results]
        return HttpAnswer.with_value({"count": len(browsed), **pages, "results": memories})

    async def _get(self, request: Request, caller: Sender) -> HttpAnswer:
        id_, caller = _named(request, caller)
        return HttpAnswer.with_value(_latest(await self._versions(id_, caller), caller))

    async def _update(self, request: Request, caller: Sender) -> HttpAnswer:
        id_, caller = _named(request, caller)
        text = (await self._read(request, _Update)).text
        newest = (await self._versions(id_, caller))[0]
        caller = _as(caller, _Who(agent_id=newest.agent))  # it stays a memory of its agent
        edit = EditMemory(id=newest.id, content=text, reason=REASON)
        edited = await self._memory.ask_tool(EDIT_MEMORY, edit, caller)
        return HttpAnswer.with_value(_latest(await self._versions(edited.id, caller), caller))

    async def _delete(self, request: Request, caller: Sender) -> HttpAnswer:
        id_, caller = _named(request, caller)
        newest = (await self._versions(id_, caller))[0]
        await self._memory.ask_tool(FORGET, Forget(id=newest.id), caller)
        return HttpAnswer.with_value({"message": "Memory deleted successfully!"})

    async def _history(self, request: Request, caller: Sender) -> HttpAnswer:
        id_, caller = _named(request, caller)
        oldest_first = (await self._versions(id_, caller))[::-1]
        former = [None, *(version.content for version in oldest_first)]
        events = [
            {
                "id": version.id,
                "memory_id": request.path_params["id"],
                "user_id": caller.user,
                "old_memory": before,
                "new_memory": version.content,
                "event": "ADD" if before is None else "UPDATE",
                "created_at": oldest_first[0].event_time,
                "updated_at": version.event_time,
            }
            for version, before in zip(oldest_first, former, strict=False)
        ]
        return HttpAnswer.with_value(events)

    async def _versions(self, id_: str, caller: Sender) -> list[Version]:
        """All versions of a memory by the id of any of them, newest first.

        Raises:
            NotFoundError: The caller has no memory with this id.
        """
        wanted = MemoryHistory(topic_or_id=id_)
        versions = (await self._memory.ask_tool(MEMORY_HISTORY, wanted, caller)).versions
        if id_ not in {version.id for version in versions}:
            raise NotFoundError
        return versions

    async def _read(self, request: Request, into: type[B]) -> B:
        try:
            return msgspec.json.decode(await self._memory.read_body(request) or b"{}", type=into)
        except msgspec.DecodeError as error:
            raise InvalidArgumentsError(
                f"{with_own_names(abridged(error))}.",
                remedy="docs/http.md says which of mem0's options are served.",
            ) from error


def _who(filters: Json) -> _Who:
    """Whose memories a filter names: `{"user_id": "ada"}`, or such conditions in `AND`.

    Raises:
        InvalidArgumentsError: It has other conditions, which are not served.
    """
    conditions = filters.get("AND", [filters]) if len(filters) == 1 else [filters]
    merged: Json = {}
    for condition in conditions:
        merged |= condition if isinstance(condition, dict) else {"AND": condition}
    try:
        return msgspec.convert(merged, _Who)
    except msgspec.ValidationError as error:
        raise InvalidArgumentsError(
            f"filters: {error}.", remedy="Filter by user_id, agent_id and run_id, joined by AND."
        ) from error


def _as(caller: Sender, *who: _Who) -> Sender:
    """The caller as the user, agent and session that a request names; a token names the user."""
    for named in who:
        user = named.user_id if caller.token is None else None
        given = {"user": user, "agent": named.agent_id, "session_id": named.run_id}
        caller = msgspec.structs.replace(
            caller, **{name: value for name, value in given.items() if value is not None}
        )
    return caller


def _named(request: Request, caller: Sender) -> tuple[str, Sender]:
    """The memory's id in the path, and the caller as its user."""
    id_, _, user = request.path_params["id"].partition("@")
    return id_, _as(caller, _Who(user_id=unquote(user.replace("=", "%")) or None))


def _id(id_: str, caller: Sender) -> str:
    """The id of a caller's memory, which stands in a path as it is, and also percent-encoded."""
    if not caller.user:
        return id_
    user = quote(caller.user, safe="").replace("%", "=")
    return f"{id_}@{user}"


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LISTED:
        raise InvalidArgumentsError(f"{name}: expected a number from 1 to {MAX_LISTED}.")
    return int(text)


def _memory_of(found: RecalledItem | BrowsedMemory, caller: Sender) -> Mem0Memory:
    kind = found.source_kind if isinstance(found, RecalledItem) else found.kind
    return Mem0Memory(
        id=_id(found.id, caller),
        memory=found.content,
        created_at=found.event_time,
        updated_at=found.event_time,
        user_id=caller.user,
        agent_id=found.agent,
        run_id=found.session_id,
        score=found.score,
        metadata={"kind": kind},
    )


def _latest(versions: list[Version], caller: Sender) -> Mem0Memory:
    return Mem0Memory(
        id=_id(versions[0].id, caller),
        memory=versions[0].content,
        created_at=versions[-1].event_time,
        updated_at=versions[0].event_time,
        user_id=caller.user,
        agent_id=versions[0].agent,
    )
