"""Split documents into chunks of Markdown or plain text, labelled with title and headings.

Both the splitter and the parser get a part of the text at a time. The splitter takes quadratic time
for a text without structure, and while the interpreter collects the parser's garbage, no other
thread runs.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin
from semantic_text_splitter import MarkdownSplitter

from local2.errors import InvalidArgumentsError, quoted
from local2.ledger.ledger import Ledger
from local2.ledger.operations.documents import SEPARATOR, DocumentPart
from local2.ledger.records import NewRecord, checked_text
from local2.memory.changes import Changes
from local2.memory.scopes import check_may_write, owner_of
from local2.protocol.documents import (
    CHUNK_CHARACTERS,
    ChunksPage,
    DocumentChunk,
    DocumentsPage,
    ListChunks,
    ListDocuments,
)
from local2.protocol.envelope import Caller, Clock, new_id
from local2.protocol.memory_tools import AddDocument, AddedDocument

MAX_LABEL = 200
"""Maximum characters of a chunk's label."""
CHUNK = (600, 900)
"""Target range of a chunk's characters: with its label, as much as its vector represents."""
MIN_CHUNK = 100
"""Minimum characters of a chunk. A shorter one is joined with the next of its section."""
MAX_SHORT_SECTIONS = 1_000
"""Number of sections after which those with less text than a chunk are joined with the next, so
that a document has a bounded number of chunks."""
SPLIT_CHARACTERS = 10_000
"""Number of characters that are split in one step."""
PART_ENDS = ("\n#", "\n\n", "\n", " ")
"""Where a part may end, in order of preference."""
PARSED_CHARACTERS = 20_000
"""Number of characters parsed in one step; doubled while they are a single leaf block."""
LEAF_TYPES = frozenset({"fence", "code_block", "html_block", "paragraph_open", "front_matter"})
"""Types of blocks that contain no other blocks."""


class Documents:
    """Reads and writes a tenant's documents for one caller."""

    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        *,
        caller: Caller,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._caller = caller
        self._clock = clock

    async def read(self, source: str, offset: int, limit: int) -> DocumentPart:
        """Up to `limit` characters of a document from `offset` on.

        Each chunk is a paragraph.

        Raises:
            InvalidArgumentsError: The document does not exist.
        """
        part = await self._ledger.documents.read(source, offset, limit)
        if part is None:
            raise InvalidArgumentsError(
                f"source: there is no document {quoted(source)}.",
                remedy="Copy the source from the source_ref of a recall result, without `#…`.",
            )
        return part

    async def listed(self, wanted: ListDocuments) -> DocumentsPage:
        """A page of the tenant's documents, which everybody may see."""
        found = await self._ledger.documents.listed(wanted.limit, wanted.after)
        return DocumentsPage(
            documents=found,
            next=found[-1].source if len(found) == wanted.limit else None,
        )

    async def chunks(self, wanted: ListChunks) -> ChunksPage:
        """A page of a document's chunks in their order; an empty one if it does not exist."""
        found = await self._ledger.documents.chunks(wanted.source, wanted.offset, wanted.limit)
        records, total = found
        return ChunksPage(
            chunks=[
                DocumentChunk(
                    id=record.id,
                    label=record.label,
                    content=record.content[:CHUNK_CHARACTERS],
                    event_time=record.event_time,
                )
                for record in records
            ],
            total=total,
        )

    async def store(self, document: AddDocument) -> AddedDocument:
        """Store a document for the whole tenant; a new one with the same source replaces it.

        Only chunks that differ from the stored ones are replaced.

        Raises:
            InvalidArgumentsError: The title, the source or the content is blank.
            ForbiddenError: The caller's role may not write to the scope `tenant`.
        """
        check_may_write("tenant", self._caller)
        source = document.source or document.title
        records = await asyncio.to_thread(_records, document, source, self._caller, self._clock())
        rewritten = await self._ledger.documents.store(source, records)
        self._changes.written(rewritten.written, records)
        last = msgspec.structs.replace(records[-1], id=rewritten.written[-1].id)
        for record_id in rewritten.surplus:
            self._changes.replaced(record_id, last)
        new = [written for written in rewritten.written if written.was_new]
        replaced = sum(written.superseded is not None for written in new)
        return AddedDocument(
            source=source,
            chunks=len(records),
            added=len(new) - replaced,
            replaced=replaced,
            unchanged=len(records) - len(new),
            removed=len(rewritten.surplus),
        )


