"""Count how often each record is recalled, and log the recalls where that is asked for.

Consolidation learns from the counts which records are used; recalls are logged with their results
(`recall_log_days`). Both are collected in memory and written in batches, outside of any request. A
kill loses those of the last seconds, which were never acknowledged.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice

import structlog

from local2.errors import StorageError
from local2.ledger.operations.showings import Showing, Showings
from local2.ledger.operations.upkeep import Access, Upkeep
from local2.protocol.envelope import Clock

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


class AccessLog:
    """Counts the recalls of one tenant's records, and logs recalls where that is asked for."""

    def __init__(self, upkeep: Upkeep, showings: Showings, clock: Clock) -> None:
        self._upkeep = upkeep
        self._showings = showings
        self._clock = clock
        self._recalls: list[Showing] = []
        self._counts: dict[int, int] = {}
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()

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
        async with self._writing:  # whoever awaits this then reads all that was added before
            now = self._clock()
            while self._recalls:
                batch = self._recalls[:RECALLS_PER_TRANSACTION]
                del self._recalls[:RECALLS_PER_TRANSACTION]
                try:
                    await self._showings.add(batch)
                except StorageError as error:
                    log.warning("recalls_not_logged", recalls=len(batch), reason=error.logged)
            while self._counts:
                rows = list(islice(self._counts, RECORDS_PER_TRANSACTION))
                accesses = [Access(row=row, times=self._counts.pop(row), last=now) for row in rows]
                try:
                    await self._upkeep.add_access(accesses)
                except StorageError as error:
                    log.warning("accesses_not_counted", records=len(rows), reason=error.logged)
            self._some.clear()  # not before: a request that is cancelled here leaves the rest
