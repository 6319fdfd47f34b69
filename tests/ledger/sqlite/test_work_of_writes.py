"""What SQLite does for a write grows with the write, and no faster."""

from functools import partial

import pytest

from ledgers import message
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations import turns

STEPS = 100
"""Instructions of SQLite's virtual machine that are counted at a time."""


@pytest.mark.parametrize("asked_next", [False, True], ids=["alone", "before another question"])
async def test_a_turn_of_four_times_as_many_calls_takes_some_four_times_the_work(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, asked_next: bool
) -> None:
    monkeypatch.setattr(turns, "RECORDS_PER_TRANSACTION", 100)
    work = 0

    def count() -> int:
        nonlocal work
        work += 1
        return 0

    def watch(connection: SqlConnection) -> None:
        connection.set_progress_handler(count, STEPS)

    await database.write(watch, owner="default")

    async def work_of(calls: int) -> int:
        nonlocal work
        of_turn = partial(message, session_id=f"of {calls}", query_id="q1")
        question = of_turn("How heavy are they?", id=f"q{calls}", turn=f"q{calls}", pending=True)
        await ledger.unreported.store(question)
        if asked_next:
            await ledger.unreported.store(of_turn("And now?", query_id="q2", id=f"n{calls}"))
        outputs = [
            of_turn(f"{n} g", kind="tool_output", role="tool", source_ref=f"c{n}", turn=f"q{calls}")
            for n in range(calls)
        ]
        work = 0
        added = 0
        for part in turns.parts_of([question, *outputs]):
            added += sum(record.was_new for record in await ledger.turns.store(part))
        assert added == calls
        return work

    ledger = Ledger(database, "default")
    few, many = await work_of(200), await work_of(800)
    assert few < many < 5 * few
