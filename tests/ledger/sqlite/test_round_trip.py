"""Exporting a ledger and importing it into an empty one reproduces it, row by row."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from exporting import copy, fill
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.exports import ExportFilter

DERIVED = {"revision", "retired_noted_at"}
"""Columns: the first is only compared with itself, and retention counts from when a ledger itself
noted that something was retired."""
TABLES = {
    "record": "row",
    "vector": "record",
    "relation": "source, type, target",
    "feedback": "row",
    "note": "row",
    "tool_output": "rowid",
    "audit": "row",
    "access": "record",
    "feature": "record",
    "item": "rowid",
    "showing": "row",
    "shown": "showing, position",
}
NOT_CARRIED = {"task", "tombstone", "erasure", "consolidation", "tally", "usage", "audit_name"}
"""Tables: tasks are created anew; what a ledger erased, consolidated, committed and counted is its
own history; the names in the audit are collected again."""


@pytest.fixture
async def source(database: Database) -> Database:
    await fill(Ledger(database, "default"))
    await fill(Ledger(database, "other"))
    await database.write(_fill_remaining_columns)
    return database


def _fill_remaining_columns(connection: SqlConnection) -> int:
    at = "2026-05-01T12:00:00.000+00:00"
    connection.execute("UPDATE audit SET run = 'r1', reason = 'stale', agent = 'a', user = 'ada'")
    return connection.execute(
        f"INSERT INTO access SELECT row, tenant, row, '{at}', 1 FROM record"  # noqa: S608
    ).rowcount


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database.open(tmp_path / "target.sqlite3") as opened:
        yield opened


async def rows(database: Database, tenant: str = "default") -> dict[str, list[Any]]:
    """Return every row of a tenant, without derived columns."""

    def read(connection: SqlConnection) -> dict[str, list[Any]]:
        return {table: list(_rows(connection, table, tenant)) for table in TABLES}

    return await database.read(read)


def _rows(connection: SqlConnection, table: str, tenant: str) -> Any:
    of_record = f"SELECT row FROM record WHERE tenant = '{tenant}'"  # noqa: S608
    owned = f"record IN ({of_record})" if table in {"vector", "feature"} else f"tenant = '{tenant}'"
    for row in connection.execute(
        f"SELECT * FROM {table} WHERE {owned} ORDER BY {TABLES[table]}"  # noqa: S608
    ):
        yield {name: row[name] for name in row.keys() if name not in DERIVED}  # noqa: SIM118


async def test_an_imported_ledger_equals_its_source_row_by_row(
    source: Database, target: Database
) -> None:
    report = await copy(
        Ledger(source, "default"), Ledger(target, "default"), ExportFilter(vectors=True)
    )

    before, after = await rows(source), await rows(target)
    for table in TABLES:
        assert before[table], table
        assert after[table] == before[table], table
    assert (report.known, report.unplaced, report.conflicts) == ({}, 0, [])
    assert report.new["record"] == len(before["record"])


async def test_interleaved_rows_of_another_tenant_change_nothing(
    source: Database, target: Database
) -> None:
    """Row numbers differ in the tenant imported second; the order in sessions is the same."""
    await copy(Ledger(source, "other"), Ledger(target, "other"))

    def order(connection: SqlConnection) -> list[str]:
        found = connection.execute(
            "SELECT id FROM record WHERE tenant = 'other' AND session_id = 's1'"
            " ORDER BY ifnull(stands_at, row), row"
        )
        return [row["id"] for row in found]

    assert await target.read(order) == await source.read(order)


async def test_importing_twice_changes_nothing(source: Database, target: Database) -> None:
    first = await copy(Ledger(source, "default"), Ledger(target, "default"))
    once = await rows(target)

    second = await copy(Ledger(source, "default"), Ledger(target, "default"))

    assert await rows(target) == once
    assert (second.new, second.known) == ({}, first.new)
    assert (second.replaced, second.unplaced, second.conflicts) == (0, 0, [])


async def test_every_table_is_exported_or_known_to_be_derived(source: Database) -> None:
    """A new table or column must say which."""

    def tables(connection: SqlConnection) -> set[str]:
        found = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
            " AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'record_text%'"
        )
        return {row["name"] for row in found}

    assert await source.read(tables) == set(TABLES) | NOT_CARRIED


async def test_every_column_has_a_value_in_the_source_ledger(source: Database) -> None:
    """Otherwise the test above would not notice a column that an export leaves out."""
    empty = {None, "", "[]", "{}", 0}
    computed = {"firsthand", "timed", "wish"}

    for table, found in (await rows(source)).items():
        without = {name for name in found[0] if {row[name] for row in found} <= empty}
        assert without <= computed, table


async def test_an_imported_ledger_passes_its_checks(source: Database, target: Database) -> None:
    copied = Ledger(target, "default")
    await copy(Ledger(source, "default"), copied)

    assert await copied.problems() == []
