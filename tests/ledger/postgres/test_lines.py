"""Writes of one stack that rest on the same wait in line, and not with a connection each."""

import asyncio
from datetime import timedelta

import pytest

from ledger.postgres.conftest import another_stack_writes
from ledgers import OWNER, fact
from local2.ledger.engines.postgres.database import CONNECTIONS, Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.transactions import Transaction
from local2.protocol.envelope import utc_now
from local2.protocol.tool import caller_waits_until

PATIENCE = 30.0
"""Seconds after which what should not wait has failed."""


class Writes:
    """Writes of one owner, in the order in which they are done."""

    def __init__(self, ledger: Ledger) -> None:
        self._rows = ledger._rows.resting_on([OWNER])
        self.done = list[str]()

    async def do(self, name: str, *, for_a_caller: bool = False) -> None:
        """Write; called in a task of its own."""

        def work(tx: Transaction) -> None:
            tx.execute("last_row").fetchone()
            self.done.append(name)

        if for_a_caller:
            caller_waits_until.set(utc_now() + timedelta(seconds=PATIENCE))
        await self._rows.write(work)

    async def do_all(self, *names: str) -> None:
        """Do writes that begin in this order; callers await those that are calls."""
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(self.do(name, for_a_caller=name.startswith("call")))


async def test_a_read_does_not_wait_for_writes_that_wait_for_another_stack(
    url: str, here: Database, ledger: Ledger
) -> None:
    writes, names = Writes(ledger), [f"turn {number}" for number in range(3 * CONNECTIONS)]

    async with another_stack_writes(url, here):
        writing = asyncio.create_task(writes.do_all(*names))
        async with asyncio.timeout(PATIENCE):
            await ledger.backlog.counts()  # meanwhile, the writes begin
            await ledger.backlog.counts()
        assert writes.done == []

    await writing
    assert writes.done == names


async def test_a_read_does_not_wait_for_an_erasure_of_another_stack(
    url: str, here: Database, ledger: Ledger
) -> None:
    facts = [fact("Gold.", owner=f"user{number}") for number in range(3 * CONNECTIONS)]

    async with another_stack_writes(url, here, "lock_tenant"):
        writing = asyncio.gather(*map(ledger.facts.store, facts))
        async with asyncio.timeout(PATIENCE):
            await ledger.backlog.counts()  # meanwhile, the writes begin
            assert await ledger.backlog.counts() == []

    assert all(written.was_new for written in await writing)


async def test_what_callers_await_and_what_is_stored_in_the_background_take_turns(
    url: str, here: Database, ledger: Ledger
) -> None:
    writes = Writes(ledger)
    turns = [f"turn {number}" for number in range(6)]

    async with another_stack_writes(url, here):
        writing = asyncio.create_task(writes.do_all(*turns, "call 1", "call 2", "call 3"))
        for _ in range(9):
            await asyncio.sleep(0)

    await writing
    assert writes.done == [
        "turn 0",
        "call 1",
        "turn 1",
        "call 2",
        "turn 2",
        "call 3",
        "turn 3",
        "turn 4",
        "turn 5",
    ]


async def test_a_write_that_is_cancelled_in_line_is_not_done_and_holds_up_nobody(
    url: str, here: Database, ledger: Ledger
) -> None:
    writes = Writes(ledger)

    async with another_stack_writes(url, here):
        first, second, third = (
            asyncio.create_task(writes.do(name)) for name in ("first", "second", "third")
        )
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(PATIENCE):
                await second

    await asyncio.gather(first, third)
    assert writes.done == ["first", "third"]
