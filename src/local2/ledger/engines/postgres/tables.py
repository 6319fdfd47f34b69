"""The tables of a database as a memory is moved: read and filled row by row, of all tenants.

Beside what SQLite stores, some columns repeat or convert others, and words are numbers: they are
made here.
"""

from collections.abc import Sequence
from typing import Any

from local2.ledger.engines import MOVED_ROWS, OF_ALL, Table, first_rows, names_of
from local2.ledger.engines.postgres.connections import BIND, PostgresConnection, escaped
from local2.ledger.operations.places import place_word
from local2.ledger.search import Place
from local2.ledger.stored_vectors import as_halves, unpacked

ROWS_HELD = 50
"""Number of rows that are fetched at a time, since one may have a megabyte."""
OF_RECORD = {"feature": ("tenant",), "vector": ("tenant", "place")}
"""Columns of a table that repeat those of the record to which a row belongs."""

_TABLES = """
SELECT pg_class.relname AS name,
       array_agg(attname::text ORDER BY attnum) AS columns,
       array_agg(attname::text ORDER BY array_position(indkey::int2[], attnum))
           FILTER (WHERE attnum = ANY (indkey)) AS key
FROM pg_class
JOIN pg_attribute
     ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
LEFT JOIN pg_index ON indrelid = pg_class.oid AND indisprimary
WHERE relnamespace = current_schema::regnamespace AND relkind = 'r'
GROUP BY pg_class.oid ORDER BY pg_class.oid
"""
"""The tables in the order in which they were created, without generated columns."""
_BEGIN = """
UPDATE schema_number SET number = -abs(number);
UPDATE erasure SET key = %(key)s;
-- Each row would write its record once more.
ALTER TABLE vector DISABLE TRIGGER vector_revised;
"""
_FINISH = """
-- Who made the vectors that searches compare: a file does not say so, its index does.
INSERT INTO embedder (tenant, slot, name)
SELECT DISTINCT ON (tenant) tenant, 'serving', embedder
FROM (SELECT tenant, embedder, count(*) AS vectors FROM vector GROUP BY tenant, embedder) AS made
ORDER BY tenant, vectors DESC, embedder;
ALTER TABLE vector ENABLE TRIGGER vector_revised;
UPDATE schema_number SET number = abs(number);
"""
_COUNTING = """
SELECT table_name AS table, column_name AS column FROM information_schema.columns
WHERE table_schema = current_schema AND is_identity = 'YES'
"""
"""The columns that number their rows."""
_WORDS = """
INSERT INTO record_words (record, words, active)
SELECT record.row, coalesce(words_in(record.place, moved.stems), '{}'), record.superseded_by IS NULL
FROM moved JOIN record ON record.row = moved.record
"""


class Tables:
    """All rows of a database."""

    def described(self, connection: PostgresConnection) -> list[Table]:
        return [
            Table(row["name"], tuple(row["columns"]), tuple(row["key"] or ()))
            for row in connection.execute(_TABLES, {})
        ]

    def is_unfinished(self, connection: PostgresConnection) -> bool:
        row = connection.execute("SELECT max(number) < 0 FROM schema_number", {}).fetchone()
        return bool(row and row[0])

    def begin(self, connection: PostgresConnection, tombstone_key: bytes) -> None:
        connection.execute(_BEGIN, {"key": tombstone_key})

    def finish(self, connection: PostgresConnection) -> None:
        connection.execute(_FINISH, {})
        for table, column in connection.execute(_COUNTING, {}).fetchall():
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), "  # noqa: S608 - names of ours
                f"(SELECT max({column}) FROM {table}))",
                {},
            )
        for table in self.described(connection):
            connection.execute(f"ANALYZE {table.name}", {})

    def page(
        self, connection: PostgresConnection, table: Table, after: Sequence[Any] | None
    ) -> list[tuple[Any, ...]]:
        key = names_of(table.key)
        behind = "" if after is None else f"WHERE ({key}) > ({', '.join(['%s'] * len(after))})"
        query = (
            f"SELECT {names_of(table.columns)} FROM {table.rows} {behind} "  # noqa: S608
            f"ORDER BY {key} LIMIT {MOVED_ROWS}"
        )
        with connection.raw.transaction():
            connection.raw.execute(BIND, {"tenant": OF_ALL})
            with connection.raw.cursor(name="moved") as rows:
                rows.itersize = ROWS_HELD
                rows.execute(query.encode(), [_stored(value) for value in after or ()])
                return first_rows(rows)

    def add(
        self, connection: PostgresConnection, table: Table, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        columns = table.columns
        if table.name == "record":
            tenant, *place = map(columns.index, ("tenant", "scope", "owner", "kind"))
            columns = (*columns, "place")
            rows = [
                (*row, place_word(row[tenant], Place(*(row[position] for position in place))))
                for row in rows
            ]
        if table.name == "vector":
            data = columns.index("data")
            columns = (*columns, "half")
            rows = [(*row, as_halves(unpacked(row[data]))) for row in rows]
        # COPY refuses tables with row-level security, hence another table between.
        names = names_of(columns)
        connection.execute(
            f"CREATE TEMP TABLE moved ON COMMIT DROP AS SELECT {names} FROM {table.name} LIMIT 0",  # noqa: S608
            {},
        )
        with connection.raw.cursor().copy(f"COPY moved ({names}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row([_stored(value) for value in row])
        of_record = OF_RECORD.get(table.name, ())
        values = [f'moved."{column}"' for column in columns]
        values += [f"record.{column}" for column in of_record]
        beside = "JOIN record ON record.row = moved.record" if of_record else ""
        connection.execute(
            f"INSERT INTO {table.name} ({names_of((*columns, *of_record))}) "  # noqa: S608
            f"OVERRIDING SYSTEM VALUE SELECT {', '.join(values)} FROM moved {beside}",
            {},
        )
        if table.name == "feature":
            connection.execute(_WORDS, {})


def _stored(value: Any) -> Any:
    return escaped(value) if value.__class__ is str else value
