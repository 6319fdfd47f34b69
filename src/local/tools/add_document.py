"""Tool `add_document`: a text for everybody in the tenant, found by its chunks."""

from typing import Annotated

import msgspec

from local.memory.intake.documents import Document
from local.memory.service import MemoryService
from local.protocol.memories import MAX_TITLE, AddedDocument, check_size
from local.protocol.tool import ToolOutput
from local.tools.base import WRITES, Args, MemoryTool

DESCRIPTION = (
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
    kept = await memory.documents.store(
        Document(title=args.title, source=source, content=args.content)
    )
    return ToolOutput(
        content=f"Document kept in {_chunks(kept.chunks)}: {kept.added} new, {kept.replaced} "
        f"replaced, {kept.unchanged} unchanged, {kept.removed} removed.",
        data=AddedDocument(
            source=source,
            chunks=kept.chunks,
            added=kept.added,
            replaced=kept.replaced,
            unchanged=kept.unchanged,
            removed=kept.removed,
        ),
    )


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


TOOL = MemoryTool(
    name="add_document",
    title="Add a document",
    description=DESCRIPTION,
    annotations=WRITES,
    args=AddDocument,
    function=add_document,
    for_models=False,
    operation="upsert_memory",
)
