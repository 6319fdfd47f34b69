"""The ledger's interface exposes nothing of SQLite, and a search makes few reads."""

import inspect
import sqlite3
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from ledgers import find, index, record, searching, vector_result
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations import working_sets
from local2.ledger.operations.transactions import Transaction

INTERNAL = (
    sqlite3.__name__,
    "local2.ledger.engines",
    *(
        f"local2.ledger.operations.{name}"
        for name in ("transactions", "records", "candidates", "working_sets", "tombstones")
    ),
)
"""Modules whose types stay in the ledger."""


def operations(ledger: Ledger) -> Iterator[tuple[str, Any]]:
    """Return every public method of the ledger and of its parts, except opening it."""
    parts = {name: part for name, part in vars(ledger).items() if not name.startswith("_")}
    for name, part in {"": ledger, **parts}.items():
        for method, function in inspect.getmembers(part, inspect.ismethod):
            if not method.startswith("_") and method != "open":
                yield f"{name}.{method}", function


def classes_in(hint: Any) -> Iterator[type]:
    """Return the classes that a type is made of."""
    if isinstance(hint, type):
        yield hint
    for part in hint if isinstance(hint, list) else get_args(hint):
        yield from classes_in(part)


async def test_no_operation_takes_or_returns_types_of_the_database(database: Database) -> None:
    every = dict(operations(Ledger(database, "default")))

    theirs = [
        (name, class_)
        for name, function in every.items()
        for each in get_type_hints(function).values()
        if each is not Transaction  # which callers leave out
        for class_ in classes_in(each)
        if class_.__module__.startswith(INTERNAL)
    ]
    assert len(every) > 30
    assert theirs == []


@pytest.mark.parametrize(
    "most",
    [
        pytest.param(working_sets.MAX_RECORDS, id="whole, new rows included"),
        pytest.param(-1, id="candidates"),
    ],
)
async def test_a_repeated_search_takes_two_reads(
    database: Database, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(working_sets, "MAX_RECORDS", most)
    ledger = Ledger(database, "default")
    (gold,) = await ledger.records.store([record("Gold.")])
    await index(ledger, {"Gold.": 0})
    await find(ledger, searching("gold"), vector_result(0, [gold.id]))
    read, counted = database.read, []

    async def count(work: Any, **_: Any) -> Any:
        counted.append(work)
        return await read(work)

    monkeypatch.setattr(database, "read", count)
    seen = await find(ledger, searching("gold"), vector_result(0, [gold.id]))

    assert seen.contents == {"Gold."}
    assert len(counted) == 2
