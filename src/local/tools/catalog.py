"""Every tool of the memory, in the order in which a model sees them."""

from typing import Any

from local.memory.tenant import Memories
from local.protocol.tool import Tool
from local.tools import (
    add_document,
    add_knowledge,
    audit,
    consolidate,
    forget,
    ingest,
    load_session,
    memory_history,
    note,
    read_document,
    read_tool_output,
    recall,
    recall_topic,
    relate,
    relations,
    remember_fact,
    save_memory,
    save_topic,
    search_memory,
    top_memories,
    undo,
)
from local.tools.base import MemoryTool

TOOLS: tuple[MemoryTool[Any], ...] = (
    save_topic.TOOL,
    recall_topic.TOOL,
    remember_fact.TOOL,
    add_knowledge.TOOL,
    recall.TOOL,
    save_memory.TOOL,
    search_memory.TOOL,
    memory_history.TOOL,
    read_tool_output.TOOL,
    note.TOOL,
    load_session.TOOL,
    top_memories.TOOL,
    ingest.TOOL,
    add_document.TOOL,
    read_document.TOOL,
    relate.TOOL,
    relations.TOOL,
    consolidate.TOOL,
    undo.TOOL,
    audit.TOOL,
    forget.TOOL,
)


TOOL_NAMES = frozenset(tool.name for tool in TOOLS)


def memory_tools(memories: Memories) -> list[Tool]:
    """The tools over every tenant's memory."""
    return [tool.over(memories) for tool in TOOLS]
