"""Tasks on records: which are claimed next, which fail, and which are finished."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from ledgers import DAY, angle, fact, message, record, to_index, unjudged
from local2.ledger.ledger import Ledger
from local2.ledger.operations.backlog import MAX_PLACES
from local2.ledger.records import NewRecord, Task, TaskKind
from local2.protocol.maintenance import TaskCounts

JUDGED: tuple[TaskKind, ...] = ("judge",)
LATER = DAY + timedelta(seconds=10)


def facts(number: int, owner: str = "richard") -> list[NewRecord]:
    return [fact(f"Fact {n} of {owner}.", owner=owner, tasks=JUDGED) for n in range(number)]


async def claimed(
    ledger: Ledger, limit: int = 9, kind: TaskKind = "index", exclude: Sequence[Task] = ()
) -> list[Task]:
    return await ledger.backlog.claim({kind: limit}, now=DAY, exclude=exclude)


async def ids(ledger: Ledger, limit: int = 9, kind: TaskKind = "index") -> list[str]:
    return [task.id for task in await claimed(ledger, limit, kind)]


async def test_a_new_record_gets_its_tasks_and_a_known_one_gets_none(
    ledger: Ledger,
) -> None:
    one = fact("One.", tasks=JUDGED)
    for _ in range(2):
        await ledger.records.store([one])
    await ledger.facts.store(fact("One."))

    assert await ids(ledger) == await ids(ledger, kind="judge") == [one.id]


async def test_owners_take_turns_and_each_owners_newest_is_first(ledger: Ledger) -> None:
    eve, ann = facts(9, "eve"), facts(2, "ann")
    await ledger.records.store([*eve, *ann])

    expected = [ann[1], eve[8], ann[0], *eve[7:4:-1]]
    assert await ids(ledger, 6) == [one.id for one in expected]


async def test_a_fact_is_not_indexed_behind_the_messages_that_came_after_it(ledger: Ledger) -> None:
    one = fact("One.")
    messages = [message(f"Message {n}.") for n in range(9)]
    await ledger.records.store([one, *messages])

    assert set(await ids(ledger, 4)) == {one.id, *(each.id for each in messages[6:])}


async def test_the_oldest_fact_is_judged_first(ledger: Ledger) -> None:
    eve = facts(3, "eve")
    await ledger.records.store(eve)

    assert await ids(ledger, 9, "judge") == [one.id for one in eve]


async def test_claiming_one_task_at_a_time_serves_every_owner(ledger: Ledger) -> None:
    owners = [facts(3, f"user{n}") for n in range(2 * MAX_PLACES)]
    await ledger.records.store([one for each in owners for one in each])

    first: set[str] = set()
    for _ in owners:
        first.update(await ids(ledger, 1))

    assert first == {each[-1].id for each in owners}


async def test_tasks_under_way_are_not_claimed_again(ledger: Ledger) -> None:
    await ledger.records.store(facts(5))

    first = await claimed(ledger, 2)
    others = await claimed(ledger, 9, exclude=first)

    assert len({task.row for task in (*first, *others)}) == 5


async def test_an_owner_whose_only_task_is_under_way_is_skipped(ledger: Ledger) -> None:
    for owner in ("ann", "bob", "eve"):
        await ledger.records.store(facts(1, owner))
    hanging = await claimed(ledger, 1)

    others = [await claimed(ledger, 1, exclude=hanging) for _ in range(4)]

    assert all(others)
    assert hanging not in others


async def test_claimed_but_unfinished_tasks_can_be_claimed_again(ledger: Ledger) -> None:
    await ledger.records.store(facts(2))
    first = await claimed(ledger)

    again = await claimed(ledger)
    await ledger.backlog.finish(again[:1])

    assert again == first
    assert await claimed(ledger) == first[1:]


async def test_a_failed_task_waits_until_it_is_due_and_is_retried_alone(ledger: Ledger) -> None:
    await ledger.records.store(facts(3))
    newest, *others = await claimed(ledger)
    await ledger.backlog.postpone(newest, "refused", not_before=LATER)

    assert await claimed(ledger) == others
    assert await ledger.backlog.next_due("unindex", "index") == LATER
    due = await ledger.backlog.claim({"index": 9}, now=LATER, retry=True)
    assert [(task.row, task.attempts) for task in due] == [(newest.row, 1)]
    assert await ledger.backlog.claim({"index": 9}, now=LATER) == others, "unless others come first"
    await ledger.backlog.finish(others)
    assert await ledger.backlog.claim({"index": 9}, now=LATER) == due


async def test_tasks_set_aside_are_counted_with_reasons_and_can_be_retried_once(
    ledger: Ledger, other: Ledger
) -> None:
    for each in (ledger, other):
        await each.records.store(facts(4))
    first, second, third, last = await claimed(ledger)
    for task, reason in ((first, "refused"), (second, "refused"), (third, "no")):
        await ledger.backlog.postpone(task, "at first", not_before=LATER)
        await ledger.backlog.set_aside(task, reason)

    assert await claimed(ledger) == [last]
    assert await ledger.backlog.next_due("index") is None
    assert (await ledger.counts()).waiting == 1
    counts = {each.kind: each for each in await ledger.backlog.counts()}
    assert set(counts["index"].errors) == {"refused", "no"}
    assert (counts["index"].waiting, counts["index"].aside) == (1, 3)
    assert counts["judge"] == TaskCounts(kind="judge", waiting=4, aside=0)

    await ledger.backlog.try_again("index")
    attempts = [task.attempts for task in await claimed(ledger)]
    assert attempts == [1, 1, 1, 0], "one more failure sets them aside again"
    assert len(await claimed(other)) == 4


async def test_a_task_that_fails_after_its_withdrawal_stays_withdrawn(ledger: Ledger) -> None:
    await ledger.facts.store(fact("Vim.", topic="user.editor", tasks=JUDGED))
    (indexing,) = await claimed(ledger)
    (judging,) = await claimed(ledger, kind="judge")
    await ledger.facts.store(fact("Emacs.", topic="user.editor"))

    await ledger.backlog.postpone(indexing, "refused", not_before=LATER)
    await ledger.backlog.set_aside(judging, "refused")

    assert await unjudged(ledger) == []
    assert await ledger.backlog.next_due("index") is None
    assert [one.text for one in await to_index(ledger)] == ["user.editor: Emacs."]


async def test_a_vector_is_stored_in_one_transaction_with_its_task(ledger: Ledger) -> None:
    await ledger.records.store([record("One."), record("Two.")])
    waiting = await to_index(ledger)

    with pytest.raises(ValueError, match="shorter"):  # one vector is missing
        await ledger.index.store_vectors(waiting, [angle(0)], "plane")

    assert await to_index(ledger) == waiting


async def test_an_emptied_index_is_also_refilled_with_records_set_aside(ledger: Ledger) -> None:
    await ledger.records.store([record("One.")])
    (task,) = await claimed(ledger)
    await ledger.backlog.set_aside(task, "refused")

    await ledger.index.queue_all()

    assert await claimed(ledger) == [task]
