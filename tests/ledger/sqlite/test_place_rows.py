"""The cached rows of places equal those of the ledger, however it grows."""

import numpy as np
import pytest

from ledgers import record
from local2.ledger.engines import Row
from local2.ledger.engines.sqlite import fulltext
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.fulltext import PlaceRows
from local2.ledger.operations.transactions import Transaction
from local2.ledger.operations.working_sets import Budget
from local2.memory.tenant import Memory


async def store_notes(memory: Memory, owner: str, count: int) -> None:
    await memory.ledger.records.store([record(f"Note {n}.", owner=owner) for n in range(count)])


async def counted(memory: Memory, rows: PlaceRows) -> list[tuple[int, int]]:
    """Return actual and expected row counts for both users, for nobody, and for all."""

    def read(connection: SqlConnection) -> list[Row]:
        return connection.execute("SELECT row, owner, place FROM record").fetchall()

    found = await memory.ledger._database.read(read)

    def count(tx: Transaction) -> list[tuple[int, int]]:
        every = np.array([row["row"] for row in found] + [0, 10**6], np.int64)
        places = {row["owner"]: row["place"] for row in found}
        return [
            (rows.count(tx, [place], every), sum(row["place"] == place for row in found))
            for place in (*places.values(), "nobody's")
        ] + [(rows.count(tx, places.values(), every), len(found))]

    return await memory.ledger._rows.read(count)


@pytest.mark.parametrize("max_new_rows", [0, 5_000], ids=["read again", "read further"])
@pytest.mark.parametrize("budget", [1, 2_000_000], ids=["one place at a time", "all"])
async def test_each_place_has_its_own_rows_including_new_ones(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, max_new_rows: int, budget: int
) -> None:
    monkeypatch.setattr(fulltext, "MAX_NEW_ROWS", max_new_rows)
    rows = PlaceRows(Budget(budget))
    for count in (3, 1, 20):
        await store_notes(memory, "ada", count)
        await store_notes(memory, "eve", 2 * count)

        results = await counted(memory, rows)

        assert len(results) == 4
        assert all(found == expected for found, expected in results), results
