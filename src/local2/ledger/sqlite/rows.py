"""Executes named statements, and converts rows to records.

The tenant is bound to each statement, here and nowhere else.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from local2.errors import QuotaError
from local2.ledger.records import UNLIMITED, Quota, Record
from local2.ledger.sqlite.database import Cursor, Database, Row, SqlConnection, Work
from local2.ledger.sqlite.sql import statements

SQL = statements()
COLUMNS = tuple(name for name in Record.__struct_fields__ if name not in {"features", "tasks"})
T = TypeVar("T")
_STRINGS = msgspec.json.Decoder(tuple[str, ...])
Parameters = dict[str, Any]


class TenantRows:
    """Reads and writes of one tenant. A write returns once it is on disk."""

    def __init__(self, database: Database, tenant: str, quota: Quota = UNLIMITED) -> None:
        self._database = database
        self._quota = quota
        self.tenant = tenant

    async def all(self, statement: str, **values: Any) -> list[Row]:
        """Return every row of a named statement."""
        return await self.read(lambda c: self.execute(c, statement, **values).fetchall())

    async def one(self, statement: str, **values: Any) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = await self.read(lambda c: self.execute(c, statement, **values).fetchone())
        return row

    async def change(self, statement: str, **values: Any) -> int:
        """Execute a named statement in a transaction; return the number of rows it changed."""
        return await self.write(lambda c: self.execute(c, statement, **values).rowcount)

    async def change_each(self, statement: str, many: Iterable[Parameters]) -> None:
        """Execute a named statement once for each set of values, in one transaction."""
        await self.write(lambda c: self.execute_each(c, statement, many))

    async def read(self, work: Work[T]) -> T:
        """Run several statements on the reader's connection."""
        return await self._database.read(work, owner=self.tenant)

    async def write(self, work: Work[T]) -> T:
        """Run several statements in one transaction."""
        return await self._database.write(work, owner=self.tenant)

    def execute(self, connection: SqlConnection, statement: str, **values: Any) -> Cursor:
        """Execute a named statement inside `read` or `write`."""
        return connection.execute(SQL[statement], self._bound(values))

    def execute_each(
        self, connection: SqlConnection, statement: str, many: Iterable[Parameters]
    ) -> None:
        """Execute a named statement once for each set of values inside `write`."""
        connection.executemany(SQL[statement], map(self._bound, many))

    def refuse_excess(self, connection: SqlConnection) -> None:
        """Check the quota; called inside `write` after each addition.

        Raises:
            QuotaError: The tenant exceeds its quota; the transaction is rolled back.
        """
        quota = self._quota
        if quota == UNLIMITED:
            return
        used = self.execute(connection, "used").fetchone()
        for name, limit in (("records", quota.records), ("bytes", quota.bytes)):
            if limit and used is not None and used[name] > limit:
                raise QuotaError(
                    f"The tenant {self.tenant} may store {limit:,} {name}, and no more fit.",
                    remedy="Forget what is not needed, or raise "
                    f"tenant_{name} in config/limits.yaml.",
                )

    def _bound(self, values: Parameters) -> Parameters:
        return {**values, "tenant": self.tenant}


def record_of(row: Row) -> Record:
    """Convert a row that has all columns to a record."""
    every = dict(zip(row.keys(), row, strict=True))  # a row would look up each name in turn
    columns = {name: every[name] for name in COLUMNS}
    columns["event_time"] = datetime.fromisoformat(columns["event_time"])
    columns["metadata"] = msgspec.json.decode(columns["metadata"])
    columns["pending"] = None if columns["pending"] is None else bool(columns["pending"])
    for name in ("keywords", "queries"):
        columns[name] = _STRINGS.decode(columns[name])
    for name in ("retired_at", "stored_at"):
        columns[name] = datetime.fromisoformat(columns[name]) if columns[name] else None
    return Record(**columns)


def as_json(value: Any) -> str:
    """Return a value as JSON, for statements that take a list or store JSON."""
    return msgspec.json.encode(value).decode()
