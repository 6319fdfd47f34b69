"""Count how often recall returns each record, so that consolidation knows which are used.

Counts are collected in memory and written in batches, outside of any request. A kill loses the
counts of the last seconds, which were never acknowledged.
"""

import asyncio
from collections.abc import Iterable

import structlog

from local.errors import StorageError
from local.ledger.door import Upkeep
from local.ledger.upkeep import Access
from local.protocol.envelope import Clock

WRITE_SECONDS = 5.0
"""Seconds for which counts are collected before they are written."""
MAX_RECORDS = 10_000
"""Maximum number of records with a count in memory; others are not counted until these are
written."""
RECORDS_PER_TRANSACTION = 500
"""Number of records per transaction."""

log = structlog.get_logger()


class AccessLog:
    """Counts the recalls of one tenant's records."""

    def __init__(self, upkeep: Upkeep, clock: Clock) -> None:
        self._upkeep = upkeep
        self._clock = clock
        self._counts: dict[int, int] = {}
        self._some = asyncio.Event()

    def add(self, rows: Iterable[int]) -> None:
        """Count the records that were returned to a caller."""
        for row in rows:
            if row in self._counts or len(self._counts) < MAX_RECORDS:
                self._counts[row] = self._counts.get(row, 0) + 1
                self._some.set()

    async def run(self) -> None:
        """Write the counts every few seconds until cancelled, and once more at the end."""
        try:
            while True:
                await self._some.wait()
                await asyncio.sleep(WRITE_SECONDS)
                await self.write()
        finally:
            await self.write()

    async def write(self) -> None:
        """Write the counts. Counts that the ledger refuses are lost, and logged."""
        counts, self._counts, now = self._counts, {}, self._clock()
        self._some.clear()
        rows = list(counts)
        for start in range(0, len(rows), RECORDS_PER_TRANSACTION):
            part = rows[start : start + RECORDS_PER_TRANSACTION]
            accesses = [Access(row=row, times=counts[row], last=now) for row in part]
            try:
                await self._upkeep.add_access(accesses)
            except StorageError as error:
                log.warning("accesses_not_counted", records=len(part), reason=error.logged)
