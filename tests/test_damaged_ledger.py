"""Damage that SQLite does not notice is found at every start, or by `doctor --deep`.

A copy of the files of an open ledger is what a `kill -9` leaves. Each test damages one copy.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from commands import in_a_fork
from harm import flip
from ledgers import open_ledger
from local2 import examination
from local2.errors import DamagedError, StorageError
from local2.ledger.engines.sqlite.soundness import Count, Tally
from local2.ledger.records import NewRecord
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import CheckResult
from local2.settings import Settings
from local2.stack.app import open_stack
from stacks import in_step, save, settings_in

RECORDS = 300
LEDGER = Path(".local2", "ledger.sqlite3")
TALLY = Path(".local2", "ledger.tally")
WAL = Path(".local2", "ledger.sqlite3-wal")
EARLY = 20_000
"""Offset in bytes of a commit made before the last checkpoint, which the log's reader ignores."""


async def fill(settings: Settings, first: int, last: int) -> None:
    """Add records, one per transaction, and copy the files while the ledger is open."""
    settings.memory.data_dir.mkdir(exist_ok=True)
    async with open_ledger(settings.memory, "default") as ledger:
        for number in range(first, last):
            content = f"Note {number} is about the planet {number * 7}."
            note = NewRecord(id=f"r{number}", kind="episode", content=content, event_time=utc_now())
            await ledger.records.store([note])
        shutil.copytree(settings.memory.data_dir, settings.memory.data_dir.parent / "killed")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose stack was killed: 200 records in the main file, 100 in its log."""
    folder = tmp_path_factory.mktemp("ledger")
    settings = settings_in(folder)
    asyncio.run(fill(settings, 0, RECORDS - 100))
    shutil.rmtree(folder / "killed")
    asyncio.run(fill(settings, RECORDS - 100, RECORDS))
    shutil.rmtree(settings.memory.data_dir)
    (folder / "killed").rename(settings.memory.data_dir)
    return folder


@pytest.fixture
def folder(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "folder"))


async def records_of(folder: Path) -> int:
    async with open_ledger(settings_in(folder).memory, "default") as ledger:
        return (await ledger.counts()).records


async def examine(folder: Path, *, deep: bool = True) -> dict[str, CheckResult]:
    findings = await examination.run_checks(settings_in(folder), deep=deep)
    return {finding.name: finding for finding in findings}


def flip_the_log(folder: Path) -> None:
    flip(folder / WAL, EARLY)


def cut_the_log(folder: Path) -> None:
    os.truncate(folder / WAL, EARLY)


def delete_the_log(folder: Path) -> None:
    (folder / WAL).unlink()


LOST_COMMITS = [flip_the_log, cut_the_log, delete_the_log]


async def test_the_files_that_a_kill_leaves_are_intact(folder: Path) -> None:
    assert await records_of(folder) == RECORDS
    findings = await examine(folder)
    assert findings["ledger"].detail.startswith(f"{RECORDS} records")
    assert findings["whole ledger"].verdict == "ok"


@pytest.mark.parametrize("damage", LOST_COMMITS)
async def test_a_log_that_lost_commits_is_refused_until_the_loss_is_accepted(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    damage(folder)

    for _ in range(2):  # a second start does not repair it
        with pytest.raises(DamagedError, match=f"{RECORDS} were acknowledged") as refused:
            await records_of(folder)
    findings = await examine(folder, deep=False)
    assert findings["ledger"].verdict == "broken"
    assert str(folder / TALLY) in str(refused.value.remedy)

    (folder / TALLY).unlink()
    assert 0 < await records_of(folder) < RECORDS


def test_the_command_reports_lost_commits_in_two_lines(folder: Path) -> None:
    cut_the_log(folder)

    done = in_a_fork(folder, "up")

    error, remedy = done.stderr.replace("\n ", " ").strip().split("\n→")
    assert done.returncode == 1
    assert "lacks acknowledged writes" in " ".join(error.split())
    assert "restore it from a backup" in " ".join(remedy.split())


def delete(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("lose", [delete, empty])
async def test_a_missing_ledger_with_a_count_of_records_is_refused_and_not_recreated(
    folder: Path, lose: Callable[[Path], None]
) -> None:
    (folder / WAL).unlink()
    lose(folder / LEDGER)

    with pytest.raises(DamagedError, match=f"{RECORDS} records were stored"):
        await records_of(folder)
    assert (await examine(folder))["ledger"].verdict == "broken"
    assert not (folder / LEDGER).exists() or not (folder / LEDGER).stat().st_size

    (folder / TALLY).unlink()
    assert await records_of(folder) == 0


@pytest.mark.usefixtures("worker_here")
async def test_a_missing_ledger_beside_a_full_index_is_refused(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    async with open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, "Osmium is a metal.")
        await in_step(stack.bus, records=1)
    for file in settings.memory.data_dir.glob("ledger.*"):
        file.unlink()

    with pytest.raises(DamagedError, match="holds 1 vectors of its records") as refused:
        async with open_stack(settings, with_generator=False):
            pass
    assert str(settings.memory.chroma_path) in str(refused.value.remedy)

    shutil.rmtree(settings.memory.chroma_path)
    assert await records_of(tmp_path) == 0


async def test_zeroed_pages_are_found_at_start(folder: Path) -> None:
    assert await records_of(folder) == RECORDS  # the log is now in the main file
    data = bytearray((folder / LEDGER).read_bytes())
    for page in range(8, len(data) // 4096, 5):
        data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    (folder / LEDGER).write_bytes(data)

    with pytest.raises(DamagedError, match="is damaged"):
        await records_of(folder)


async def test_a_schema_that_is_not_text_is_refused_at_start(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    await fill(settings, 0, 1)
    file = tmp_path / LEDGER
    content = file.read_bytes()
    assert b"CREATE TABLE tombstone" in content
    file.write_bytes(content.replace(b"CREATE TABLE tombstone", b"CRE\xdfTE TABLE tombstone"))

    with pytest.raises(DamagedError) as refused:
        async with open_ledger(settings.memory, "default"):
            pass
    assert "is damaged" in refused.value.message
    assert "restore" in str(refused.value.remedy)


async def test_a_changed_letter_of_a_record_is_found_by_the_deep_check(folder: Path) -> None:
    assert await records_of(folder) == RECORDS
    data = (folder / LEDGER).read_bytes()
    text = b"Note 150 is about the planet"
    flip(folder / LEDGER, data.index(text) + len(text) - 3)

    findings = await examine(folder)

    assert await records_of(folder) == RECORDS, "a start does not read all of it"
    assert findings["ledger"].verdict == "ok"
    assert findings["whole ledger"].verdict == "broken"
    assert "full-text index" in findings["whole ledger"].detail


async def test_records_missing_without_a_trace_are_found_by_the_deep_check(
    folder: Path,
) -> None:
    with closing(sqlite3.connect(folder / LEDGER)) as connection:
        connection.execute("DELETE FROM record WHERE row BETWEEN 100 AND 109")
        connection.commit()

    findings = await examine(folder)

    assert findings["whole ledger"].detail == f"10 of {RECORDS} records are missing."


async def test_newest_records_missing_without_a_trace_are_found_at_start(
    folder: Path,
) -> None:
    with closing(sqlite3.connect(folder / LEDGER)) as connection:
        connection.execute("DELETE FROM record WHERE row > 290")
        connection.commit()

    with pytest.raises(DamagedError, match="290 records"):
        await records_of(folder)


async def test_an_older_ledger_without_a_count_gets_one_at_start(folder: Path) -> None:
    (folder / TALLY).unlink()
    with closing(sqlite3.connect(folder / LEDGER)) as connection:
        connection.execute("DROP TABLE tally")

    assert await records_of(folder) == RECORDS
    count = Tally(folder / LEDGER).count_in_file()
    assert count == Count(commits=0, rows=RECORDS)


async def test_an_unreadable_count_is_rewritten(folder: Path) -> None:
    flip(folder / TALLY, 10)

    assert await records_of(folder) == RECORDS
    assert Tally(folder / LEDGER).count_in_file() == Count(commits=RECORDS, rows=RECORDS)


async def test_a_write_that_changes_nothing_is_not_counted(folder: Path) -> None:
    async with open_ledger(settings_in(folder).memory, "default") as ledger:
        await ledger._database.write(lambda c: c.execute("SELECT 1").fetchone())
        with pytest.raises(StorageError):
            await ledger._database.write(lambda c: c.execute("INSERT INTO record (row) VALUES (1)"))

    assert Tally(folder / LEDGER).count_in_file() == Count(commits=RECORDS, rows=RECORDS)
