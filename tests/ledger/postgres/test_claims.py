"""What one stack has claimed no other does, until that one is dead; then another does it, once."""

import asyncio

import pytest

from ledgers import fact
from local2.errors import TaskTakenError
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import Task
from local2.protocol.envelope import utc_now

DIES = "UPDATE stack SET seen_at = seen_at - interval '1 minute' WHERE id = %(stack)s"


async def live(database: Database) -> list[tuple[str, str]]:
    """Say that a stack lives; return what nobody does."""
    return list(await database.say_alive("test", utc_now()))


async def die(database: Database) -> None:
    await database.read(lambda c: c.execute(DIES, {}))


async def claim(ledger: Ledger, limit: int = 9) -> list[Task]:
    return await ledger.backlog.claim({"judge": limit}, now=utc_now())


async def test_stacks_that_claim_at_the_same_time_share_the_tasks(url: str) -> None:
    async with Database.open(url) as one, Database.open(url) as two, Database.open(url) as three:
        stacks = [one, two, three]
        await asyncio.gather(*map(live, stacks))
        facts = [fact(f"Fact {number}.", tasks=("judge",)) for number in range(90)]
        await Ledger(one, "default").records.store(facts)

        async def claim_all(database: Database) -> list[Task]:
            ledger, mine = Ledger(database, "default"), list[Task]()
            while new := await ledger.backlog.claim({"judge": 4}, now=utc_now(), exclude=mine):
                mine += new
            return mine

        claimed = await asyncio.gather(*map(claim_all, stacks))

        assert sorted(task.id for tasks in claimed for task in tasks) == sorted(
            record.id for record in facts
        )
        assert await live(one) == [("default", "index")]


async def test_a_dead_stacks_task_is_another_ones_and_done_once(
    here: Database, there: Database, ledger: Ledger, theirs: Ledger
) -> None:
    await live(here), await live(there)
    older, newer = fact("Gold.", topic="user.metal"), fact("Lead.", tasks=("judge",))
    await ledger.records.store([older, newer])
    (task,) = await claim(ledger)
    assert await claim(theirs) == []
    assert ("default", "judge") not in await live(there)
    stored, replaced = (await ledger.records.by_id([newer.id, older.id])).values()

    await die(here)
    assert ("default", "judge") in await live(there)
    assert await claim(theirs) == [task]

    with pytest.raises(TaskTakenError):
        await ledger.facts.judge(stored, replaces=[replaced], agent="judge")
    assert await ledger.facts.topic("user", older.owner, "user.metal") is not None
    assert len(await theirs.facts.judge(stored, replaces=[replaced], agent="judge")) == 1
    with pytest.raises(TaskTakenError):
        await ledger.facts.judge(stored, contradicts=[replaced], agent="judge")


async def test_a_task_that_is_given_back_is_anybodys(
    here: Database, there: Database, ledger: Ledger, theirs: Ledger
) -> None:
    await live(here), await live(there)
    await ledger.records.store([fact("Gold.", tasks=("judge",))])
    claimed = await claim(ledger)
    assert await claim(theirs) == []

    await ledger.backlog.give_back(claimed)

    assert await claim(theirs) == claimed


async def test_one_stack_at_a_time_does_work_and_a_dead_one_does_none(
    here: Database, there: Database, ledger: Ledger, theirs: Ledger
) -> None:
    await live(here), await live(there)

    async with ledger.backlog.claimed_work("consolidation") as may_do:
        assert may_do
        async with theirs.backlog.claimed_work("consolidation") as may_do_too:
            assert not may_do_too
        async with Ledger(there, "other").backlog.claimed_work("consolidation") as of_another:
            assert of_another
        await die(here)
        async with theirs.backlog.claimed_work("consolidation") as takes_over:
            assert takes_over
    async with theirs.backlog.claimed_work("consolidation") as afterwards:
        assert afterwards


async def test_stacks_see_each_other_until_they_end(here: Database, url: str) -> None:
    await live(here)
    async with Database.open(url) as there:
        await there.say_alive("other", utc_now())
        assert [stack.name for stack in await here.live_stacks()] == ["test", "other"]

    assert [stack.name for stack in await here.live_stacks()] == ["test"]
    assert here.secret == there.secret != ""
