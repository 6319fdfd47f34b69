"""Documents to records: chunks of Markdown or plain text, each under its title and headings."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from local.ledger.door import Ledger
from local.ledger.records import NewRecord, checked_text
from local.memory.changes import Changes
from local.memory.markdown import chunks, headings
from local.protocol.envelope import new_id

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
        records = await asyncio.to_thread(_records, document, self._agent, self._clock())
        rewritten = await self._ledger.documents.store(document.source, records)
        await self._changes.written(rewritten.written, records)
        last = msgspec.structs.replace(records[-1], id=rewritten.written[-1].id)
        for record_id in rewritten.surplus:
            await self._changes.replaced(record_id, last)
        new = [one for one in rewritten.written if one.was_new]
        replaced = sum(one.superseded is not None for one in new)
        return Kept(
            chunks=len(records),
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
            label=outline[bisect_right(begins, begin) - 1][1],
            source_ref=f"{source}#{number}",
            metadata={"title": title, "source": source},
            agent=agent,
            event_time=at,
        )
        for number, (begin, content) in enumerate(chunks(text), start=1)
    ]


def _outline(title: str, text: str) -> Iterator[tuple[int, str]]:
    """Where each heading begins, and what is said under it is labelled with."""
    path: list[tuple[int, str]] = [(0, title)]
    yield 0, title[:LABEL]
    for level, begin, heading in headings(text):
        while path[-1][0] >= level:
            path.pop()
        if heading and heading.casefold() != title.casefold():
            path.append((level, heading[:LABEL]))
        yield begin, SEPARATOR.join(name for _, name in path)[:LABEL]
