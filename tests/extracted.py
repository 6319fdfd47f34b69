"""What a model may extract from a message about the user's home, and what the memory has of it."""

from typing import Any

from local2.client.tools import call_tool
from local2.stack.app import Stack
from stacks import CALLER


def extracted_home(content: str, *sources: int) -> dict[str, Any]:
    """Return a model's answer with one fact, from the messages with these numbers (the first)."""
    item = {
        "memory_type": "fact",
        "content": content,
        "summary": "home",
        "topic": "user.home",
        "keywords": [],
        "queries": ["Where does the user live?"],
        "confidence": 0.9,
        "importance": 0.7,
        "durability": "standard",
        "sources": list(sources or (1,)),
    }
    return {"items": [item]}


async def home(stack: Stack) -> str | None:
    result = await call_tool(stack.bus, "recall_topic", {"topic": "user.home"}, caller=CALLER)
    content: str | None = result.data["content"]
    return content
