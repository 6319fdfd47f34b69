"""Writes that queue together commit together, and no acknowledged write is lost."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from local2.errors import BadRequestError, StorageError
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.engines.sqlite.lanes import BATCH_LIMIT
from local2.ledger.engines.sqlite.schema import Schema
from waiting import eventually

NAMES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes.sqlite3"


@pytest.fixture
def schema() -> Schema:
    return Schema(2, "CREATE TABLE note (text UNIQUE NOT NULL); CREATE TABLE record (row);")


@pytest.fixture
async def notes(file: Path, schema: Schema) -> AsyncIterator[Database]:
    async with Database.open(file, schema) as database:
        yield database


def add(text: str) -> Callable[[SqlConnection], int]:
    return lambda c: c.execute("INSERT INTO note VALUES (?)", (text,)).rowcount


def all_notes(connection: SqlConnection) -> list[str]:
    return [row["text"] for row in connection.execute("SELECT text FROM note ORDER BY rowid")]


def on_disk(file: Path) -> list[str]:
    """Return what another process would see."""
    connection = sqlite3.connect(file)
    try:
        return [text for (text,) in connection.execute("SELECT text FROM note ORDER BY rowid")]
    finally:
        connection.close()


class Gate:
    """A write that occupies the writer's thread until `open`; writes queue in the meantime."""

    def __init__(self, notes: Database) -> None:
        self._reached = threading.Event()
        self._may_pass = threading.Event()
        self._held = asyncio.create_task(notes.write(self._hold))

    async def close(self) -> None:
        await eventually(self._reached.is_set)

    async def open(self) -> None:
        self._may_pass.set()
        await self._held

    def _hold(self, _: SqlConnection) -> None:
        self._reached.set()
        self._may_pass.wait(10)


async def test_a_read_sees_every_write_that_returned(notes: Database) -> None:
    for number in range(50):
        await notes.write(add(str(number)))
        assert len(await notes.read(all_notes)) == number + 1


async def test_writes_that_queued_together_commit_together(notes: Database, file: Path) -> None:
    gate = Gate(notes)
    await gate.close()
    seen: list[int] = []

    def count_on_disk(_: SqlConnection) -> None:
        seen.append(len(on_disk(file)))

    writes = [asyncio.create_task(notes.write(add(str(n)))) for n in range(9)]
    last = asyncio.create_task(notes.write(count_on_disk))
    await asyncio.sleep(0)
    await gate.open()
    await asyncio.gather(*writes, last)

    assert seen == [0], "nothing was committed before the last of the batch had run"
    assert len(on_disk(file)) == 9


async def test_more_writes_than_fit_a_batch_are_all_written(notes: Database) -> None:
    gate = Gate(notes)
    await gate.close()
    writes = [asyncio.create_task(notes.write(add(str(n)))) for n in range(2 * BATCH_LIMIT + 1)]
    await asyncio.sleep(0)
    await gate.open()
    await asyncio.gather(*writes)

    assert await notes.read(all_notes) == [str(n) for n in range(2 * BATCH_LIMIT + 1)]


async def test_owners_take_turns_and_each_owners_writes_stay_in_order(
    notes: Database,
) -> None:
    gate = Gate(notes)
    await gate.close()
    names = [*(f"a{n}" for n in range(4)), "b0", "c0", "b1"]
    writes = [asyncio.create_task(notes.write(add(name), owner=name[0])) for name in names]
    await asyncio.sleep(0)
    await gate.open()
    await asyncio.gather(*writes)

    assert await notes.read(all_notes) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


async def test_slow_reads_of_one_owner_do_not_delay_another(notes: Database) -> None:
    begun: list[str] = []
    first, may_finish = threading.Event(), threading.Event()

    def hold(_: SqlConnection) -> None:
        first.set()
        may_finish.wait()

    def note(name: str) -> Callable[[SqlConnection], None]:
        return lambda _: begun.append(name)

    async with asyncio.TaskGroup() as reads:
        reads.create_task(notes.read(hold, owner="a"))
        await asyncio.to_thread(first.wait)
        for name in (*(f"a{n}" for n in range(200)), "b"):
            reads.create_task(notes.read(note(name), owner=name[0]))
        await asyncio.sleep(0)
        may_finish.set()

    assert begun[:3] == ["a0", "b", "a1"]
    assert begun[3:] == [f"a{n}" for n in range(2, 200)]


