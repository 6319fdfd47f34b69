"""A memory service of Google's Agent Development Kit: what its users wrote in any session.

A memory belongs to its user, and the name of an application is that of an agent: what a user told
one agent the user's other agents know, too. Applications that must not share it each need a home,
or a tenant.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from local.client.memory import Memory
from local.errors import ForbiddenError, InvalidArgumentsError, quoted
from local.integrations.base import metadata_of, using
from local.protocol.memories import RecalledItem
from local.protocol.payloads import Json

MOST_FOUND = 10
"""As many as ADK's own service returns."""
MOST_ASKED = 4_096
"""Characters of a query; ADK's tool `preload_memory` asks with whole messages."""
AT_ONCE = 500
"""Messages in one request."""
OWN_TOOL = "load_memory"
"""ADK's tool that calls this service: its results are nothing new."""

T = TypeVar("T")


class LocalMemoryService(BaseMemoryService):
    """The memories of all users of an application, over one connection.

    `token_of`: on a stack with accounts, returns the token of a user; without it, only the `user`
    of the options is served there. `memory`: an open one, which it shares; otherwise it opens one.
    `options`: as `local2.connect` takes them.
    """

    def __init__(
        self,
        *,
        token_of: Callable[[str], str] | None = None,
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        self._token_of = token_of
        self._memory = using(memory, options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, if it is its own; the next call opens another one."""
        await self._memory.aclose()

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember a session; added again, only what is new of it."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 - there is none
    ) -> None:
        messages = [message for event in events if (message := message_of(event)) is not None]

        async def ingest(memory: Memory) -> None:
            for start in range(0, len(messages), AT_ONCE):
                await memory.ingest(messages[start : start + AT_ONCE], session=session_id)

        await self._as(user_id, app_name, ingest)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember facts; metadata are passed as further arguments of the tool `remember_fact`."""

        async def remember(memory: Memory) -> None:
            for entry in memories:
                further = {**(custom_metadata or {}), **entry.custom_metadata}
                content = _text(entry.content)
                await memory.call("remember_fact", content=content, scope="user", **further)

        await self._as(user_id, app_name, remember)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        if not query.strip():
            return SearchMemoryResponse()
        found = await self._as(
            user_id,
            app_name,
            lambda memory: memory.recall(query[:MOST_ASKED], limit=MOST_FOUND),
        )
        return SearchMemoryResponse(memories=[entry_of(item) for item in found.items])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase a memory for good, also from sessions that are added again."""
        if not memory_id:
            return
        with suppress(InvalidArgumentsError):  # the user has none of that id, or no longer
            await self._as(user_id, app_name, lambda memory: memory.forget(id=memory_id))

    async def _as(self, user_id: str, app_name: str, work: Callable[[Memory], Awaitable[T]]) -> T:
        """Return the memory for a user.

        Raises:
            ForbiddenError: On a stack with accounts there is no token for this user.
        """
        token = self._token_of(user_id) if self._token_of else None

        async def for_user(memory: Memory) -> T:
            if token is None and not memory.can_act_as(user_id):
                raise ForbiddenError(
                    f"Nothing proves that this is for {quoted(user_id)}.",
                    remedy="Pass `token_of`, which returns a token of the user that it is called "
                    "with.",
                )
            return await work(memory.of(user=user_id, agent=app_name, token=token))

        return await self._memory.do(for_user)


def message_of(event: Event) -> Json | None:
    """Return an event as a message to ingest: texts, calls and results; no thoughts or files."""
    content = event.content
    parts = [part for part in (content.parts or [] if content else []) if _is_worth(part)]
    if content is None or not parts:
        return None
    message: Json = {
        "id": event.id,
        "role": content.role or ("user" if event.author == "user" else "model"),
        "timestamp": event.timestamp,
        "parts": [_part(part) for part in parts],
    }
    return message if event.author == "user" else {**message, "name": event.author}


def entry_of(item: RecalledItem) -> MemoryEntry:
    """Return a memory as ADK has them."""
    role = "user" if item.role == "user" else "model"
    return MemoryEntry(
        id=item.id,
        content=types.Content(role=role, parts=[types.Part(text=item.content)]),
        author=item.label or item.role or item.agent,
        timestamp=item.event_time.isoformat(),
        custom_metadata=metadata_of(item),
    )


def _is_worth(part: types.Part) -> bool:
    if (called := part.function_call or part.function_response) is not None:
        return called.name != OWN_TOOL
    return bool(part.text and part.text.strip()) and not part.thought


def _part(part: types.Part) -> Json:
    fields = {"text", "function_call", "function_response"}
    return part.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)


def _text(content: types.Content) -> str:
    return "\n".join(part.text for part in content.parts or [] if part.text)