def _records(document: AddDocument, source: str, caller: Caller, at: datetime) -> list[NewRecord]:
    """A record for each chunk, in order. The largest documents take seconds."""
    title = " ".join(checked_text(document.title, "title").split())
    text = checked_text(document.content, "content").replace("\r\n", "\n").replace("\r", "\n")
    checked_text(source, "source")
    labelled = (
        (section.label, content)
        for section in _sections(title, text)
        for content in chunks(section.text)
    )
    return [
        NewRecord(
            id=new_id(),
            kind="document_chunk",
            content=content,
            scope="tenant",
            label=label,
            source_ref=f"{source}#{number}",
            metadata={"title": title, "source": source},
            agent=caller.agent,
            stated_by=owner_of(caller),
            event_time=at,
        )
        for number, (label, content) in enumerate(labelled, start=1)
    ]


class _Section(NamedTuple):
    """A text with the headings above it, and the label that these give it."""

    label: str
    text: str


def _sections(title: str, text: str) -> Iterator[_Section]:
    """Yield the sections of a text. Headings without a text belong to the next section."""
    path: list[tuple[int, str]] = [(0, title)]
    label, start, body = title[:MAX_LABEL], 0, 0
    count = 0
    for heading in headings(text):
        least = 1 if count < MAX_SHORT_SECTIONS else MIN_CHUNK
        if len(text[body : heading.begin].strip()) >= least:
            yield _Section(label, text[start : heading.begin])
            start = heading.begin
            count += 1
        body = heading.end
        while path[-1][0] >= heading.level:
            path.pop()
        if heading.text and heading.text.casefold() != title.casefold():
            path.append((heading.level, heading.text[:MAX_LABEL]))
        label = SEPARATOR.join(name for _, name in path)[:MAX_LABEL]
    yield _Section(label, text[start:])


class Heading(NamedTuple):
    """A heading. `begin`, `end`: its position in the text, in characters."""

    level: int
    begin: int
    end: int
    text: str


class _Block(NamedTuple):
    """An outermost block. `is_leaf`: it contains no other blocks."""

    begin: int
    heading: Heading | None
    is_leaf: bool


def chunks(text: str) -> Iterator[str]:
    """Yield the chunks of a section."""
    splitter, begin, end, part = MarkdownSplitter(CHUNK), 0, 0, 0
    while part < len(text):
        until = part + SPLIT_CHARACTERS
        if until < len(text):
            found = (text.rfind(mark, part, until) + 1 for mark in PART_ENDS)
            until = next((cut for cut in found if cut > part), until)
        for start, content in splitter.chunk_indices(text[part:until]):
            begin = part + start if begin == end else begin
            end = part + start + len(content)
            if end - begin >= MIN_CHUNK:
                yield text[begin:end]
                begin = end
        part = until
    if begin < end:
        yield text[begin:end]


def headings(text: str) -> Iterator[Heading]:
    """Yield every heading outside quotes and lists.

    The last block of a part may continue in the next one, so it is parsed again with that.
    """
    begin, size = 0, PARSED_CHARACTERS
    while begin < len(text):
        end = text.find("\n", begin + size) + 1 or len(text)
        part = text[begin:end]
        parser = MarkdownIt().disable("inline")
        if begin == 0:
            parser.use(front_matter_plugin)
        begins = list(accumulate((len(line) + 1 for line in part.split("\n")), initial=begin))
        blocks: list[_Block] = []
        for token, inside in pairwise([*parser.parse(part), Token("", "", 0)]):
            if token.level == 0 and token.map:
                first, heading = begins[token.map[0]], None
                if token.type == "heading_open":
                    words = " ".join(inside.content.split())
                    heading = Heading(int(token.tag[1:]), first, begins[token.map[1]], words)
                blocks.append(_Block(first, heading, is_leaf=token.type in LEAF_TYPES))
        last = blocks[-1].begin if blocks else begin
        if end < len(text) and last == begin and blocks and blocks[-1].is_leaf:
            size *= 2
            continue
        until = last if begin < last and end < len(text) else end
        yield from (block.heading for block in blocks if block.heading and block.begin < until)
        begin, size = until, PARSED_CHARACTERS
