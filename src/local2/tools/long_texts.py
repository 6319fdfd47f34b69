"""Tools for long texts: add documents; read documents and tool outputs piece by piece."""

from typing import Annotated

import msgspec

from local2.memory.intake.documents import Document
from local2.memory.service import MemoryService
from local2.protocol.memories import MAX_TITLE, AddedDocument, check_size
from local2.protocol.tool import ToolOutput
from local2.tools.base import READS, WRITES, Args, MemoryTool

ADD_DOCUMENT_DESCRIPTION = (
    "Store a document, text or Markdown, so that recall finds what it says; everybody in the "
    "tenant can find it. Adding it again under the same source replaces it, and changes only what "
    "is different. For a single fact use remember_fact or save_topic."
)


class AddDocument(Args, frozen=True):
    content: Annotated[str, msgspec.Meta(min_length=1, description="The document, whole.")]
    title: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=MAX_TITLE, description="What it is called, e.g. 'User guide'."
        ),
    ]
    source: Annotated[
        Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)] | None,
        msgspec.Meta(description="Where it comes from, e.g. a path or URL; else its title."),
    ] = None


async def add_document(memory: MemoryService, args: AddDocument) -> ToolOutput:
    check_size(args.content)
    source = args.source or args.title
    stored = await memory.documents.store(
        Document(title=args.title, source=source, content=args.content)
    )
    return ToolOutput(
        content=f"Document stored in {_chunks(stored.chunks)}: {stored.added} added, "
        f"{stored.replaced} replaced, {stored.unchanged} unchanged, {stored.removed} removed.",
        data=AddedDocument(
            source=source,
            chunks=stored.chunks,
            added=stored.added,
            replaced=stored.replaced,
            unchanged=stored.unchanged,
            removed=stored.removed,
        ),
    )


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


ADD_DOCUMENT = MemoryTool(
    name="add_document",
    title="Add a document",
    description=ADD_DOCUMENT_DESCRIPTION,
    annotations=WRITES,
    args=AddDocument,
    answer=AddedDocument,
    function=add_document,
    for_models=False,
    operation="upsert_memory",
)


READ_TOOL_OUTPUT_DESCRIPTION = (
    "Read the full output of a tool of which you have only seen a preview. Call this with the "
    "key that the preview names, e.g. read_tool_output(tool_output_key='tout_5f0c…'), and again "
    "with offset=next_offset for the next piece."
)
PIECE = 8_000
"""Default number of characters in a piece."""
MAX_PIECE = 64_000
"""Maximum number of characters in a piece. A result has it twice, in content and data, and fits
into a message even if JSON escapes every character."""
Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**53, description="The first character to read.")]
Limit = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_PIECE, description="Maximum number of characters to read.")
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
    output = await memory.outputs.read(args.tool_output_key, args.offset, args.limit)
    until, total = args.offset + len(output.text), output.total
    more = until < total
    reads_on = f"offset={until} reads on" if more else "this is the end"
    return ToolOutput(
        content=f"{output.text}\n[Characters {args.offset} to {until} of {total}; {reads_on}.]",
        data=OutputPiece(
            tool_output_key=args.tool_output_key,
            offset=args.offset,
            total_chars=total,
            next_offset=until if more else None,
            content=output.text,
        ),
    )


READ_TOOL_OUTPUT = MemoryTool(
    name="read_tool_output",
    title="Read on in a long output",
    description=READ_TOOL_OUTPUT_DESCRIPTION,
    annotations=READS,
    args=ReadToolOutput,
    answer=OutputPiece,
    function=read_tool_output,
)


READ_DOCUMENT_DESCRIPTION = (
    "Read a document that was stored with add_document, by its source, as recall names it. Call "
    "it again with offset=next_offset for the next piece. To find something in it use recall."
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
    part = await memory.documents.read(args.source, args.offset, args.limit)
    until, total = args.offset + len(part.text), part.total
    more = until < total
    reads_on = f"; offset={until} reads on" if more else ""
    return ToolOutput(
        content=f"{part.text}\n[Characters {args.offset} to {until} of {total} of "
        f"{part.label}{reads_on}.]",
        data=DocumentPiece(
            source=args.source,
            title=part.label,
            offset=args.offset,
            total_chars=total,
            next_offset=until if more else None,
            content=part.text,
        ),
    )


READ_DOCUMENT = MemoryTool(
    name="read_document",
    title="Read a document",
    description=READ_DOCUMENT_DESCRIPTION,
    annotations=READS,
    args=ReadDocument,
    answer=DocumentPiece,
    function=read_document,
    for_models=False,
)
