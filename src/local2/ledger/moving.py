"""Moves a whole memory from one database into another one: every row of all tenants.

Which tables and columns there are is read from the databases themselves, so a new one is moved
without being listed here. Rows are copied in the order of their keys, each batch in a transaction:
what is there was copied first, and a move that was killed goes on behind it. Until everything is
there, and equal, the target is marked, and no stack opens it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec

from local2.errors import StorageError
from local2.ledger.engines import OF_ALL, Connection, Database, Table, names_of

NOT_MOVED: Final[Mapping[str, str]] = {
    "erasure": "has one row, which the target gets when the move begins",
    "usage": "is counted by triggers",
    "record.revision": "counts the changes that a database itself has seen",
    # SQLite
    "tally": "counts the commits of a file",
    # PostgreSQL
    "schema_number": "is the database's own",
    "stack": "the stacks that live",
    "work": "what these do at the moment",
    "task.claimed_by": "the same",
    "delivery": "the last turns, in the order of a stream, while several stacks store them",
    "departure": "what stacks that are running have to forget",
    "large_place": "the places with an index of neighbours, which a stack builds",
    "embedder": "is made of the vectors, and in files it is Chroma that knows it",
    "record_words": "are made of the features",
    "record.place": "is made of other columns",
    "feature.tenant": "is the record's",
    "vector.tenant": "is the record's",
    "vector.place": "is the record's",
    "vector.half": "is made of the data",
    "vector.row": "numbers the rows, which have another key",
    "tool_output.row": "numbers the rows, which have another key",
}
"""Tables and columns that are not moved, and why."""

Progress = Callable[[str, int, int], None]
"""Called with what is done, and with how many rows it has been done, of how many."""


CHANGED = (
    "If the memory was used since the move began, name a new database, or a folder without a "
    "memory, and move it again."
)
"""The remedy where a move that goes on is refused what it adds."""
EXACT = 2**53
"""Up to here, a whole number is the same as a float, which one of the databases may return."""


class MovedTable(msgspec.Struct, frozen=True, kw_only=True):
    """What both databases hold of a table; a hash is the same for the same rows in any order."""

    name: str
    rows: int
    hash: str
    target_rows: int
    target_hash: str

    @property
    def is_equal(self) -> bool:
        return (self.rows, self.hash) == (self.target_rows, self.target_hash)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What both databases hold, by table, and how many rows were copied this time.

    `was_whole`: the target held the memory before, and nothing was copied.
    """

    tables: list[MovedTable]
    copied: int
    was_whole: bool

    @property
    def is_equal(self) -> bool:
        return all(table.is_equal for table in self.tables)


def moved_tables(source: list[Table], target: list[Table]) -> list[Table]:
    """The tables to be moved, with the columns that both databases store.

    Raises:
        StorageError: A table or column is in one of them only, and not in NOT_MOVED.
    """
    there = {table.name: table for table in target}
    both = [table for table in source if table.name in there and table.name not in NOT_MOVED]
    alone = {table.name for table in source} ^ set(there)
    moved = []
    for table in both:
        other = there[table.name]
        alone |= {f"{table.name}.{name}" for name in {*table.columns} ^ {*other.columns}}
        shared = {*table.columns} & {*other.columns}
        columns = [name for name in shared if f"{table.name}.{name}" not in NOT_MOVED]
        # In one order, so that a row has the same hash on the way back.
        moved.append(Table(table.name, tuple(sorted(columns)), table.key or other.key))
    if unknown := alone - set(NOT_MOVED):
        raise StorageError(
            f"It is not known how these are moved: {', '.join(sorted(unknown))}.",
            remedy="Move a memory to and from a database that local2 alone uses.",
        )
    return moved


