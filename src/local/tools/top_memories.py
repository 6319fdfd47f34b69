"""Tool `top_memories`: what an agent should know at the start of each turn, whatever is asked."""

from local.memory.service import MemoryService
from local.memory.sessions.top import TopMemories
from local.protocol.memories import NOTHING_FOUND
from local.protocol.tool import ToolOutput
from local.tools.base import DATA_BYTES, READS, TEXT_BYTES, Args, MemoryTool, shortened

DESCRIPTION = (
    "List the memories that matter most: important or lasting facts, instructions and preferences "
    "of the user, of the agent and for everybody. For agents to begin each turn with; to look for "
    "something in particular use recall."
)


class NoArguments(Args, frozen=True):
    pass


async def top_memories(memory: MemoryService, _: NoArguments) -> ToolOutput:
    top = (await memory.top_memories()).memories
    return ToolOutput(
        content=TopMemories(memories=shortened(top, TEXT_BYTES)).section() or NOTHING_FOUND,
        data=TopMemories(memories=shortened(top, DATA_BYTES)),
    )


def _shown(data: TopMemories) -> list[str]:
    return [memory.id for memory in data.memories]


TOOL = MemoryTool[NoArguments](
    name="top_memories",
    title="List what matters most",
    description=DESCRIPTION,
    annotations=READS,
    args=NoArguments,
    function=top_memories,
    shows=_shown,
    for_models=False,
    operation="search_memory",
)
