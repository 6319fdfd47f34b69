"""One tenant's rows: named statements with the tenant bound to each, here and nowhere else."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from local.ledger.records import Record
from local.ledger.sqlite.database import Connection, Cursor, Database, Row, Work
from local.ledger.sqlite.sql import statements

SQL = statements()
T = TypeVar("T")
Parameters = dict[str, Any]


class TenantRows:
    """Reads and writes of one tenant. A write returns once it is on disk."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self.tenant = tenant

    async def all(self, statement: str, **values: Any) -> list[Row]:
        """Every row of a named statement."""
        return await self.read(lambda c: self.execute(c, statement, **values).fetchall())

    async def one(self, statement: str, **values: Any) -> Row | None:
        """The first row, or None."""
        row: Row | None = await self.read(lambda c: self.execute(c, statement, **values).fetchone())
        return row

    async def change(self, statement: str, **values: Any) -> int:
        """Execute a named statement in a transaction; returns how many rows it changed."""
        return await self.write(lambda c: self.execute(c, statement, **values).rowcount)

    async def change_each(self, statement: str, many: Iterable[Parameters]) -> None:
        """Execute a named statement once for each set of values, in one transaction."""
        bound = [self._bound(values) for values in many]
        await self.write(lambda c: c.executemany(SQL[statement], bound).rowcount)

    async def read(self, work: Work[T]) -> T:
        """Run several statements on the reader's connection."""
        return await self._database.read(work)

    async def write(self, work: Work[T]) -> T:
        """Run several statements in one transaction."""
        return await self._database.write(work)

    def execute(self, connection: Connection, statement: str, **values: Any) -> Cursor:
        """Execute a named statement inside `read` or `write`."""
        return connection.execute(SQL[statement], self._bound(values))

    def _bound(self, values: Parameters) -> Parameters:
        return {**values, "tenant": self.tenant}


def record_of(row: Row) -> Record:
    """The record that a row of every column is."""
    columns = {name: row[name] for name in Record.__struct_fields__ if name != "features"}
    columns["event_time"] = datetime.fromisoformat(row["event_time"])
    columns["metadata"] = msgspec.json.decode(row["metadata"])
    columns["unjudged"] = bool(row["unjudged"])
    columns["pending"] = None if row["pending"] is None else bool(row["pending"])
    return Record(**columns)
