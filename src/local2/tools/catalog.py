"""List all tools of the memory, in the order in which models see them."""

from typing import Any

from local2.memory.tenant import Memories
from local2.protocol.payloads import ToolSchema
from local2.protocol.tool import Tool
from local2.tools import episodes, facts, long_texts, recall, relations, sessions, upkeep
from local2.tools.base import MemoryTool

TOOLS: tuple[MemoryTool[Any], ...] = (
    facts.SAVE_TOPIC,
    facts.RECALL_TOPIC,
    facts.REMEMBER_FACT,
    relations.ADD_KNOWLEDGE,
    recall.RECALL,
    episodes.SAVE_MEMORY,
    episodes.SEARCH_MEMORY,
    facts.MEMORY_HISTORY,
    long_texts.READ_TOOL_OUTPUT,
    sessions.NOTE,
    sessions.LOAD_SESSION,
    sessions.TOP_MEMORIES,
    sessions.INGEST,
    long_texts.ADD_DOCUMENT,
    long_texts.READ_DOCUMENT,
    relations.RELATE,
    relations.RELATIONS,
    upkeep.CONSOLIDATE,
    upkeep.UNDO,
    upkeep.AUDIT,
    upkeep.FORGET,
)


TOOL_NAMES = frozenset(tool.name for tool in TOOLS)


def announcements() -> list[ToolSchema]:
    """Return what a stack announces of its tools, for those that have not reached one yet."""
    return [tool.schema() for tool in memory_tools(Memories())]


def memory_tools(memories: Memories) -> list[Tool]:
    """Return all tools, over the memories of all tenants."""
    return [tool.bind(memories) for tool in TOOLS]
