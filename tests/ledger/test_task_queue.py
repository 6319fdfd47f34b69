"""What has yet to be done with records: whose turn it is, what fails, and what is done."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from ledgers import DAY, angle, fact, message, record, to_index, unjudged
from local.ledger.door import Ledger
from local.ledger.records import NewRecord, Task, TaskCounts, TaskKind
from local.ledger.sqlite.backlog import MAX_PLACES

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


async def test_a_record_brings_its_tasks_and_what_is_there_already_brings_none(
    ledger: Ledger,
) -> None:
    one = fact("One.", tasks=JUDGED)
    for _ in range(2):
        await ledger.records.store([one])
    await ledger.facts.store(fact("One."))

    assert await ids(ledger) == await ids(ledger, kind="judge") == [one.id]


async def test_what_is_not_searched_is_not_indexed_and_may_bring_other_tasks(
    ledger: Ledger,
) -> None:
    one = message("You help.", kind="transcript", tasks=JUDGED)
    await ledger.records.store([one])

    assert (await ids(ledger), await ids(ledger, kind="judge")) == ([], [one.id])


async def test_owners_have_turns_and_each_ones_newest_comes_first(ledger: Ledger) -> None:
    eve, ann = facts(9, "eve"), facts(2, "ann")
    await ledger.records.store([*eve, *ann])

    expected = [ann[1], eve[8], ann[0], *eve[7:4:-1]]
    assert await ids(ledger, 6) == [one.id for one in expected]


async def test_of_facts_to_be_judged_the_oldest_comes_first(ledger: Ledger) -> None:
    eve = facts(3, "eve")
    await ledger.records.store(eve)

    assert await ids(ledger, 9, "judge") == [one.id for one in eve]


async def test_who_asks_for_one_task_at_a_time_serves_every_owner(ledger: Ledger) -> None:
    owners = [facts(3, f"user{n}") for n in range(2 * MAX_PLACES)]
    await ledger.records.store([one for each in owners for one in each])

    first: set[str] = set()
    for _ in owners:
        first.update(await ids(ledger, 1))

    assert first == {each[-1].id for each in owners}


async def test_what_is_under_way_is_not_claimed_again(ledger: Ledger) -> None:
    await ledger.records.store(facts(5))

    first = await claimed(ledger, 2)
    others = await claimed(ledger, 9, exclude=first)

    assert len({task.row for task in (*first, *others)}) == 5


async def test_who_has_nothing_but_what_is_under_way_is_passed_over(ledger: Ledger) -> None:
    for owner in ("ann", "bob", "eve"):
        await ledger.records.store(facts(1, owner))
    hanging = await claimed(ledger, 1)

    others = [await claimed(ledger, 1, exclude=hanging) for _ in range(4)]

    assert all(others)
    assert hanging not in others


async def test_what_was_claimed_and_not_finished_waits_after_a_restart(ledger: Ledger) -> None:
    await ledger.records.store(facts(2))
    first = await claimed(ledger)

    again = await claimed(ledger)
    await ledger.backlog.finish(again[:1])

    assert again == first
    assert await claimed(ledger) == first[1:]


async def test_what_failed_waits_until_it_is_due_and_comes_alone(ledger: Ledger) -> None:
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


async def test_what_is_set_aside_is_counted_with_its_reasons_and_may_be_tried_once_more(
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


async def test_what_fails_after_it_was_withdrawn_stays_withdrawn(ledger: Ledger) -> None:
    await ledger.facts.store(fact("Vim.", topic="user.editor", tasks=JUDGED))
    (indexing,) = await claimed(ledger)
    (judging,) = await claimed(ledger, kind="judge")
    await ledger.facts.store(fact("Emacs.", topic="user.editor"))

    await ledger.backlog.postpone(indexing, "refused", not_before=LATER)
    await ledger.backlog.set_aside(judging, "refused")

    assert await unjudged(ledger) == []
    assert await ledger.backlog.next_due("index") is None
    assert [one.text for one in await to_index(ledger)] == ["user.editor: Emacs."]


async def test_a_vector_and_its_task_are_one_transaction(ledger: Ledger) -> None:
    await ledger.records.store([record("One."), record("Two.")])
    waiting = await to_index(ledger)

    with pytest.raises(ValueError, match="shorter"):  # one vector is missing
        await ledger.index.store_vectors(waiting, [angle(0)], "plane")

    assert await to_index(ledger) == waiting


async def test_an_emptied_index_is_filled_with_what_was_set_aside_too(ledger: Ledger) -> None:
    await ledger.records.store([record("One.")])
    (task,) = await claimed(ledger)
    await ledger.backlog.set_aside(task, "refused")

    await ledger.index.queue_all()

    assert await claimed(ledger) == [task]
