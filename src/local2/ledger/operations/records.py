"""Stores and reads records of any kind."""

from collections.abc import Sequence
from itertools import islice

from local2.ledger.operations.places import users_of_places
from local2.ledger.operations.record_rows import store_records
from local2.ledger.operations.rows import Part, Transaction, as_json, reads, record_of
from local2.ledger.records import DERIVED_FROM, NewRecord, Record, Shown, Usage, Written

RECORDS_PER_TRANSACTION = 1_000
"""Maximum number of records in one transaction; so many take about a fifth of a second."""


class Records(Part):
    """One tenant's records."""

    async def store(self, records: Sequence[NewRecord]) -> list[Written]:
        """Add records; records whose ids exist already stay as they are.

        Many records take several transactions, so that other writes do not wait long.
        """
        written: list[Written] = []
        for start in range(0, len(records), RECORDS_PER_TRANSACTION):
            part = records[start : start + RECORDS_PER_TRANSACTION]
            written += await self._rows.resting_on(()).write(store_records, part)
        return written

    async def at(self, rows: Sequence[int]) -> list[Record]:
        """The records in these rows."""
        found = await self._rows.all("records", rows=as_json(rows))
        return [record_of(row) for row in found]

    @reads
    def by_id(self, tx: Transaction, ids: Sequence[str]) -> dict[str, Record]:
        """The records with these ids, active or not, by id."""
        rows = (tx.execute("record_by_id", id=id_).fetchone() for id_ in ids)
        return {row["id"]: record_of(row) for row in rows if row is not None}

    async def chain(self, *record_ids: str) -> list[Record]:
        """All versions of these records, the newest first."""
        rows = await self._rows.all("chain", ids=as_json(record_ids))
        return [record_of(row) for row in rows]

    @reads
    def users(self, tx: Transaction, limit: int) -> list[str]:
        """Up to about `limit` users with personal memories; "" stands for no user."""

        def next_place(after: str, until: str) -> str | None:
            asked = {"after": after, "until": until}
            row = tx.execute("next_place", **asked).fetchone()
            return row["place"] if row else None

        users = users_of_places(tx.tenant, next_place)
        return list(dict.fromkeys(islice(users, limit)))

    async def shown(
        self, record_ids: Sequence[str], *, excluded_turn: str | None, characters: int
    ) -> list[Shown]:
        """The beginnings of these records, of those in their turns, and of their sources.

        `excluded_turn` is a turn whose records are left out.
        """
        rows = await self._rows.all(
            "shown",
            ids=as_json(record_ids),
            turn=excluded_turn,
            characters=characters,
            derived_from=DERIVED_FROM,
        )
        return [Shown(id=row["id"], content=row["content"]) for row in rows]

    async def usage(self) -> Usage:
        """How much the tenant stores, without counting it."""
        row = await self._rows.one("used")
        return Usage(records=row["records"] if row else 0, bytes=row["bytes"] if row else 0)