async def move(source: Database, target: Database, progress: Progress) -> Moved:
    """Copy everything that the target lacks, and compare both; stacks may then open the target.

    If the target is whole already, both are only compared. If they are not equal, it stays marked.

    Raises:
        StorageError: The target holds something else, stacks work on one of them, or one of them
            refused.
    """
    await _refuse_stacks(source, target)
    tables = moved_tables(
        await source.read(source.tables.described, owner=OF_ALL),
        await target.read(target.tables.described, owner=OF_ALL),
    )
    rows = {table.name: await _count(source, table) for table in tables}
    present = {table.name: await _count(target, table) for table in tables}
    tombstone_key = await source.read(_tombstone_key, owner=OF_ALL)
    is_same_memory = tombstone_key == await target.read(_tombstone_key, owner=OF_ALL)
    is_unfinished = await target.read(target.tables.is_unfinished, owner=OF_ALL)
    if not is_same_memory:
        if is_unfinished or any(present.values()):
            raise StorageError(
                "The target holds another memory, or a part of another one.",
                remedy="Name a new database, or a folder without a memory.",
            )
        begin = partial(target.tables.begin, tombstone_key=tombstone_key)
        await target.write(begin, owner=OF_ALL)
        is_unfinished = True

    copied = 0
    if is_unfinished:
        before, total = sum(present.values()), sum(rows.values())
        for table in tables:
            there = present[table.name]
            if there >= rows[table.name]:
                continue
            after = await _key_at(source, table, there - 1) if there else None
            async for page in _pages(source, table, after):
                add = partial(target.tables.add, table=table, rows=page)
                try:
                    await target.write(add, owner=OF_ALL)
                except StorageError as error:
                    if error.remedy is None and before:
                        error.remedy = CHANGED
                    raise
                copied += len(page)
                progress("Copying", before + copied, total)

    compared = await _compare(source, target, tables, progress)
    await _refuse_stacks(source)
    moved = Moved(tables=compared, copied=copied, was_whole=not is_unfinished)
    if is_unfinished and moved.is_equal:
        await target.write(target.tables.finish, owner=OF_ALL)
    return moved


async def _refuse_stacks(*databases: Database) -> None:
    for database in databases:
        if stacks := await database.live_stacks():
            raise StorageError(
                f"Stacks work on the ledger: {', '.join(stack.name for stack in stacks)}.",
                remedy="Stop them, and try again. One that was killed counts for ten seconds more.",
            )


async def _compare(
    source: Database, target: Database, tables: list[Table], progress: Progress
) -> list[MovedTable]:
    compared = []
    read = 0
    total = 2 * sum([await _count(source, table) for table in tables])
    for table in tables:
        found = []
        for database in (source, target):
            rows, hashes = 0, 0
            async for page in _pages(database, table):
                rows += len(page)
                hashes += sum(map(_hash, page))
                read += len(page)
                progress("Comparing", read, total)
            found.append((rows, f"{hashes % 2**128:032x}"))
        (rows_here, hash_here), (rows_there, hash_there) = found
        compared.append(
            MovedTable(
                name=table.name,
                rows=rows_here,
                hash=hash_here,
                target_rows=rows_there,
                target_hash=hash_there,
            )
        )
    return compared


async def _pages(
    database: Database, table: Table, after: tuple[Any, ...] | None = None
) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Read a table in the order of its key, from the beginning or after a key."""
    in_key = [table.columns.index(name) for name in table.key]
    while page := await database.read(
        partial(database.tables.page, table=table, after=after), owner=OF_ALL
    ):
        yield page
        after = tuple(page[-1][position] for position in in_key)


async def _count(database: Database, table: Table) -> int:
    def count(connection: Connection) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {table.rows}", {}).fetchone()[0])  # noqa: S608 - names of ours

    return await database.read(count, owner=OF_ALL)


async def _key_at(database: Database, table: Table, position: int) -> tuple[Any, ...]:
    """The key of the row at a position, from 0, in the order of the keys.

    Two databases may order texts with NUL differently: where to go on is asked of the source.
    """

    def read(connection: Connection) -> tuple[Any, ...]:
        key = names_of(table.key)
        found = connection.execute(
            f"SELECT {key} FROM {table.rows} ORDER BY {key} LIMIT 1 OFFSET {position}",  # noqa: S608
            {},
        )
        return tuple(found.fetchone())

    return await database.read(read, owner=OF_ALL)


def _tombstone_key(connection: Connection) -> bytes:
    """What no two memories have in common."""
    return bytes(connection.execute("SELECT key FROM erasure", {}).fetchone()[0])


def _hash(row: tuple[Any, ...]) -> int:
    """A number for a row's values, whichever of the databases returned them."""
    values = [
        int(value) if isinstance(value, float) and value % 1 == 0 and abs(value) < EXACT else value
        for value in row
    ]
    return int.from_bytes(blake2b(msgspec.msgpack.encode(values), digest_size=16).digest(), "big")
