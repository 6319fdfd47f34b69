"""Finished turns on their way to the memory: each is a file until JetStream has stored it.

So a turn is not lost where no stack runs, or the process that delivers it is killed; it goes with
the next one.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from local.hooks.sessions import write
from local.protocol.envelope import content_id


class FinishedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with its answer, whose it is and where it was given."""

    user: str | None
    agent: str
    session_id: str
    query_id: str
    query: str
    answer: str
    at: datetime
    project: str | None


class Outbox:
    """The folder of them. One that is `.taken` is being delivered, or was when that failed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, turn: FinishedTurn) -> None:
        """Store a turn; a later answer to its prompt takes its place."""
        name = content_id(turn.agent, turn.session_id, turn.query_id)
        write(self._folder / f"{name}.json", msgspec.json.encode(turn))

    @property
    def is_empty(self) -> bool:
        return not any(file.suffix in {".json", ".taken"} for file in self._folder.glob("*"))

    @contextmanager
    def delivering(self) -> Iterator[bool]:
        """Deliver while nobody else does; yields False if somebody does."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def take(self) -> Iterator[tuple[Path, FinishedTurn]]:
        """Every turn with its file, which whoever delivers it removes.

        What is put meanwhile has a file of its own. One that holds no turn is put aside.
        """
        for file in self._folder.glob("*.json"):
            file.replace(file.with_suffix(".taken"))
        for file in sorted(self._folder.glob("*.taken"), key=lambda one: one.stat().st_mtime_ns):
            try:
                yield file, msgspec.json.decode(file.read_bytes(), type=FinishedTurn)
            except msgspec.MsgspecError:
                file.replace(file.with_suffix(".unreadable"))
