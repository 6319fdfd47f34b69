"""Selects the next tasks of one tenant, and reschedules those that fail.

A task is added in the transaction that stores its record (`records.py`), and deleted in the one
that stores its effect. If only one stack writes the ledger, tasks in progress are known in memory
alone: after a kill, every unfinished task is simply waiting. If several do, a claim is written, and
holds as long as its stack lives; an effect is stored only by the stack that still has the claim.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from heapq import merge
from itertools import chain, islice, zip_longest

import msgspec

from local2.errors import StorageError, TaskTakenError
from local2.ledger.operations.places import owner_of
from local2.ledger.operations.transactions import (
    Part,
    TenantRows,
    Transaction,
    as_json,
    reads,
    writes_of,
)
from local2.ledger.records import LONGEST_RETRY_DELAY, Task, TaskKind, stamp
from local2.protocol.maintenance import TaskCounts, TaskFailure

MAX_PLACES = 16
"""Maximum number of places that one claim takes tasks from; the next claim continues after them."""
BEFORE_ALL = ""
"""The place word before all others."""
OLDEST_FIRST: frozenset[TaskKind] = frozenset({"extract", "judge"})
"""Kinds whose oldest tasks are claimed first, because later statements replace earlier ones; of
other kinds, the newest tasks are claimed first."""
PAGE = 1_000
"""Maximum number of rows that one transaction changes, so that writes do not wait long for it."""
MAX_ERRORS = 3
"""Maximum number of distinct reasons reported for tasks that were set aside, among the first `PAGE`
of them."""


def finish_claimed(tx: Transaction, kind: TaskKind, row: int) -> None:
    """Finish a task in the transaction that stores its effect.

    That of a record that was retired meanwhile was withdrawn: nothing of such a record is stored.

    Raises:
        TaskTakenError: Another stack does it, or has done it: the effect must not be stored.
    """
    finished = tx.execute("finish_task", kind=kind, row=row).rowcount
    if tx.is_shared and not finished and tx.execute("active_row", row=row).fetchone():
        raise TaskTakenError(f"The task {kind} of row {row} is another stack's.")


class TaskQueue(Part):
    """The waiting tasks; owners take turns."""

    def __init__(self, rows: TenantRows) -> None:
        super().__init__(rows)
        self._places: defaultdict[TaskKind, str] = defaultdict(lambda: BEFORE_ALL)

    async def claim(
        self,
        limits: Mapping[TaskKind, int],
        *,
        now: datetime,
        exclude: Collection[Task] = (),
        retry: bool = False,
    ) -> list[Task]:
        """Tasks of the first kind that has any, shared fairly between owners.

        A task that failed before is returned alone: first if `retry` is true, otherwise when no
        other task waits.

        Args:
            limits: Maximum number of tasks of each kind.
            now: Decides whether a failed task is due. A task whose remaining wait exceeds the
                longest delay is due, too: the clock was ahead when it failed.
            exclude: Tasks in progress, which are skipped.
            retry: Whether tasks that failed before come first.
        """

        def claim(tx: Transaction) -> list[Task]:
            for kind, limit in limits.items():
                busy = [task.row for task in exclude if task.kind == kind]
                while True:
                    due = tx.execute(
                        "due_task",
                        kind=kind,
                        now=stamp(now),
                        latest=stamp(now + LONGEST_RETRY_DELAY),
                        exclude=as_json(busy),
                    ).fetchone()
                    failed = [due["record"]] if due else []
                    rows = failed if retry else []
                    rows = rows or self._waiting_rows(tx, kind, limit, as_json(busy)) or failed
                    if not rows:
                        break
                    found = tx.execute("tasks", kind=kind, rows=as_json(rows)).fetchall()
                    if found:
                        return [
                            Task(
                                kind=kind,
                                row=row["record"],
                                id=row["id"],
                                attempts=row["attempts"],
                            )
                            for row in found
                        ]
                    busy += rows  # another stack is claiming them at this moment
            return []

        if self._rows.is_shared:
            return await self._rows.resting_on(()).write(claim)
        return await self._rows.read(claim)

    async def give_back(self, tasks: Sequence[Task]) -> None:
        """Let any stack do tasks that this one claimed and cannot do at present."""
        if not self._rows.is_shared:
            return
        rows = as_json([task.row for task in tasks])
        with suppress(StorageError):  # this stack tries them again, as long as it lives
            await self._rows.resting_on(()).change("give_back_tasks", kind=tasks[0].kind, rows=rows)

    @asynccontextmanager
    async def claimed_work(self, name: str) -> AsyncIterator[bool]:
        """Claim work that one stack at a time does; yield whether this one may do it.

        Callers must see to it that this stack itself does it once at a time.
        """
        if not self._rows.is_shared:
            yield True
            return
        rows = self._rows.resting_on(())
        is_claimed = await rows.change("claim_work", name=name) > 0
        try:
            yield is_claimed
        finally:
            if is_claimed:
                with suppress(StorageError):  # it is free once this stack has ended
                    await rows.change("give_back_work", name=name)

    def _waiting_rows(self, tx: Transaction, kind: TaskKind, limit: int, exclude: str) -> list[int]:
        """The rows of the next waiting tasks, taken from each owner in turn.

        Where the newest come first, an owner's places take turns, too: a fact does not wait behind
        all parts of a long output. Where the oldest do, their order counts across places.
        """
        statement = "oldest_tasks" if kind in OLDEST_FIRST else "newest_tasks"
        places: dict[str, None] = {}
        for after in (self._places[kind], BEFORE_ALL):  # continuing after the last claim
            left = min(limit, MAX_PLACES) - len(places)
            found = tx.execute("task_places", kind=kind, after=after, limit=left, exclude=exclude)
            places.update((row["place"], None) for row in found)
        self._places[kind] = next(reversed(places), BEFORE_ALL)
        owners: defaultdict[str, list[list[int]]] = defaultdict(list)
        for place in places:
            found = tx.execute(statement, kind=kind, place=place, limit=limit, exclude=exclude)
            owners[owner_of(place)].append([row["record"] for row in found])
        ordered = merge if kind in OLDEST_FIRST else _in_turn
        return list(islice(_in_turn(*(ordered(*queues) for queues in owners.values())), limit))

    @reads
    def next_due(self, tx: Transaction, *kinds: TaskKind) -> datetime | None:
        """When the next failed task is to be tried again, None without any."""
        rows = [tx.execute("next_due", kind=kind).fetchone() for kind in kinds]
        due = min((row["due"] for row in rows if row["due"]), default=None)
        return datetime.fromisoformat(due) if due else None

    @writes_of(lambda _: [])
    def finish(self, tx: Transaction, tasks: Sequence[Task]) -> None:
        """Delete tasks whose effect is outside the ledger.

        Other tasks are deleted in the transaction that stores their effect. A record that was
        restored while it was removed from the index is indexed again.
        """
        for task in tasks:
            tx.execute("finish_task", kind=task.kind, row=task.row)
            if task.kind == "unindex":
                tx.execute("index_active", row=task.row)

    async def postpone(self, task: Task, error: str, *, not_before: datetime) -> None:
        """Count a failure, and schedule another attempt, in which the task is alone."""
        await self._record_failure(task, "later", error, stamp(not_before))

    async def set_aside(self, task: Task, error: str) -> None:
        """Count a failure, and stop trying the task."""
        await self._record_failure(task, "aside", error, None)

    async def _record_failure(
        self, task: Task, state: str, error: str, not_before: str | None
    ) -> None:
        await self._rows.resting_on(()).change(
            "fail_task",
            kind=task.kind,
            row=task.row,
            state=state,
            error=error,
            not_before=not_before,
        )

    async def try_again(self, *kinds: TaskKind, ids: Sequence[str] | None = None) -> int:
        """Give tasks that were set aside one more attempt: all, or those of the records `ids`."""
        return await self._change_those_aside("try_again", kinds, ids)

    async def discard(self, *kinds: TaskKind, ids: Sequence[str] | None = None) -> int:
        """Delete tasks that were set aside: all, or those of the records `ids`."""
        return await self._change_those_aside("discard_tasks", kinds, ids)

    async def _change_those_aside(
        self, statement: str, kinds: Sequence[TaskKind], ids: Sequence[str] | None
    ) -> int:
        rows = None
        if ids is not None:
            named = as_json(ids)
            found = await self._rows.read(
                lambda tx: tx.execute("rows_with_ids", ids=named).fetchall()
            )
            rows = as_json([row["row"] for row in found])
        total = 0
        tasks = self._rows.resting_on(())
        for kind in kinds:
            while changed := await tasks.change(statement, kind=kind, rows=rows, limit=PAGE):
                total += changed
        return total

    @reads
    def failed(self, tx: Transaction, kind: TaskKind, limit: int) -> list[TaskFailure]:
        """Tasks of a kind that failed, at most `limit`; first those that were set aside."""
        found: list[TaskFailure] = []
        for state in ("aside", "later"):
            rows = tx.execute("failed_tasks", kind=kind, state=state, limit=limit - len(found))
            found += [msgspec.convert(dict(row), TaskFailure) for row in rows]
        return found

    @reads
    def counts(self, tx: Transaction) -> list[TaskCounts]:
        """The number of tasks of each kind, and the reasons why some were set aside."""
        counts = []
        for row in tx.execute("count_tasks").fetchall():
            kind, aside = row["kind"], row["aside"]
            errors: list[str] = []
            if aside:
                found = tx.execute("errors_of_tasks", kind=kind, read=PAGE, limit=MAX_ERRORS)
                errors = [error["error"] for error in found]
            waiting = row["tasks"] - aside
            counts.append(TaskCounts(kind=kind, waiting=waiting, aside=aside, errors=tuple(errors)))
        return counts


def _in_turn(*queues: Iterable[int]) -> Iterator[int]:
    """Yield one row of each queue, then the next of each."""
    turns = chain.from_iterable(zip_longest(*queues))
    return (row for row in turns if row is not None)
