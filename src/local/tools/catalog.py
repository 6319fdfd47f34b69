"""Every tool of the memory, in the order in which a model sees them."""

from local.memory.service import Memory
from local.protocol.tool import Tool
from local.tools import (
    add_document,
    add_knowledge,
    ingest,
    load_session,
    memory_history,
    note,
    read_tool_output,
    recall,
    recall_topic,
    remember_fact,
    save_memory,
    save_topic,
    search_memory,
)


def memory_tools(memory: Memory) -> list[Tool]:
    """The tools over one memory."""
    return [
        save_topic.TOOL.over(memory),
        recall_topic.TOOL.over(memory),
        remember_fact.TOOL.over(memory),
        add_knowledge.TOOL.over(memory),
        recall.TOOL.over(memory),
        save_memory.TOOL.over(memory),
        search_memory.TOOL.over(memory),
        memory_history.TOOL.over(memory),
        read_tool_output.TOOL.over(memory),
        note.TOOL.over(memory),
        load_session.TOOL.over(memory),
        ingest.TOOL.over(memory),
        add_document.TOOL.over(memory),
    ]