async def test_a_failing_write_does_not_affect_the_rest_of_its_batch(notes: Database) -> None:
    gate = Gate(notes)
    await gate.close()

    def half(connection: SqlConnection) -> None:
        add("half done")(connection)
        raise BadRequestError("Changed my mind.")

    outcomes = asyncio.gather(
        notes.write(add("before")),
        notes.write(half),
        notes.write(add("before")),
        notes.write(add("after")),
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    await gate.open()
    _, refused, repeated, _ = await outcomes

    assert isinstance(refused, BadRequestError)
    assert isinstance(repeated, StorageError)
    assert await notes.read(all_notes) == ["before", "after"]


async def test_a_statement_that_sqlite_refuses_is_a_storage_error(notes: Database) -> None:
    with pytest.raises(StorageError, match=r"refused: .*NOT NULL"):
        await notes.write(lambda c: c.execute("INSERT INTO note VALUES (NULL)"))
    with pytest.raises(StorageError, match="no such table"):
        await notes.read(lambda c: c.execute("SELECT * FROM absent"))
    with pytest.raises(StorageError, match="no such table"):
        await notes.read_apart(lambda c: c.execute("SELECT * FROM absent"))


async def test_an_exception_in_the_work_is_raised_unchanged(notes: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        await notes.read(lambda _: 1 // 0)

    assert await notes.read(all_notes) == [], "the reader goes on"


def _leave_room_for_one_page(connection: SqlConnection) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")


async def test_a_full_disk_fails_the_write_and_the_next_one_works(notes: Database) -> None:
    await notes.write(_leave_room_for_one_page)
    with pytest.raises(StorageError, match="full"):
        await notes.write(add("x" * 100_000))
    await notes.write(add("short"))

    assert await notes.read(all_notes) == ["short"]


async def test_a_full_disk_fails_the_whole_batch(notes: Database, file: Path) -> None:
    await notes.write(_leave_room_for_one_page)
    gate = Gate(notes)
    await gate.close()
    outcomes = asyncio.gather(
        notes.write(add("short")), notes.write(add("x" * 100_000)), return_exceptions=True
    )
    await asyncio.sleep(0)
    await gate.open()

    assert [type(outcome) for outcome in await outcomes] == [StorageError, StorageError]
    assert on_disk(file) == []


async def test_closing_finishes_queued_writes(file: Path, schema: Schema) -> None:
    async with Database.open(file, schema) as notes:
        gate = Gate(notes)
        await gate.close()
        writes = [asyncio.create_task(notes.write(add(str(n)))) for n in range(20)]
        opening = asyncio.create_task(gate.open())
        await asyncio.sleep(0)
    await asyncio.gather(*writes, opening)

    assert len(on_disk(file)) == 20
    with pytest.raises(StorageError, match="is closed"):
        await notes.write(add("too late"))


async def test_a_file_that_cannot_be_opened_is_a_storage_error(file: Path) -> None:
    file.write_bytes(b"not a database " * 100)

    for path, why in ((file, "not a database"), (file.parent / "absent" / "x", "unable to open")):
        with pytest.raises(StorageError, match=rf"{path.name}.*{why}"):
            async with Database.open(path):
                pass


async def test_tables_are_created_completely_or_not_at_all(file: Path, schema: Schema) -> None:
    broken = Schema(1, "CREATE TABLE half (a); CREATE TABLE half (b);")
    with pytest.raises(StorageError, match="already exists"):
        async with Database.open(file, broken):
            pass

    async with Database.open(file, schema) as notes:
        names = await notes.read(lambda c: [row[0] for row in c.execute(NAMES)])
    assert names == ["note", "record", "tally"]


@pytest.mark.parametrize(("number", "age"), [(1, "An older"), (3, "A newer")])
async def test_a_file_of_another_schema_is_refused_and_unchanged(
    file: Path, schema: Schema, number: int, age: str
) -> None:
    async with Database.open(file, schema._replace(number=number)) as notes:
        await notes.write(add("Elixir"))
    before = file.read_bytes()

    refusal = rf"has schema {number}, and this local2 has schema 2\. {age} local2 wrote it\. "
    with pytest.raises(StorageError, match=refusal):
        async with Database.open(file, schema):
            pass

    assert file.read_bytes() == before


async def test_every_commit_reaches_the_disk(notes: Database) -> None:
    def pragmas(connection: SqlConnection) -> tuple[str, int]:
        return (
            connection.execute("PRAGMA journal_mode").fetchone()[0],
            connection.execute("PRAGMA synchronous").fetchone()[0],
        )

    full = 2
    assert await notes.write(pragmas) == ("wal", full)


async def test_a_cancelled_write_ends_once_it_is_written(database: Database) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(connection: SqlConnection) -> None:
        begun.set()
        may_end.wait(10)
        connection.execute("CREATE TABLE written (x)")

    writing = asyncio.create_task(database.write(slow))
    await eventually(begun.is_set)
    writing.cancel()
    await asyncio.sleep(0)
    assert not writing.done()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await writing
    assert (
        await database.read(lambda c: c.execute("SELECT count(*) FROM written").fetchone()[0]) == 0
    )


async def test_a_long_read_keeps_no_other_read_waiting(notes: Database) -> None:
    await notes.write(add("one"))
    reached, may_end = threading.Event(), threading.Event()

    def linger(connection: SqlConnection) -> list[str]:
        reached.set()
        assert may_end.wait(timeout=30)
        return all_notes(connection)

    long = asyncio.create_task(notes.read_apart(linger))
    await eventually(reached.is_set)
    meanwhile = await notes.read(all_notes)
    may_end.set()

    assert meanwhile == await long == ["one"]


async def test_a_write_that_another_program_holds_up_is_given_up_for_good(
    notes: Database, file: Path
) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(notes.write(add("Python")))
        results = await asyncio.gather(
            *(notes.write(add(f"Elixir {number}"), within=0.05) for number in range(5)),
            return_exceptions=True,
        )
        assert not waiting.done()
        other.execute("COMMIT")

    await waiting
    await notes.write(add("Erlang"), within=30)
    assert {type(error) for error in results} == {StorageError}
    assert "Try again" in str(results[0])
    assert on_disk(file) == ["Python", "Erlang"]
