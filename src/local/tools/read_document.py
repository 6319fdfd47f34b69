"""Tool `read_document`: a document by its source, piece by piece."""

from typing import Annotated

import msgspec

from local.memory.service import MemoryService
from local.protocol.tool import ToolOutput
from local.tools.base import READS, Args, MemoryTool
from local.tools.read_tool_output import PIECE, Limit, Offset

DESCRIPTION = (
    "Read a document that was stored with add_document, by its source, as recall names it. Call it "
    "again with offset=next_offset for the piece after. To find something in it use recall."
)


class ReadDocument(Args, frozen=True):
    source: Annotated[
        str, msgspec.Meta(min_length=1, max_length=1_000, description="Where it comes from.")
    ]
    offset: Offset = 0
    limit: Limit = PIECE


class DocumentPiece(msgspec.Struct, frozen=True, kw_only=True):
    """`next_offset` is None at the end."""

    source: str
    title: str
    offset: int
    total_chars: int
    next_offset: int | None
    content: str


async def read_document(memory: MemoryService, args: ReadDocument) -> ToolOutput:
    document = await memory.documents.read(args.source)
    piece = document.content[args.offset : args.offset + args.limit]
    until, total = args.offset + len(piece), len(document.content)
    more = until < total
    reads_on = f"; offset={until} reads on" if more else ""
    return ToolOutput(
        content=f"{piece}\n[Characters {args.offset} to {until} of {total} of "
        f"{document.title}{reads_on}.]",
        data=DocumentPiece(
            source=args.source,
            title=document.title,
            offset=args.offset,
            total_chars=total,
            next_offset=until if more else None,
            content=piece,
        ),
    )


TOOL = MemoryTool(
    name="read_document",
    title="Read a document",
    description=DESCRIPTION,
    annotations=READS,
    args=ReadDocument,
    function=read_document,
    for_models=False,
)
