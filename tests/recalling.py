"""Asking for what is remembered, as the tests do: by content."""

from datetime import UTC, datetime
from typing import Any

from local.memory.recall.recaller import Ask, Recalled
from local.memory.service import MemoryService
from local.protocol.conversation import ConversationMessage

DAY = datetime(2026, 5, 2, 14, 23, 1, tzinfo=UTC)


def contents(recalled: Recalled) -> list[str]:
    return [item.record.content for item in recalled.items]


async def recall(service: MemoryService, query: str, **ask: Any) -> list[str]:
    """The contents of up to 20 items, best first."""
    return contents(await service.recall(Ask(**{"query": query, "top_k": 20, **ask})))


def said(content: str | None, role: str = "user", **fields: Any) -> ConversationMessage:
    """A message; its speaker is its role unless it has a name."""
    return ConversationMessage(**{"role": role, "content": content, **fields})
