"""A `Session` for the OpenAI Agents SDK, which returns a conversation's items exactly."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from agents.items import TResponseInputItem
from agents.memory import SessionABC, SessionSettings

from local2.client.memory import Memory
from local2.integrations.base import AsyncAdapter, LoggedEntry, SessionLog, background_memory
from local2.protocol.payloads import Json

FRAMEWORK = "openai-agents"

T = TypeVar("T")


class LocalSession(AsyncAdapter, SessionABC):
    """The items of one conversation. Later conversations can recall them, too.

    `memory` is an open memory to share; without it, the session opens one. `options` are those of
    `local2.connect`; with an open memory they are those of `Memory.of`, which name the caller.
    """

    def __init__(
        self,
        session_id: str,
        *,
        session_settings: SessionSettings | None = None,
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._memory = background_memory(memory, options, FRAMEWORK)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        latest = await self._do(lambda log: log.latest(limit))
        return cast(list[TResponseInputItem], latest)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        entries = [
            LoggedEntry(item=item, message=message_in(item)) for item in cast(list[Json], items)
        ]
        await self._do(lambda log: log.append(entries))

    async def pop_item(self) -> TResponseInputItem | None:
        return cast(TResponseInputItem | None, await self._do(SessionLog.pop))

    async def clear_session(self) -> None:
        await self._do(SessionLog.clear)

    async def _do(self, work: Callable[[SessionLog], Awaitable[T]]) -> T:
        return await self._memory.do(
            lambda memory: work(SessionLog.of(memory, FRAMEWORK, self.session_id))
        )


def message_in(item: Json) -> Json | None:
    """An item as a message to ingest: texts, calls and results, no reasoning or images."""
    kind = item.get("type", "message")
    if kind == "function_call":
        function = {"name": item["name"], "arguments": item["arguments"]}
        return {"role": "assistant", "tool_calls": [{"id": item["call_id"], "function": function}]}
    if kind == "function_call_output":
        text = _text(item["output"])
        return {"role": "tool", "tool_call_id": item["call_id"], "content": text} if text else None
    text = _text(item.get("content")) if kind == "message" else ""
    return {"role": item["role"], "content": text} if text else None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if text).strip()
