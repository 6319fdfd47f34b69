"""What the ledger's SQLite file contains, for tests of how it was stored."""

from typing import Any

from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.database import Database


async def select(database: Database, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    def read(connection: SqlConnection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(statement, parameters)]

    return await database.read(read)


async def change(database: Database, statement: str, *parameters: object) -> None:
    """Write what no operation of the ledger writes."""
    await database.write(lambda connection: connection.execute(statement, parameters).rowcount)


async def records(database: Database) -> list[dict[str, Any]]:
    """Return every column of every record, in the order in which they were stored."""

    def read(connection: SqlConnection) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute("SELECT * FROM record ORDER BY row")]

    return await database.read(read)


async def relations(database: Database) -> list[tuple[str, str, str]]:
    """Return the source, type and target of every relation."""
    found = await select(database, "SELECT source, type, target FROM relation")
    return [(source, type_, target) for source, type_, target in found]


async def linked_contents(database: Database) -> list[tuple[str, str]]:
    """Return the contents of records that name the same entity, the newer one first."""
    found = await select(
        database,
        "SELECT newer.content, older.content FROM relation "
        "JOIN record AS newer ON newer.id = source JOIN record AS older ON older.id = target "
        "WHERE type = 'shares_entity' ORDER BY newer.row, older.row",
    )
    return [(newer, older) for newer, older in found]
