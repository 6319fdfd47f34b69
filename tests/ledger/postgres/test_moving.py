"""A memory that is moved to PostgreSQL and back stays the same, whatever happens meanwhile."""

import asyncio
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from exporting import fill
from forking import exit_code
from ledgers import (
    DAY,
    ITEMS,
    erase,
    fact,
    find,
    index,
    ledger_in,
    record,
    searching,
    vector_result,
)
from local2.errors import StorageError
from local2.ledger.engines import Table
from local2.ledger.engines.postgres.database import Database as PostgresDatabase
from local2.ledger.engines.sqlite.copies import verified_contents
from local2.ledger.engines.sqlite.database import Database as SqliteDatabase
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.moving import NOT_MOVED, moved_tables
from local2.ledger.operations import working_sets
from local2.ledger.operations.items import ItemWriter, NewItem
from local2.protocol.items import ItemKey, ItemPut
from move_process import move_and_be_killed, move_between
from stored import change

TENANTS = ("default", "other")
METAL = "Osmium\0 is the densest metal; \x1a is a character, too."
HALF_A_CHARACTER = rb'{"text": "\ud83d and \u0000", "number": 9007199254740993}'
CHANGED_BY_HAND = (
    "UPDATE audit SET run = 'r', reason = 'why', agent = 'a', user = 'ada'",
    "INSERT INTO access SELECT row, tenant, row, event_time, 1 FROM record",
    "UPDATE task SET state = 'later', not_before = '2026', error = 'e', id = 'i' WHERE record < 5",
    "UPDATE feedback SET comment = 'Good.'",
    "UPDATE record SET stands_at = 1.5 WHERE id = 'm1.5'",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which two tenants have something in every table and column."""
    file = tmp_path_factory.mktemp("source") / "ledger.sqlite3"

    async def create() -> None:
        async with SqliteDatabase.open(file) as database:
            for tenant in TENANTS:
                await _fill(Ledger(database, tenant))
            for statement in CHANGED_BY_HAND:
                await change(database, statement)

    asyncio.run(create())
    return file


async def _fill(ledger: Ledger) -> None:
    await fill(ledger)
    await ledger.facts.store(fact(METAL, id="o\0smium", topic="a\0metal"))
    await index(ledger, {f"a\0metal: {METAL}": 45.0})
    await ledger.records.store([record("Nobody knows it.", session_id="forgotten")])
    await erase(ledger, Selection(owner="richard", session_id="forgotten"))
    put = ItemPut(namespace=("a\0b",), key="k\0", value=msgspec.Raw(HALF_A_CHARACTER))
    writer = ItemWriter(at=DAY, agent="shell", user="richard", session_id="s1")
    await ledger.items.put(ITEMS, [NewItem(put=put)], writer)
    await ledger.upkeep.begin("run", DAY)
    await ledger.upkeep.end("run", DAY, changed=1, failed=0)


def rows_of(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Return everything that a file holds; not how often its tables were changed."""
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
                "AND name NOT LIKE 'sqlite%' AND name <> 'tally'"
            )
        ]
        return {
            table: sorted(
                (
                    {name: row[name] for name in row.keys() if name != "revision"}  # noqa: SIM118
                    for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608
                ),
                key=repr,
            )
            for table in tables
        }


async def seen(ledger: Ledger) -> list[Any]:
    """Return what a ledger answers, by words, by meaning and by key, and what it says it holds."""
    by_words = await find(ledger, searching("densest", "metal"))
    by_meaning = await find(ledger, searching("anything"), vector_result(45.0, ["f2"]))
    items = await ledger.items.get(ITEMS, [ItemKey(namespace=("a\0b",), key="k\0")])
    return [
        sorted(by_words.contents),
        by_meaning.cosines(),
        items,
        await ledger.facts.topic("user", "richard", "user.language"),
        await ledger.counts(),
    ]


async def test_a_memory_moved_to_postgresql_and_back_is_the_same_in_every_row(
    source: Path, url: str, tmp_path: Path
) -> None:
    before = source.read_bytes()
    there = await move_between(str(source), url)
    back = await move_between(url, str(tmp_path / "ledger.sqlite3"))

    rows = rows_of(source)
    assert there.is_equal
    assert there.copied == sum(table.rows for table in there.tables)
    assert all(table.rows >= len(TENANTS) for table in there.tables), there.tables
    assert [table.hash for table in back.tables] == [table.hash for table in there.tables]
    assert rows_of(tmp_path / "ledger.sqlite3") == rows
    assert source.read_bytes() == before
    for table, found in rows.items():
        assert {name for name in found[0] if {row[name] for row in found} == {None}} == set(), table
    async with ledger_in(tmp_path / "ledger.sqlite3") as ledger:
        assert await ledger.problems() == []


