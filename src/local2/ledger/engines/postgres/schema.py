"""Creates the tables of a new ledger, and refuses a database with other tables."""

from typing import Any

import psycopg

from local2.errors import StorageError
from local2.ledger.engines import unfinished_error
from local2.ledger.engines.postgres.connections import PostgresConnection
from local2.ledger.sql import schema

_NUMBER, _SCRIPT = schema(__package__)
_BY_CODE_POINT = {"C", "POSIX", "C.UTF-8", "C.utf8"}
"""Names of the order of texts that statements with ranges of texts need."""
VECTORS = "pgvector"
"""The schema of the types of vectors, which statements name."""
OLDEST_SERVER, OLDEST_VECTORS = 16, (0, 7)
"""The first version of PostgreSQL, and of pgvector, with all that statements need."""
ENCODING = "UTF8"
_ADD_VECTORS = (
    "CREATE SCHEMA IF NOT EXISTS pgvector; CREATE EXTENSION IF NOT EXISTS vector SCHEMA pgvector"
)
_FOUND_VECTORS = (
    "SELECT extnamespace::regnamespace::text, extversion FROM pg_extension WHERE extname = 'vector'"
)
_PREPARE = """
SELECT pg_advisory_xact_lock(hashtextextended('local2 schema', 0));
CREATE TABLE IF NOT EXISTS schema_number (number bigint NOT NULL);
"""


def ensure_schema(connection: PostgresConnection, *, unfinished: bool = False) -> None:
    """Create the tables, all or none, unless the database has them.

    The number of the schema is negative while a memory is being moved into the database.

    Args:
        connection: To the database.
        unfinished: Whether it may be one that a memory is being moved into.

    Raises:
        StorageError: The database has the tables of another schema, or only a part of a memory, or
            it cannot hold a ledger.
    """
    raw = connection.raw
    with raw.transaction():
        _refuse_unusable(connection)
        raw.execute(_PREPARE)
        found = _first(connection, "SELECT max(number) FROM schema_number")
        if found is None:
            _add_vectors(connection)
            raw.execute(_SCRIPT.encode())
            raw.execute("INSERT INTO schema_number VALUES (%(number)s)", {"number": _NUMBER})
        elif found == -_NUMBER:
            if not unfinished:
                raise unfinished_error("The database of the ledger")
        elif found != _NUMBER:
            age = "An older" if found < _NUMBER else "A newer"
            raise StorageError(
                f"The ledger has schema {found}, and this local2 has schema {_NUMBER}.",
                remedy=f"{age} local2 wrote it. Use that one, or name a new database in `ledger`. "
                "The memories come along with `local2 export FILE` of that one and `local2 import "
                "FILE`.",
            )


def bypasses_policies(connection: PostgresConnection) -> bool:
    """Whether row-level security does not hold for the user."""
    return bool(
        _first(
            connection,
            "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user",
        )
    )


def _refuse_unusable(connection: PostgresConnection) -> None:
    """Refuse a server that is too old, and a database that sorts or stores texts otherwise."""
    version = connection.raw.info.server_version // 10_000
    if version < OLDEST_SERVER:
        raise StorageError(
            f"The server of the ledger is PostgreSQL {version}.",
            remedy=f"Use PostgreSQL {OLDEST_SERVER} or newer.",
        )
    order = _first(
        connection, "SELECT datcollate FROM pg_database WHERE datname = current_database()"
    )
    encoding = _first(connection, "SHOW server_encoding")
    if order not in _BY_CODE_POINT or encoding != ENCODING:
        raise StorageError(
            f"The database of the ledger sorts texts as in {order}, and stores them in {encoding}.",
            remedy="Create it with CREATE DATABASE local2 TEMPLATE template0 LOCALE 'C' "
            f"ENCODING '{ENCODING}'.",
        )


def _add_vectors(connection: PostgresConnection) -> None:
    """Add the types and indexes of vectors (pgvector), in a schema of their own.

    Among the tables, the type `vector` would have the name of one of them.

    Raises:
        StorageError: The server lacks them, or the user may not add them.
    """
    try:
        connection.raw.execute(_ADD_VECTORS)
        found = connection.execute(_FOUND_VECTORS, {}).fetchone()
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege):
        found = None
    if found is None or found[0] != VECTORS:
        raise StorageError(
            f"The database of the ledger lacks the extension `vector` in a schema {VECTORS}.",
            remedy=f"Install pgvector 0.7 or newer on its server, and execute {_ADD_VECTORS} in "
            "the database, as an administrator. If the extension is there already: ALTER "
            f"EXTENSION vector SET SCHEMA {VECTORS}.",
        )
    if tuple(map(int, found[1].split("."))) < OLDEST_VECTORS:
        raise StorageError(
            f"The database of the ledger has pgvector {found[1]}.",
            remedy="Install 0.7 or newer on its server, and execute ALTER EXTENSION vector UPDATE "
            "in the database, as an administrator.",
        )


def _first(connection: PostgresConnection, query: str) -> Any:
    row = connection.execute(query, {}).fetchone()
    return row[0] if row is not None else None
