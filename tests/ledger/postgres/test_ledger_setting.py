"""Which settings a ledger in PostgreSQL goes with, and which databases can hold one."""

from pathlib import Path

import msgspec
import psycopg
import pytest

from ledgers import open_ledger, record
from local2.content_key import ContentKey
from local2.errors import ConfigError, StorageError
from local2.ledger.engines import OF_ALL
from local2.ledger.engines.postgres import database
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger
from local2.settings import MemorySettings
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


async def test_a_ledger_of_another_schema_is_refused(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE schema_number SET number = 999")

    with pytest.raises(StorageError, match="has schema 999"):
        async with Database.open(url):
            pass


async def test_a_database_that_cannot_be_reached_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    with pytest.raises(StorageError) as refused:
        async with Database.open("postgresql://nobody@127.0.0.1:1/nothing"):
            pass

    assert "Check that the server" in (refused.value.remedy or "")
