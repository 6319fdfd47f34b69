"""The tables of a SQLite file as a memory is moved: read and filled row by row, of all tenants."""

from collections.abc import Sequence
from typing import Any

from local2.ledger.engines import MOVED_ROWS, NOBODY, Table, first_rows, names_of
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.schema import SCHEMA, schema_number

_TABLES = """
SELECT created.name FROM sqlite_schema AS created
JOIN pragma_table_list AS listed ON listed.name = created.name AND listed.schema = 'main'
WHERE listed.type = 'table' AND created.name NOT LIKE 'sqlite_%'
ORDER BY created.rowid
"""
"""The tables, without those of the full-text index, which triggers fill."""
_COLUMNS = "SELECT name, pk FROM pragma_table_xinfo(:table) WHERE hidden = 0 ORDER BY cid"
"""The columns of a table, without the generated ones."""

_FILL_GAPS = """
INSERT INTO record (row, tenant, id, kind, owner, content, event_time, superseded_by, retired_at,
                    retired_why)
WITH RECURSIVE number (row) AS (
    SELECT 1 UNION ALL SELECT row + 1 FROM number WHERE row < (SELECT max(row) FROM record))
SELECT row, :nobody, 'skipped-' || row, 'note', '', '', :at, '', :at, 'erased' FROM number
WHERE NOT EXISTS (SELECT 1 FROM record WHERE record.row = number.row)
"""
"""Adds what is left of an erased record for each number that no record has: PostgreSQL skips some,
and a file in which numbers are missing is taken for a damaged one."""
_LONG_AGO = "1970-01-01T00:00:00.000+00:00"


class Tables:
    """All rows of a file, with which triggers fill the full-text index and the usage."""

    def described(self, connection: SqlConnection) -> list[Table]:
        found = []
        for (name,) in connection.execute(_TABLES).fetchall():
            columns = connection.execute(_COLUMNS, {"table": name}).fetchall()
            in_key = sorted((row["pk"], row["name"]) for row in columns if row["pk"])
            key = tuple(column for _, column in in_key)
            found.append(Table(name, tuple(row["name"] for row in columns), key))
        return found

    def is_unfinished(self, connection: SqlConnection) -> bool:
        return schema_number(connection) < 0

    def begin(self, connection: SqlConnection, tombstone_key: bytes) -> None:
        connection.execute(f"PRAGMA user_version = {-SCHEMA.number}")
        connection.execute("UPDATE erasure SET key = :key", {"key": tombstone_key})

    def finish(self, connection: SqlConnection) -> None:
        if connection.execute("SELECT EXISTS (SELECT 1 FROM record)").fetchone()[0]:
            connection.execute(_FILL_GAPS, {"nobody": NOBODY, "at": _LONG_AGO})
        connection.execute(f"PRAGMA user_version = {SCHEMA.number}")

    def page(
        self, connection: SqlConnection, table: Table, after: Sequence[Any] | None
    ) -> list[tuple[Any, ...]]:
        key = names_of(table.key)
        behind = "" if after is None else f"WHERE ({key}) > ({', '.join('?' * len(after))})"
        rows = connection.execute(
            f"SELECT {names_of(table.columns)} FROM {table.rows} {behind} "  # noqa: S608 - names of ours
            f"ORDER BY {key} LIMIT {MOVED_ROWS}",
            after or (),
        )
        return first_rows(rows)

    def add(self, connection: SqlConnection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = names_of(table.columns)
        values = ", ".join("?" * len(table.columns))
        # Inserted by one statement: before each that inserts records, FTS5 writes what it has.
        connection.execute(
            f"CREATE TEMP TABLE moved AS SELECT {columns} FROM {table.name} LIMIT 0"  # noqa: S608
        )
        connection.executemany(f"INSERT INTO temp.moved VALUES ({values})", rows)  # noqa: S608
        connection.execute(
            f"INSERT INTO {table.name} ({columns}) SELECT * FROM temp.moved ORDER BY rowid"  # noqa: S608
        )
        connection.execute("DROP TABLE temp.moved")
