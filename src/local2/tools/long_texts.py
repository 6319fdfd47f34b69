"""Tools for long texts: add documents; read documents and tool outputs piece by piece."""

from local2.memory.service import MemoryService
from local2.protocol.memories import check_document_size
from local2.protocol.memory_tools import (
    ADD_DOCUMENT,
    READ_DOCUMENT,
    READ_TOOL_OUTPUT,
    AddDocument,
    DocumentPiece,
    OutputPiece,
    ReadDocument,
    ReadToolOutput,
)
from local2.protocol.tool import ToolOutput
from local2.tools.base import answers


@answers(ADD_DOCUMENT)
async def add_document(memory: MemoryService, args: AddDocument) -> ToolOutput:
    check_document_size(args.content)
    stored = await memory.documents.store(args)
    chunks = "1 chunk" if stored.chunks == 1 else f"{stored.chunks} chunks"
    return ToolOutput(
        content=f"Document stored in {chunks}: {stored.added} added, "
        f"{stored.replaced} replaced, {stored.unchanged} unchanged, {stored.removed} removed.",
        data=stored,
    )


@answers(READ_TOOL_OUTPUT)
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


@answers(READ_DOCUMENT)
async def read_document(memory: MemoryService, args: ReadDocument) -> ToolOutput:
    part = await memory.documents.read(args.source, args.offset, args.limit)
    until, total = args.offset + len(part.text), part.total
    more = until < total
    reads_on = f"; offset={until} reads on" if more else ""
    return ToolOutput(
        content=f"{part.text}\n[Characters {args.offset} to {until} of {total} of "
        f"{part.title}{reads_on}.]",
        data=DocumentPiece(
            source=args.source,
            title=part.title,
            offset=args.offset,
            total_chars=total,
            next_offset=until if more else None,
            content=part.text,
        ),
    )
