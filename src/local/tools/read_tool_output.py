"""Tool `read_tool_output`: read on in a tool's output of which only a preview was shown."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.tool import ToolOutput
from local.tools.base import READS, Args, MemoryTool

DESCRIPTION = (
    "Read the full output of a tool of which you have only seen a preview. Call this with the key "
    "that the preview names, e.g. read_tool_output(tool_output_key='tout_5f0c…'), and again with "
    "offset=next_offset for the piece after."
)
PIECE = 8_000
LARGEST_PIECE = 64_000
"""Characters; twice as many, in content and data, fit a message even if JSON escapes all."""
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**53, description="The first character to read.")]
Limit = Annotated[
    int, msgspec.Meta(ge=1, le=LARGEST_PIECE, description="How many characters to read at most.")
]


class ReadToolOutput(Args, frozen=True):
    tool_output_key: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=100, description="The key, exactly as the preview names it."
        ),
    ]
    offset: Offset = 0
    limit: Limit = PIECE


class OutputPiece(msgspec.Struct, frozen=True, kw_only=True):
    """`next_offset` is None at the end."""

    tool_output_key: str
    offset: int
    total_chars: int
    next_offset: int | None
    content: str


async def read_tool_output(memory: MemoryService, args: ReadToolOutput) -> ToolOutput:
    piece = await memory.outputs.read(args.tool_output_key, args.offset, args.limit)
    more = piece.until < piece.total
    reads_on = f"offset={piece.until} reads on" if more else "this is the end"
    return ToolOutput(
        content=f"{piece.text}\n[Characters {piece.offset} to {piece.until} of {piece.total}; "
        f"{reads_on}.]",
        data=OutputPiece(
            tool_output_key=args.tool_output_key,
            offset=piece.offset,
            total_chars=piece.total,
            next_offset=piece.until if more else None,
            content=piece.text,
        ),
    )


TOOL = MemoryTool(
    name="read_tool_output",
    title="Read on in a long output",
    description=DESCRIPTION,
    annotations=READS,
    args=ReadToolOutput,
    function=read_tool_output,
)
