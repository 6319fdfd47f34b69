"""A memory service for Google's Agent Development Kit (ADK), across a user's sessions.

A memory belongs to its user. The application's name is stored as the agent's, so what a user tells
one application, the user's other applications know, too. Applications that must not share memories
each need a home or a tenant.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types

from local2.client.memory import Memory
from local2.errors import ForbiddenError, InvalidArgumentsError, quoted
from local2.integrations.base import AsyncAdapter, background_memory, metadata_of
from local2.protocol.memory_tools import RecalledItem
from local2.protocol.payloads import Json

MAX_RESULTS = 10
"""Maximum number of search results, as in ADK's own service."""
MAX_QUERY_CHARACTERS = 4_096
"""Maximum characters of a query; ADK's tool `preload_memory` sends whole messages."""
MESSAGES_PER_REQUEST = 500
"""Maximum number of messages in one request."""
OWN_TOOL = "load_memory"
"""ADK's tool that calls this service. Its results are memories already."""

T = TypeVar("T")


class LocalMemoryService(AsyncAdapter, BaseMemoryService):
    """The memories of all users of an application, over one connection.

    `token_of` returns the token of a user, for a stack with accounts. Without it, such a stack
    serves only the `user` of the options. `memory` is an open memory to share; without it, the
    service opens one. `options` are those of `local2.connect`.
    """

    def __init__(
        self,
        *,
        token_of: Callable[[str], str] | None = None,
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        self._token_of = token_of
        self._memory = background_memory(memory, options)

    async def add_session_to_memory(self, session: Session) -> None:
        """Store a session; adding it again stores only what is new."""
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
        custom_metadata: Mapping[str, object] | None = None,  # noqa: ARG002 - not stored
    ) -> None:
        messages = [message for event in events if (message := message_of(event)) is not None]

        async def ingest(memory: Memory) -> None:
            for start in range(0, len(messages), MESSAGES_PER_REQUEST):
                await memory.ingest(
                    messages[start : start + MESSAGES_PER_REQUEST], session=session_id
                )

        await self._do_as(user_id, app_name, ingest)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store facts; their metadata become further arguments of the tool `remember_fact`."""

        async def remember(memory: Memory) -> None:
            for entry in memories:
                further = {**(custom_metadata or {}), **entry.custom_metadata}
                content = "\n".join(part.text for part in entry.content.parts or [] if part.text)
                await memory.call("remember_fact", content=content, scope="user", **further)

        await self._do_as(user_id, app_name, remember)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        if not query.strip():
            return SearchMemoryResponse()
        found = await self._do_as(
            user_id,
            app_name,
            lambda memory: memory.recall(query[:MAX_QUERY_CHARACTERS], top_k=MAX_RESULTS),
        )
        return SearchMemoryResponse(memories=[entry_of(item) for item in found.items])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Erase a memory for good; adding its session again does not bring it back."""
        if not memory_id:
            return
        with suppress(InvalidArgumentsError):  # the user has no memory with this id
            await self._do_as(user_id, app_name, lambda memory: memory.forget(id=memory_id))

    async def _do_as(
        self, user_id: str, app_name: str, work: Callable[[Memory], Awaitable[T]]
    ) -> T:
        """Do work with the memory as a user.

        Raises:
            ForbiddenError: The stack has accounts, and there is no token for this user.
        """
        token = self._token_of(user_id) if self._token_of else None

        async def for_user(memory: Memory) -> T:
            if token is None and not memory.can_act_as(user_id):
                raise ForbiddenError(
                    f"There is no token for the user {quoted(user_id)}.",
                    remedy="Pass `token_of`, a function that returns the token of a user.",
                )
            return await work(memory.of(user=user_id, agent=app_name, token=token))

        return await self._memory.do(for_user)


def message_of(event: Event) -> Json | None:
    """An event as a message to ingest: texts, calls and results, no thoughts or files."""
    content = event.content
    parts = [part for part in (content.parts or [] if content else []) if _is_kept(part)]
    if content is None or not parts:
        return None
    fields = {"text", "function_call", "function_response"}
    message: Json = {
        "id": event.id,
        "role": content.role or ("user" if event.author == "user" else "model"),
        "timestamp": event.timestamp,
        "parts": [
            part.model_dump(mode="json", by_alias=True, exclude_none=True, include=fields)
            for part in parts
        ],
    }
    return message if event.author == "user" else {**message, "name": event.author}


def entry_of(item: RecalledItem) -> MemoryEntry:
    role = "user" if item.role == "user" else "model"
    return MemoryEntry(
        id=item.id,
        content=types.Content(role=role, parts=[types.Part(text=item.content)]),
        author=item.label or item.role or item.agent,
        timestamp=item.event_time.isoformat(),
        custom_metadata=metadata_of(item),
    )


def _is_kept(part: types.Part) -> bool:
    if (called := part.function_call or part.function_response) is not None:
        return called.name != OWN_TOOL
    return bool(part.text and part.text.strip()) and not part.thought