async def test_what_was_moved_answers_as_before_and_takes_new_memories(
    source: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the indexes of words and vectors, which large memories are searched by."""
    monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)
    await move_between(str(source), url)

    async with PostgresDatabase.open(url) as database:
        for tenant in TENANTS:
            ledger = Ledger(database, tenant)
            async with ledger_in(source, tenant) as former:
                seen_before = await seen(former)
                assert await seen(ledger) == seen_before
                last = await former.records.by_id(["o\0smium"])
            new = record("Iridium is nearly as dense.")
            await ledger.records.store([new])
            stored = (await ledger.records.by_id([new.id]))[new.id]
            assert stored.row > last["o\0smium"].row
            assert (await find(ledger, searching("iridium"))).contents == {new.content}
            assert METAL in seen_before[0], seen_before
            assert ledger.vectors is not None
            assert (await ledger.vectors.embedders()).serving == "plane"


async def test_numbers_that_postgresql_skipped_are_no_missing_records_of_a_file(
    here: PostgresDatabase, url: str, tmp_path: Path
) -> None:
    ledger, file = Ledger(here, "default"), str(tmp_path / "ledger.sqlite3")
    first, last = record("Before a gap."), record("Behind it.")
    await ledger.records.store([first])
    await here.write(lambda c: c.execute("SELECT setval('record_row_seq', 9)", {}).fetchall())
    await ledger.records.store([last])

    assert (await move_between(url, file)).is_equal

    contents = verified_contents(Path(file), None)
    assert (contents.rows, contents.records) == (10, 2)
    assert (await move_between(url, file)).is_equal
    async with ledger_in(Path(file)) as moved:
        assert await moved.problems() == []
        assert (await moved.counts()).records == 2
        await moved.records.store([record("Newer.")])


@pytest.mark.parametrize("direction", ["there", "back"])
async def test_a_move_that_is_killed_again_and_again_goes_on_without_doubles(
    source: Path, url: str, tmp_path: Path, direction: str
) -> None:
    kills, copied = 0, str(tmp_path / "ledger.sqlite3")
    ends = (str(source), url) if direction == "there" else (url, copied)
    if direction == "back":
        await move_between(str(source), url)

    while await exit_code(move_and_be_killed, *ends, 25) == -signal.SIGKILL:
        kills += 1
        with pytest.raises(StorageError, match="only a part of a memory"):
            await _open_as_a_stack(ends[1])

    whole = await move_between(*ends)
    assert kills > 1
    assert whole.is_equal
    assert (whole.was_whole, whole.copied) == (True, 0)
    await _open_as_a_stack(ends[1])


async def _open_as_a_stack(ledger: str) -> None:
    if ledger.startswith("postgresql:"):
        async with PostgresDatabase.open(ledger):
            return
    async with ledger_in(Path(ledger)):
        return


async def test_a_target_with_anything_else_is_refused_and_left_alone(
    source: Path, url: str, here: PostgresDatabase
) -> None:
    await Ledger(here, "default").records.store([record("Another memory.")])

    with pytest.raises(StorageError, match="another memory"):
        await move_between(str(source), url)

    assert (await Ledger(here, "default").counts()).records == 1


async def test_a_source_that_changes_meanwhile_is_noticed_and_nothing_opens_the_target(
    source: Path, url: str, tmp_path: Path
) -> None:
    shutil.copytree(source.parent, tmp_path, dirs_exist_ok=True)
    file = tmp_path / source.name
    assert await exit_code(move_and_be_killed, str(file), url, 15) == -signal.SIGKILL
    async with ledger_in(file) as ledger:
        assert await erase(ledger, Selection(owner="richard", session_id="s1"))

    moved = await move_between(str(file), url)

    differing = {table.name for table in moved.tables if not table.is_equal}
    assert "record" in differing
    with pytest.raises(StorageError, match="only a part of a memory"):
        await _open_as_a_stack(url)


async def test_a_move_that_cannot_go_on_since_its_source_has_changed_says_so(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.sqlite3"
    async with ledger_in(file) as ledger:
        await ledger.facts.store(fact("Oslo.", topic="user.city", id="f1"))
        await ledger.records.store([record(f"Note {number}.") for number in range(60)])
    assert await exit_code(move_and_be_killed, str(file), url, 8) == -signal.SIGKILL
    async with ledger_in(file) as ledger:
        await ledger.facts.store(fact("Bergen.", topic="user.city", id="f2"))

    with pytest.raises(StorageError, match="duplicate") as refused:
        await move_between(str(file), url)

    assert "used since the move began" in (refused.value.remedy or "")


async def test_a_table_or_column_of_one_database_alone_is_not_overlooked(
    here: PostgresDatabase, source: Path
) -> None:
    async with SqliteDatabase.open(source) as file:
        ours = await file.read(file.tables.described)
    theirs = await here.read(here.tables.described)

    moved = {
        name
        for table in moved_tables(ours, theirs)
        for name in (table.name, *(f"{table.name}.{column}" for column in table.columns))
    }
    everything = {
        name
        for table in [*ours, *theirs]
        for name in (table.name, *(f"{table.name}.{column}" for column in table.columns))
        if table.name not in NOT_MOVED or name == table.name
    }
    assert everything - moved == set(NOT_MOVED)
    for new in (Table("new", ("a",), ("a",)), Table("note", ("new",), ())):
        with pytest.raises(StorageError, match="new"):
            moved_tables([*ours, new], theirs)
