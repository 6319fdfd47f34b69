"""Documents to records: chunks of Markdown or plain text, each under its title and headings."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import accumulate, pairwise

import msgspec
from markdown_it import MarkdownIt
from mdit_py_plugins.front_matter import front_matter_plugin
from semantic_text_splitter import MarkdownSplitter

from local.memory.changes import Changes
from local.memory.ledger import Ledger
from local.memory.records import NewRecord, checked_text
from local.protocol.envelope import new_id

CHUNK = (600, 900)
"""Characters of one chunk where its text allows: with its label as many as its vector reads."""
SHORT = 100
"""Fewer are a heading or the like, and go with the chunk after them."""
LABEL = 200
SEPARATOR = " › "  # noqa: RUF001 - as between breadcrumbs


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A text for everybody in the tenant; another one of the same `source` replaces it."""

    title: str
    source: str
    content: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document, in chunks; `removed` are those beyond its new end."""

    chunks: int
    added: int
    replaced: int
    removed: int

    @property
    def unchanged(self) -> int:
        return self.chunks - self.added - self.replaced


class Documents:
    """The documents of a tenant, as one agent writes them."""

    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        *,
        agent: str | None,
        clock: Callable[[], datetime],
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._agent = agent
        self._clock = clock

    async def put(self, document: Document) -> Kept:
        """Keep the document; of what stood under its source the chunks that differ are replaced.

        Raises:
            InvalidArgumentsError: Its title, its source or its content is blank.
        """
        chunks = await asyncio.to_thread(_records, document, self._agent, self._clock())
        rewritten = await self._ledger.put_document(document.source, chunks)
        await self._changes.written(rewritten.written, chunks)
        last = msgspec.structs.replace(chunks[-1], id=rewritten.written[-1].id)
        for record_id in rewritten.surplus:
            await self._changes.replaced(record_id, last)
        new = [one for one in rewritten.written if one.was_new]
        replaced = sum(one.superseded is not None for one in new)
        return Kept(
            chunks=len(chunks),
            added=len(new) - replaced,
            replaced=replaced,
            removed=len(rewritten.surplus),
        )


def _records(document: Document, agent: str | None, at: datetime) -> list[NewRecord]:
    """A record a chunk, in their order. The largest documents take seconds."""
    title = " ".join(checked_text(document.title, "title").split())
    text = checked_text(document.content, "content").replace("\r\n", "\n").replace("\r", "\n")
    source = checked_text(document.source, "source")
    outline = list(_outline(title, text))
    begins = [begin for begin, _ in outline]
    return [
        NewRecord(
            id=new_id(),
            kind="document_chunk",
            content=content,
            scope="tenant",
            label=outline[bisect_right(begins, begin) - 1][1][:LABEL],
            source_ref=f"{source}#{number}",
            metadata={"title": title, "source": source},
            agent=agent,
            event_time=at,
        )
        for number, (begin, content) in enumerate(_chunks(text), start=1)
    ]


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """Where each chunk begins, and what it says."""
    begin = end = 0
    for start, content in MarkdownSplitter(CHUNK).chunk_indices(text):
        begin = start if begin == end else begin
        end = start + len(content)
        if end - begin >= SHORT:
            yield begin, text[begin:end]
            begin = end
    if begin < end:
        yield begin, text[begin:end]


def _outline(title: str, text: str) -> Iterator[tuple[int, str]]:
    """Where each heading begins, and what is said under it is labelled with."""
    begins = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    path: list[tuple[int, str]] = [(0, title)]
    yield 0, title
    for level, line, heading in _headings(text):
        while path[-1][0] >= level:
            path.pop()
        if heading and heading.casefold() != title.casefold():
            path.append((level, heading))
        yield begins[line], SEPARATOR.join(name for _, name in path)


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Level, line and text of every heading that stands in no quote or list."""
    tokens = MarkdownIt().use(front_matter_plugin).disable("inline").parse(text)
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield int(token.tag[1:]), token.map[0], " ".join(inline.content.split())
