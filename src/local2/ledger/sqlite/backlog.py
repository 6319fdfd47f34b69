"""Selects the next tasks of one tenant, and reschedules those that fail.

A task is added in the transaction that stores its record (`rows.py`), and deleted in the one that
stores its effect. Only one process writes the ledger, so tasks in progress are known in memory
alone: after a kill, every unfinished task is simply waiting.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import chain, islice, zip_longest

from local2.ledger.records import LONGEST_RETRY_DELAY, Task, TaskCounts, TaskKind, stamp
from local2.ledger.sqlite.database import SqlConnection
from local2.ledger.sqlite.rows import TenantRows, as_json
from local2.ledger.sqlite.working_sets import owner_of

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


class TaskQueue:
    """The waiting tasks; owners take turns."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows
        self._places: defaultdict[TaskKind, str] = defaultdict(lambda: BEFORE_ALL)

    async def claim(
        self,
        limits: Mapping[TaskKind, int],
        *,
        now: datetime,
        exclude: Collection[Task] = (),
        retry: bool = False,
    ) -> list[Task]:
        """Return tasks of the first kind that has any, shared fairly between owners.

        A task that failed before is returned alone: first if `retry` is true, otherwise when no
        other task waits.

        Args:
            limits: Maximum number of tasks of each kind.
            now: Decides whether a failed task is due. A task whose remaining wait exceeds the
                longest delay is due, too: the clock was ahead when it failed.
            exclude: Tasks in progress, which are skipped.
            retry: Whether tasks that failed before come first.
        """

        def take(connection: SqlConnection) -> list[Task]:
            for kind, limit in limits.items():
                busy = as_json([task.row for task in exclude if task.kind == kind])
                due = self._rows.execute(
                    connection,
                    "due_task",
                    kind=kind,
                    now=stamp(now),
                    latest=stamp(now + LONGEST_RETRY_DELAY),
                    exclude=busy,
                ).fetchone()
                rows = [due["record"]] if due and retry else []
                rows = rows or self._next_rows(connection, kind, limit, busy)
                if rows := rows or ([due["record"]] if due else []):
                    return self._tasks(connection, kind, rows)
            return []

        return await self._rows.read(take)

    def _tasks(self, connection: SqlConnection, kind: TaskKind, rows: list[int]) -> list[Task]:
        found = self._rows.execute(connection, "tasks", kind=kind, rows=as_json(rows))
        return [
            Task(kind=kind, row=row["record"], id=row["id"], attempts=row["attempts"])
            for row in found
        ]

    def _next_rows(
        self, connection: SqlConnection, kind: TaskKind, limit: int, exclude: str
    ) -> list[int]:
        """Return the rows of the next tasks, taken from each owner in turn."""
        statement = "oldest_tasks" if kind in OLDEST_FIRST else "newest_tasks"
        owners: defaultdict[str, list[list[int]]] = defaultdict(list)
        for place in self._next_places(connection, kind, min(limit, MAX_PLACES), exclude):
            found = self._rows.execute(
                connection, statement, kind=kind, place=place, limit=limit, exclude=exclude
            )
            owners[owner_of(place)].append([row["record"] for row in found])
        queues = [merge(*queues, reverse=kind not in OLDEST_FIRST) for queues in owners.values()]
        turns = chain.from_iterable(zip_longest(*queues))
        return list(islice((row for row in turns if row is not None), limit))

    def _next_places(
        self, connection: SqlConnection, kind: TaskKind, limit: int, exclude: str
    ) -> list[str]:
        """Return the next places that have waiting tasks, continuing after the last claim."""
        places: dict[str, None] = {}
        for after in (self._places[kind], BEFORE_ALL):
            left = limit - len(places)
            found = self._rows.execute(
                connection, "task_places", kind=kind, after=after, limit=left, exclude=exclude
            )
            places.update((row["place"], None) for row in found)
        self._places[kind] = next(reversed(places), BEFORE_ALL)
        return list(places)

    async def next_due(self, *kinds: TaskKind) -> datetime | None:
        """Return when the next failed task is to be tried again, None without any."""

        def look(connection: SqlConnection) -> str | None:
            rows = [
                self._rows.execute(connection, "next_due", kind=kind).fetchone() for kind in kinds
            ]
            return min((row["due"] for row in rows if row["due"]), default=None)

        due = await self._rows.read(look)
        return datetime.fromisoformat(due) if due else None

    async def finish(self, tasks: Sequence[Task]) -> None:
        """Delete tasks whose effect is outside the ledger.

        Other tasks are deleted in the transaction that stores their effect. A record that was
        restored while it was removed from the index is indexed again.
        """

        def finish(connection: SqlConnection) -> None:
            for task in tasks:
                self._rows.execute(connection, "finish_task", kind=task.kind, row=task.row)
                if task.kind == "unindex":
                    self._rows.execute(connection, "index_active", row=task.row)

        await self._rows.write(finish)

    async def postpone(self, task: Task, error: str, *, not_before: datetime) -> None:
        """Count a failure, and schedule another attempt, in which the task is alone."""
        await self._record_failure(task, "later", error, stamp(not_before))

    async def set_aside(self, task: Task, error: str) -> None:
        """Count a failure, and stop trying the task."""
        await self._record_failure(task, "aside", error, None)

    async def _record_failure(
        self, task: Task, state: str, error: str, not_before: str | None
    ) -> None:
        await self._rows.change(
            "fail_task",
            kind=task.kind,
            row=task.row,
            state=state,
            error=error,
            not_before=not_before,
        )

    async def try_again(self, *kinds: TaskKind) -> None:
        """Give every task that was set aside one more attempt."""
        for kind in kinds:
            while await self._rows.change("try_again", kind=kind, limit=PAGE) == PAGE:
                pass

    async def counts(self) -> list[TaskCounts]:
        """Return the number of tasks of each kind, and the reasons why some were set aside."""

        def count(connection: SqlConnection) -> list[TaskCounts]:
            return [
                TaskCounts(
                    kind=row["kind"],
                    waiting=row["tasks"] - row["aside"],
                    aside=row["aside"],
                    errors=self._errors(connection, row["kind"]) if row["aside"] else (),
                )
                for row in self._rows.execute(connection, "count_tasks").fetchall()
            ]

        return await self._rows.read(count)

    def _errors(self, connection: SqlConnection, kind: TaskKind) -> tuple[str, ...]:
        found = self._rows.execute(
            connection, "errors_of_tasks", kind=kind, read=PAGE, limit=MAX_ERRORS
        )
        return tuple(row["error"] for row in found)
