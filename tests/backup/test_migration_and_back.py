"""A migration keeps a copy of the old ledger, which can be restored."""

import asyncio
from pathlib import Path

import pytest

from backups import rows
from commands import local2
from ledgers import ledger_in
from local2.errors import StorageError
from local2.ledger.sqlite.database import Database, SqlConnection, copies
from local2.ledger.sqlite.database.copies import copies_before_migrations
from local2.ledger.sqlite.sql import migrations

SCHEMA = len(migrations())
OLD = SCHEMA - 1
ADD = (
    "INSERT INTO record (tenant, id, kind, owner, content, event_time)"
    " VALUES ('default', ?, 'fact', '', 'Osmium', '2026-05-02T14:23:01.000+00:00')"
)


async def write(ledger: Path, *ids: str, schema: int = SCHEMA) -> None:
    def add(connection: SqlConnection) -> None:
        for id_ in ids:
            connection.execute(ADD, (id_,))

    async with Database.open(ledger, migrations()[:schema], counted="record") as database:
        await database.write(add)


@pytest.fixture
async def ledger(tmp_path: Path) -> Path:
    """Create a ledger of the previous schema."""
    path = tmp_path / ".local2" / "ledger.sqlite3"
    path.parent.mkdir()
    await write(path, "f1", "f2", schema=OLD)
    return path


async def test_the_old_file_is_kept_if_there_is_something_to_migrate(ledger: Path) -> None:
    assert copies_before_migrations(ledger) == {}
    await write(ledger, "f3")
    await write(ledger, "f4")

    assert list(copies_before_migrations(ledger)) == [OLD]
    copy = ledger.with_name(f"ledger.schema-{OLD}.sqlite3")
    assert [row[2] for row in rows(copy)] == ["f1", "f2"]
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_only_the_newest_copy_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    for schema in (1, 2, 3):
        async with Database.open(path, migrations()[:schema]):
            pass

    assert list(copies_before_migrations(path)) == [2]


async def test_a_failed_migration_changes_nothing(ledger: Path, tmp_path: Path) -> None:
    broken = tmp_path / "9999_broken.sql"
    broken.write_text("CREATE TABLE other (a); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(StorageError, match="nowhere"):
        async with Database.open(ledger, [*migrations()[:OLD], broken]):
            pass
    async with Database.open(ledger, migrations()[:OLD]) as database:
        names = await database.read(
            lambda c: [row[0] for row in c.execute("SELECT name FROM sqlite_master")]
        )

    assert "other" not in names


async def test_a_disk_without_room_for_a_copy_refuses_the_migration(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "RESERVE", 1 << 60)
    with pytest.raises(StorageError, match="MB are needed"):
        await write(ledger, "f3")
    monkeypatch.undo()

    assert copies_before_migrations(ledger) == {}
    assert [file.name for file in ledger.parent.glob("*.part")] == []
    await write(ledger, "f3", schema=OLD)


async def test_going_back_names_the_changes_that_are_lost_and_needs_a_confirmation(
    ledger: Path, tmp_path: Path
) -> None:
    await write(ledger, "f3", "f4", "f5")

    unconfirmed = await asyncio.to_thread(local2, tmp_path, "migrate", "--back")
    assert "3 records and all other changes" in " ".join(unconfirmed.stdout.split())
    assert unconfirmed.returncode == 1
    assert len(rows(ledger)) == 5

    done = await asyncio.to_thread(local2, tmp_path, "migrate", "--back", "--yes")
    assert done.returncode == 0, done.stderr
    await write(ledger, "f6", schema=OLD)  # an older local2 continues
    assert [row[2] for row in rows(ledger)] == ["f1", "f2", "f6"]
    (aside,) = ledger.parent.glob("aside-*")
    assert len(rows(aside / "ledger.sqlite3")) == 5


async def test_erasing_records_removes_the_copy_too(ledger: Path) -> None:
    await write(ledger, "f3")
    async with ledger_in(ledger) as opened:
        await opened.erasures.scrub()

    assert copies_before_migrations(ledger) == {}


async def test_going_back_without_a_migration_is_an_error(ledger: Path, tmp_path: Path) -> None:
    back = await asyncio.to_thread(local2, tmp_path, "migrate", "--back", "--yes")

    assert back.returncode == 1
    assert "no ledger from before a migration" in back.stderr
    assert len(rows(ledger)) == 2


async def test_the_command_migrates_like_a_start(ledger: Path, tmp_path: Path) -> None:
    assert (await asyncio.to_thread(local2, tmp_path, "migrate")).returncode == 0

    assert list(copies_before_migrations(ledger)) == [OLD]
    assert len(rows(ledger)) == 2
