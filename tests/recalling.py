"""Functions to store memories and search for them by content."""

from datetime import UTC, datetime
from typing import Any

from local2.ledger.records import Fact, Record
from local2.memory.recall.ranking import Shares
from local2.memory.recall.recaller import RecallRequest, RecallResult
from local2.memory.recall.results import RecallItem
from local2.memory.service import MemoryService
from local2.protocol.conversation import ConversationMessage
from local2.protocol.memories import Triplet

DAY = datetime(2026, 5, 2, 14, 23, 1, tzinfo=UTC)


def contents(recalled: RecallResult) -> list[str]:
    return [item.record.content for item in recalled.items]


def recalled_item(record: Record) -> RecallItem:
    """An item as recall would return it, with the best score."""
    return RecallItem(
        record=record, score=1.0, shares=Shares(), weight=1.0, cosine=None, covered=1.0
    )


async def recall(service: MemoryService, query: str, **ask: Any) -> list[str]:
    """Return the contents of up to 20 items, best first."""
    return contents(await service.recall(RecallRequest(**{"query": query, "top_k": 20, **ask})))


def chat_message(content: str | None, role: str = "user", **fields: Any) -> ConversationMessage:
    """Return a message; its speaker is its role unless it has a name."""
    return ConversationMessage(**{"role": role, "content": content, **fields})


def triplet(subject: str, predicate: str, object_: str) -> Triplet:
    return Triplet(subject=subject, predicate=predicate, object=object_)


async def remember(service: MemoryService, content: str, **fields: Any) -> str:
    """Store a fact, in scope user unless another is given; return its id."""
    fact = Fact(**{"content": content, "scope": "user", **fields})
    return (await service.facts.store(fact)).id
