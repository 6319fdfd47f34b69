"""The tools of the memory for a host, with the functions in the other modules of this folder."""

from local2.memory.tenant import Memories
from local2.protocol.memory_tools import TOOLS
from local2.protocol.tool import Tool
from local2.tools import (  # noqa: F401 - their functions answer the tools
    episodes,
    facts,
    long_texts,
    recall,
    relations,
    sessions,
    upkeep,
)
from local2.tools.base import bind

__all__ = ["bind", "memory_tools"]


def memory_tools(memories: Memories) -> list[Tool]:
    """All tools, over the memories of all tenants."""
    return [bind(tool, memories) for tool in TOOLS]
