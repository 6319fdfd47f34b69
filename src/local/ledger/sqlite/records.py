"""Records of any kind."""

from collections.abc import Sequence
from functools import partial

import msgspec

from local.ledger.records import DERIVED_FROM, Counts, NewRecord, Record, Shown, Written
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.record_rows import TOGETHER, RecordRows
from local.ledger.sqlite.rows import TenantRows, record_of


class Records:
    """One tenant's records."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    async def store(self, records: Sequence[NewRecord]) -> list[Written]:
        """Add records; those whose ids are there already stay as they are.

        Many take several transactions, so that nobody's write waits long behind them.
        """
        written: list[Written] = []
        for start in range(0, len(records), TOGETHER):
            part = records[start : start + TOGETHER]
            written += await self._rows.write(partial(self._store, part))
        return written

    def _store(self, records: Sequence[NewRecord], connection: Connection) -> list[Written]:
        return [self._records.store(connection, record) for record in records]

    async def chain(self, *record_ids: str) -> list[Record]:
        """Records with all that they replaced and all that replaced them, newest first."""
        rows = await self._rows.all("chain", ids=msgspec.json.encode(record_ids).decode())
        return [record_of(row) for row in rows]

    async def shown(
        self, record_ids: Sequence[str], *, but_turn: str | None, characters: int
    ) -> list[Shown]:
        """How these begin, the records of their turns, and those that they were derived from."""
        rows = await self._rows.all(
            "shown",
            ids=msgspec.json.encode(record_ids).decode(),
            turn=but_turn,
            characters=characters,
            derived_from=DERIVED_FROM,
        )
        return [Shown(id=row["id"], content=row["content"]) for row in rows]

    async def counts(self) -> Counts:
        """How many there are, and how many of them the index has."""
        row = await self._rows.one("counts")
        assert row is not None  # noqa: S101 - a row of counts is always there
        records, waiting, out = row["records"], row["waiting"], row["out"]
        return Counts(records=records, waiting=waiting, indexed=records - waiting - out)
