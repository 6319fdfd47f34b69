"""Log what callers are shown: the results of the memory's tools, and how often each record.

The results are logged with the records that they show, so that they are recognised when somebody
reports them. This log is bounded and lives in memory only: nothing is known about answers from
before `since`. Stacks that share a ledger tell each other what they answer, without its text.

The recalls of each record are counted, so that consolidation knows which are used, and each recall
is logged with its results where that is asked for (`recall_log_days`). Both are collected in memory
and written in batches, outside of any request. A kill loses those of the last seconds, which were
never acknowledged.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
import structlog

from local2.bounded_dict import BoundedDict
from local2.errors import StorageError
from local2.ledger.operations.showings import Showings
from local2.ledger.operations.upkeep import Upkeep
from local2.ledger.records import TENANT_OWNED
from local2.ledger.sessions import Showing
from local2.ledger.upkeep import Access
from local2.protocol.envelope import Caller, Clock

MAX_RESULTS = 10_000
"""Maximum number of results that are remembered, the latest ones."""
MAX_SESSIONS = 2_000
"""Maximum number of sessions for which the shown records are remembered."""
NO_SESSION = ""
"""Stands for the session of calls that name none."""
MAX_SHOWN = 100
"""Maximum number of shown records that are remembered per session, the latest ones."""
COMPARED = 2_000
"""Number of characters by which results are compared: agents report results cut and with other
white space."""
WRITE_SECONDS = 5.0
"""Seconds for which counts are collected before they are written."""
MAX_RECORDS = 10_000
"""Maximum number of records with a count in memory; others are not counted until these are
written."""
MAX_RECALLS = 2_000
"""Maximum number of recalls in memory; others are not logged until these are written."""
RECORDS_PER_TRANSACTION = 500
"""Number of records per transaction."""
RECALLS_PER_TRANSACTION = 50
"""Number of logged recalls per transaction; each has up to 20 records."""


log = structlog.get_logger()


class ShownAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A result of the memory's tools: its digest, and the ids of the records that it shows."""

    owner: str
    session_id: str
    digest: bytes
    ids: tuple[str, ...]


class AnswerLog:
    """Remembers the results of the memory's tools, and the ids of the records that they showed."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.tell_others: Callable[[ShownAnswer], None] | None = None
        """Tells the other stacks that share the ledger."""
        self._results = BoundedDict[bytes, tuple[str, ...]](MAX_RESULTS)
        self._sessions = BoundedDict[tuple[str, str], dict[str, None]](MAX_SESSIONS)

    def add(self, caller: Caller, tool: str, content: str, ids: Iterable[str]) -> None:
        """Log that a tool is about to answer `content`, which shows these records."""
        owner = caller.user or TENANT_OWNED
        answer = ShownAnswer(
            owner=owner,
            session_id=caller.session_id or NO_SESSION,
            digest=_digest(owner, tool, content),
            ids=tuple(ids),
        )
        self.note(answer)
        if self.tell_others is not None:
            self.tell_others(answer)

    def note(self, answer: ShownAnswer) -> None:
        """Log an answer of this stack or of another one."""
        self._results[answer.digest] = answer.ids
        if answer.ids:
            key = answer.owner, answer.session_id
            latest = dict.fromkeys((*self._sessions.get(key, ()), *answer.ids[:MAX_SHOWN]))
            self._sessions[key] = dict.fromkeys(list(latest)[-MAX_SHOWN:])

    def shown_in(self, owner: str, tool: str, content: str) -> tuple[str, ...] | None:
        """The ids of the records in a result; None if it is not a result of this memory."""
        return self._results.get(_digest(owner, tool, content))

    def shown_to(self, owner: str, session_id: str | None) -> tuple[str, ...]:
        """The ids of the records shown to a session, or in calls without a session."""
        keys = (owner, session_id or NO_SESSION), (owner, NO_SESSION)
        return tuple(dict.fromkeys(id_ for key in keys for id_ in self._sessions.get(key, ())))


def _digest(owner: str, tool: str, content: str) -> bytes:
    text = " ".join(content[: COMPARED * 2].split())[:COMPARED]
    return hashlib.blake2b(msgspec.json.encode((owner, tool, text)), digest_size=16).digest()


class AccessLog:
    """Counts the recalls of one tenant's records, and logs recalls where that is asked for."""

    def __init__(self, upkeep: Upkeep, showings: Showings, clock: Clock) -> None:
        self._upkeep = upkeep
        self._showings = showings
        self._clock = clock
        self._recalls: list[Showing] = []
        self._counts: dict[int, int] = {}
        self._some = asyncio.Event()

    def add(self, rows: Iterable[int]) -> None:
        """Count the records that were returned to a caller."""
        for row in rows:
            if row in self._counts or len(self._counts) < MAX_RECORDS:
                self._counts[row] = self._counts.get(row, 0) + 1
                self._some.set()

    def log(self, recall: Showing) -> None:
        """Log a recall with its results."""
        if len(self._recalls) < MAX_RECALLS:
            self._recalls.append(recall)
            self._some.set()

    async def run(self) -> None:
        """Write counts and recalls every few seconds until cancelled, and once more at the end."""
        try:
            while True:
                await self._some.wait()
                await asyncio.sleep(WRITE_SECONDS)
                await self.write()
        finally:
            await self.write()

    async def write(self) -> None:
        """Write the counts and recalls. Those that the ledger refuses are lost, and logged."""
        counts, self._counts, now = self._counts, {}, self._clock()
        recalls, self._recalls = self._recalls, []
        self._some.clear()
        for start in range(0, len(recalls), RECALLS_PER_TRANSACTION):
            batch = recalls[start : start + RECALLS_PER_TRANSACTION]
            try:
                await self._showings.add(batch)
            except StorageError as error:
                log.warning("recalls_not_logged", recalls=len(batch), reason=error.logged)
        rows = list(counts)
        for start in range(0, len(rows), RECORDS_PER_TRANSACTION):
            part = rows[start : start + RECORDS_PER_TRANSACTION]
            accesses = [Access(row=row, times=counts[row], last=now) for row in part]
            try:
                await self._upkeep.add_access(accesses)
            except StorageError as error:
                log.warning("accesses_not_counted", records=len(part), reason=error.logged)
