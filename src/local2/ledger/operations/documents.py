"""Stores and reads documents, whose chunks are records."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from local2.ledger.engines import Row
from local2.ledger.operations.records import Cause, store_records, supersede
from local2.ledger.operations.transactions import (
    Part,
    Transaction,
    reads,
    records_at,
    writes,
)
from local2.ledger.records import NewRecord, Record, Written
from local2.protocol.documents import DocumentEntry

BETWEEN_CHUNKS = "\n\n"
"""What separates the chunks of a document that is read: each is a paragraph."""
SEPARATOR = " › "  # noqa: RUF001 - as between breadcrumbs
"""What separates the titles in a chunk's label; the document's is the first."""


class DocumentPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a document of `total` characters."""

    title: str
    total: int
    text: str


class Rewritten(msgspec.Struct, frozen=True, kw_only=True):
    """The results for each chunk of a document; `surplus` are the ids of retired extra chunks."""

    written: list[Written]
    surplus: list[str]


class LedgerDocuments(Part):
    """One tenant's documents."""

    @reads
    def read(self, tx: Transaction, source: str, offset: int, limit: int) -> DocumentPart | None:
        """Up to `limit` characters of a document from `offset` on; None if it is unknown."""
        chunks = self._active(tx, source)
        if not chunks:
            return None
        whole = BETWEEN_CHUNKS.join(row["content"] for row in chunks)
        text = whole[offset : offset + limit]
        return DocumentPart(title=_title_of(chunks[0]), total=len(whole), text=text)

    @reads
    def listed(self, tx: Transaction, limit: int, after: str | None) -> list[DocumentEntry]:
        """The documents after a source, in the order of their sources."""
        documents: list[DocumentEntry] = []
        last = "" if after is None else f"{after}#:"
        while len(documents) < limit:
            row = tx.execute("next_chunk", after=last).fetchone()
            if row is None:
                break
            source, _, _ = row["source_ref"].rpartition("#")
            first, last = f"{source}#1", f"{source}#:"  # digits stand before the colon
            counted = tx.execute("count_chunks", first=first, last=last).fetchone()
            documents.append(
                DocumentEntry(
                    source=source,
                    title=_title_of(row),
                    chunks=counted["chunks"],
                    newest=datetime.fromisoformat(counted["newest"]),
                )
            )
        return documents

    @reads
    def chunks(
        self, tx: Transaction, source: str, offset: int, limit: int
    ) -> tuple[list[Record], int]:
        """Some chunks of a document in their order, and how many it has."""
        every = [row["row"] for row in self._active(tx, source)]
        records = records_at(tx, every[offset : offset + limit])
        return list(records.values()), len(every)

    @writes
    def store(self, tx: Transaction, source: str, chunks: Sequence[NewRecord]) -> Rewritten:
        """Make these the active chunks of a document; their `source_ref`s are "source#number".

        A chunk that equals the present one of its number is not written again.
        """
        stored = self._active(tx, source)
        older = {row["source_ref"]: row for row in stored}
        written: list[Written] = []
        new: list[NewRecord] = []
        for chunk in chunks:
            former = older.pop(chunk.source_ref, None)
            if former is None:
                written.append(Written(id=chunk.id, was_new=True))
            elif (former["label"], former["content"]) == (chunk.label, chunk.content):
                written.append(Written(id=former["id"], was_new=False))
                continue
            else:
                supersede(tx, former["id"], Cause.of(chunk))
                written.append(Written(id=chunk.id, was_new=True, replaced=(former["id"],)))
            new.append(chunk)
        store_records(tx, new)
        cause = Cause(
            agent=chunks[-1].agent,
            superseded_by=written[-1].id,
            at=chunks[-1].event_time,
            reason="the document became shorter",
        )
        surplus = [row["id"] for row in older.values()]
        for record_id in surplus:
            supersede(tx, record_id, cause)
        return Rewritten(written=written, surplus=surplus)

    def _active(self, tx: Transaction, source: str) -> list[Row]:
        """The active chunks, in their order."""
        first, last = f"{source}#1", f"{source}#:"  # digits stand before the colon
        numbered = {
            int(number): row
            for row in tx.execute("active_chunks", first=first, last=last)
            if (number := row["source_ref"].removeprefix(f"{source}#")).isdecimal()
        }
        return [row for _, row in sorted(numbered.items())]


def _title_of(chunk: Row) -> str:
    """The document's title; its source, if the chunk was imported without a label."""
    label, source = chunk["label"], chunk["source_ref"].rpartition("#")[0]
    title: str = label.partition(SEPARATOR)[0] if label else source
    return title
