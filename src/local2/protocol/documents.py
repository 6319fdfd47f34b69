"""Documents on the wire: what was stored for everybody, and the chunks that searches find."""

from datetime import datetime
from typing import Annotated

import msgspec

from local2.protocol.payloads import ServiceRequest

MAX_DOCUMENTS = 100
"""Maximum number of documents, or of chunks, on a page."""
CHUNK_CHARACTERS = 2_000
"""Maximum characters of a chunk on a page."""

Source = Annotated[str, msgspec.Meta(min_length=1)]


class ListDocuments(ServiceRequest, frozen=True, kw_only=True):
    """`memory.documents`: all documents, by their sources. `after`: `next` of the page before."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_DOCUMENTS)] = 50
    after: Source | None = None


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A document: how many chunks it has, and when the newest of them was stored."""

    source: str
    title: str
    chunks: int
    newest: datetime


class DocumentsPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of documents; `next` continues it."""

    documents: list[DocumentEntry]
    next: str | None = None


class ListChunks(ServiceRequest, frozen=True, kw_only=True):
    """`memory.documents.chunks`: the chunks of one document in their order, from `offset` on."""

    source: Source
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_DOCUMENTS)] = 50


class DocumentChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chunk; `label` is the title with the headings above it."""

    id: str
    label: str | None
    content: str
    event_time: datetime


class ChunksPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some chunks of a document that has `total` of them."""

    chunks: list[DocumentChunk]
    total: int
