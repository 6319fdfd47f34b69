"""Tasks: what has yet to be done with a record after its write was acknowledged."""

from datetime import timedelta
from typing import Final, Literal, get_args

import msgspec

TaskKind = Literal["index", "unindex", "embed", "extract", "judge"]
"""`index`: put a record's vector into the index; `unindex`: take it out. `embed`: put its vector of
another embedder into the index that is filled to take the place of that one. `extract`: read a
message for facts. `judge`: compare a fact with older ones that it may contradict."""
OF_ACTIVE: Final = tuple(kind for kind in get_args(TaskKind) if kind != "unindex")
"""What is not to be done any more with a record that is superseded."""

LAST_RETRY = timedelta(seconds=100)
"""The longest that a task which has failed waits for another attempt."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do with one record. `attempts` counts how often it has failed by itself."""

    kind: TaskKind
    row: int
    """The record's."""
    id: str
    """The record's, for people."""
    attempts: int = 0


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of one kind: those that wait, also for another attempt, and those set aside.

    `errors` are the first different reasons why tasks were set aside.
    """

    kind: TaskKind
    waiting: int
    aside: int
    errors: tuple[str, ...] = ()
