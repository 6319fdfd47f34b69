"""Which settings a ledger in PostgreSQL goes with, and which databases can hold one."""

from pathlib import Path

import msgspec
import psycopg
import pytest

from ledgers import open_ledger, record
from local2.content_key import ContentKey
from local2.errors import ConfigError, StorageError
from local2.ledger.engines import OF_ALL
from local2.ledger.engines.postgres import database, schema
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger
from local2.settings import MemorySettings
from postgres_server import EXTENSION, SORTED, PostgresServer
from stacks import settings_in

USAGE = "SELECT tenant, records, bytes FROM usage ORDER BY tenant"


@pytest.fixture
def settings(tmp_path: Path, url: str) -> MemorySettings:
    return settings_in(tmp_path, ledger=url).memory


async def test_a_memory_outlives_its_stack_and_leaves_no_file(settings: MemorySettings) -> None:
    async with open_ledger(settings, "default") as ledger:
        await ledger.records.store([record("Gold.", id="r1")])

    async with open_ledger(settings, "default") as ledger:
        assert list(await ledger.records.by_id(["r1"])) == ["r1"]
    assert not list(settings.data_dir.glob("*.sqlite3"))


async def test_a_start_adds_up_what_a_tenant_uses(url: str) -> None:
    async with Database.open(url) as database:
        for name in ("default", "other"):
            for number in range(3):
                await Ledger(database, name).records.store([record(f"Gold {number}.")])

    async with Database.open(url) as database:
        found = await database.read(lambda c: c.execute(USAGE, {}).fetchall(), owner=OF_ALL)

    assert [tuple(row) for row in found] == [("default", 3, 21), ("other", 3, 21)]


async def test_a_content_key_is_refused(settings: MemorySettings, tmp_path: Path) -> None:
    key = ContentKey.create(tmp_path / "content.key")

    with pytest.raises(ConfigError, match="encrypts SQLite's files"):
        async with open_ledger(settings, "default", key):
            pass


async def test_a_backup_folder_is_refused(settings: MemorySettings, tmp_path: Path) -> None:
    with_backups = msgspec.structs.replace(settings, backup_folder=tmp_path)

    with pytest.raises(ConfigError, match="backup_folder"):
        async with open_ledger(with_backups, "default"):
            pass


async def refusal(url: str) -> StorageError:
    with pytest.raises(StorageError) as refused:
        async with Database.open(url):
            pass
    assert refused.value.remedy
    return refused.value


@pytest.mark.parametrize(("number", "age"), [(999, "A newer"), (1, "An older")])
async def test_a_ledger_of_another_schema_is_refused(url: str, number: int, age: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE schema_number SET number = %s", (number,))

    refused = await refusal(url)

    assert f"has schema {number}" in refused.message
    assert str(refused.remedy).startswith(f"{age} local2 wrote it. Use that one")
    assert "local2 export" in str(refused.remedy)


async def test_an_old_server_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "OLDEST_SERVER", 99)

    assert "Use PostgreSQL 99 or newer" in str((await refusal(url)).remedy)


@pytest.mark.parametrize(
    ("options", "prepared", "error", "remedy"),
    [
        pytest.param(
            "LOCALE 'C' ENCODING 'LATIN1'",
            EXTENSION,
            "stores them in LATIN1",
            "ENCODING 'UTF8'",
            id="in another encoding",
        ),
        pytest.param(
            SORTED,
            (*EXTENSION, "UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'"),
            "has pgvector 0.6.2",
            "ALTER EXTENSION vector UPDATE",
            id="with an old pgvector",
        ),
        pytest.param(
            SORTED,
            EXTENSION[:-1],
            "permission denied for schema pgvector",
            "GRANT USAGE ON SCHEMA pgvector",
            id="without a right to pgvector",
        ),
        pytest.param(
            SORTED,
            (*EXTENSION, "REVOKE CREATE ON SCHEMA public FROM PUBLIC, pg_database_owner"),
            "permission denied for schema public",
            "own the database",
            id="without a right to create tables",
        ),
        pytest.param(
            SORTED,
            (*EXTENSION, "CREATE TABLE record (name text)"),
            'relation "record" already exists',
            "name another one in `ledger`",
            id="of another program",
        ),
    ],
)
async def test_a_database_that_cannot_hold_a_ledger_is_refused_with_a_remedy(
    postgres_databases: PostgresServer,
    options: str,
    prepared: tuple[str, ...],
    error: str,
    remedy: str,
) -> None:
    with postgres_databases.prepared_database(options, prepared) as url:
        refused = await refusal(url)

    assert error in refused.message
    assert remedy in str(refused.remedy)


async def test_a_database_that_cannot_be_reached_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    with pytest.raises(StorageError) as refused:
        async with Database.open("postgresql://nobody@127.0.0.1:1/nothing"):
            pass

    assert "Check that the server" in (refused.value.remedy or "")
