"""Documents in the ledger: the chunks that stand of each."""

from collections.abc import Sequence

from local.ledger.records import NewRecord, Rewritten, Written
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows


class Documents:
    """One tenant's documents."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    async def read(self, source: str) -> list[tuple[str, str]]:
        """The label and the content of each active chunk of a document, in their order."""
        return await self._rows.read(lambda c: self._read(c, source))

    async def store(self, source: str, chunks: Sequence[NewRecord]) -> Rewritten:
        """Make these the active chunks of a document, whose `source_ref`s are "source#number".

        A chunk that is there already, in the same place, stays as it is.
        """
        return await self._rows.write(lambda c: self._store(c, source, chunks))

    def _active(self, connection: SqlConnection, source: str) -> dict[int, Row]:
        """The active chunks by their numbers."""
        first, last = f"{source}#1", f"{source}#:"
        return {
            int(number): row
            for row in self._rows.execute(connection, "active_chunks", first=first, last=last)
            if (number := row["source_ref"].removeprefix(f"{source}#")).isdecimal()
        }

    def _read(self, connection: SqlConnection, source: str) -> list[tuple[str, str]]:
        chunks = sorted(self._active(connection, source).items())
        return [(row["label"], row["content"]) for _, row in chunks]

    def _store(
        self, connection: SqlConnection, source: str, chunks: Sequence[NewRecord]
    ) -> Rewritten:
        older = {row["source_ref"]: row for row in self._active(connection, source).values()}
        written = [
            self._store_chunk(connection, chunk, older.pop(chunk.source_ref, None))
            for chunk in chunks
        ]
        cause = Cause(
            agent=chunks[-1].agent,
            superseded_by=written[-1].id,
            at=chunks[-1].event_time,
            reason="the document became shorter",
        )
        surplus = [row["id"] for row in older.values()]
        for record_id in surplus:
            self._records.supersede(connection, record_id, cause)
        return Rewritten(written=written, surplus=surplus)

    def _store_chunk(
        self, connection: SqlConnection, chunk: NewRecord, older: Row | None
    ) -> Written:
        if older is None:
            return self._records.store(connection, chunk)
        if (older["label"], older["content"]) == (chunk.label, chunk.content):
            return Written(id=older["id"], was_new=False)
        self._records.supersede(connection, older["id"], Cause.of(chunk))
        self._records.store(connection, chunk)
        return Written(id=chunk.id, was_new=True, replaced=(older["id"],))
