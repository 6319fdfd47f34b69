"""Whether the whole ledger is sound: its pages, its full text, and that no record is missing."""

from collections.abc import Iterator

from local.errors import StorageError
from local.ledger.sqlite.database import Connection, Database, damages
from local.ledger.sqlite.rows import SQL


async def unsound(database: Database) -> list[str]:
    """What is wrong with the ledger, all of which is read; nothing where it is whole."""
    found = await database.read(damages)
    try:
        await database.write(_check_full_text)
    except StorageError as error:
        found.append(f"The full-text index does not say what the records say: {error.message}")
    if not found:  # counting needs sound pages
        found += await database.read(lambda c: list(_missing(c)))
    return found


def _check_full_text(connection: Connection) -> None:
    connection.execute(SQL["check_full_text"])


def _missing(connection: Connection) -> Iterator[str]:
    row = connection.execute(SQL["count_rows"]).fetchone()
    if row["there"] != row["last"]:
        yield f"{row['last'] - row['there']} of {row['last']} records are missing."
