"""The rows of places in memory are those of the ledger, however it grows meanwhile."""

import numpy as np
import pytest

from local.ledger.records import NewRecord
from local.ledger.sqlite import working_sets
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.working_sets import Budget, PlaceRows
from local.memory.tenant import Memory
from local.protocol.envelope import new_id
from recalling import DAY


async def written(memory: Memory, owner: str, count: int) -> None:
    records = [
        NewRecord(id=new_id(), kind="episode", owner=owner, content=f"Note {n}.", event_time=DAY)
        for n in range(count)
    ]
    await memory.ledger.records.store(records)


async def counted(memory: Memory, rows: PlaceRows) -> list[tuple[int, int]]:
    """For both users and for nobody: how many of the ledger's rows are theirs, and should be."""

    def count(connection: SqlConnection) -> list[tuple[int, int]]:
        found: list[Row] = connection.execute("SELECT row, owner, place FROM record").fetchall()
        every = np.array([row["row"] for row in found] + [0, 10**6], np.int64)
        places = {row["owner"]: row["place"] for row in found}
        return [
            (rows.count(connection, [place], every), sum(row["place"] == place for row in found))
            for place in (*places.values(), "nobody's")
        ] + [(rows.count(connection, places.values(), every), len(found))]

    return await memory.ledger._rows.read(count)


@pytest.mark.parametrize("few", [0, 5_000], ids=["read anew", "read on"])
@pytest.mark.parametrize("kept", [1, 2_000_000], ids=["one place at a time", "all"])
async def test_each_place_has_its_own_rows_and_those_that_come(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, few: int, kept: int
) -> None:
    monkeypatch.setattr(working_sets, "MAX_NEW_ROWS", few)
    rows = PlaceRows(memory.ledger._rows, Budget(kept))
    for count in (3, 1, 20):
        await written(memory, "ada", count)
        await written(memory, "eve", 2 * count)

        results = await counted(memory, rows)

        assert len(results) == 4
        assert all(found == expected for found, expected in results), results
