"""Records of any kind: stored, read by their rows and by what replaced them, and counted."""

import json
from collections.abc import Sequence
from functools import partial

from local.ledger.records import DERIVED_FROM, Counts, NewRecord, Record, Shown, Written
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.rows import RecordRows, TenantRows, record_of

TOGETHER = 1_000
"""Records of one transaction, where there are many; it takes about a fifth of a second."""


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

    def _store(self, records: Sequence[NewRecord], connection: SqlConnection) -> list[Written]:
        return [self._records.store(connection, record) for record in records]

    async def at(self, rows: Sequence[int]) -> list[Record]:
        """Those of these rows."""
        found = await self._rows.all("records", rows=json.dumps(rows))
        return [record_of(row) for row in found]

    async def chain(self, *record_ids: str) -> list[Record]:
        """Records with all that they replaced and all that replaced them, newest first."""
        rows = await self._rows.all("chain", ids=json.dumps(record_ids))
        return [record_of(row) for row in rows]

    async def shown(
        self, record_ids: Sequence[str], *, but_turn: str | None, characters: int
    ) -> list[Shown]:
        """How these begin, the records of their turns, and those that they were derived from."""
        rows = await self._rows.all(
            "shown",
            ids=json.dumps(record_ids),
            turn=but_turn,
            characters=characters,
            derived_from=DERIVED_FROM,
        )
        return [Shown(id=row["id"], content=row["content"]) for row in rows]

    async def counts(self) -> Counts:
        """How many there are, and how many of them the index has."""
        row = await self._rows.one("counts")
        assert row is not None  # noqa: S101 - a row of counts is always there
        return Counts(records=row["records"], indexed=row["indexed"], waiting=row["waiting"])
