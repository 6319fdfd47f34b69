"""Creates the tables of a new database, and refuses a database with other tables."""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from local2.errors import StorageError
from local2.ledger.engines import unfinished_error
from local2.ledger.sql import schema, statements

EXPORT_AND_IMPORT = (
    "Use that one, or start this one with an empty memory elsewhere: `local2 --home DIR up`. The "
    "memories come along with `local2 export FILE` of that one and `local2 --home DIR import FILE`."
)


class Schema(NamedTuple):
    """The statements that create a database's tables, and the number of this state of them.

    `unfinished`: whether a memory may still be being moved into the database, whose number is
    negative then.
    """

    number: int
    script: str
    unfinished: bool = False

    def ensure(self, connection: sqlite3.Connection, path: Path) -> None:
        """Create the tables, all or none, unless the database has them.

        Raises:
            StorageError: The database has the tables of another schema, or only a part of a memory.
        """
        found = schema_number(connection)
        if found == -self.number and self.unfinished:
            return
        if found:
            self.refuse_another(path, found)
        else:
            connection.executescript(
                f"BEGIN; {self.script}\nPRAGMA user_version = {self.number}; COMMIT;"
            )

    def refuse_another(self, path: Path, found: int, remedy: str = EXPORT_AND_IMPORT) -> None:
        """Refuse a database whose schema has another number, a later or an earlier one.

        Raises:
            StorageError: It has, or a memory is being moved into it.
        """
        if found == -self.number:
            raise unfinished_error(str(path))
        if found != self.number:
            age = "An older" if found < self.number else "A newer"
            raise StorageError(
                f"{path} has schema {found}, and this local2 has schema {self.number}.",
                remedy=f"{age} local2 wrote it. {remedy}",
            )


SCHEMA = Schema(*schema(__package__))
"""The tables of a ledger; those with another number are refused."""
STATEMENTS = statements() | statements(__package__)


def schema_number(connection: sqlite3.Connection) -> int:
    """The number of the schema that created the database; 0 if none did."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)
