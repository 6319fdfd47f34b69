"""Counts what recall returned, so that consolidation knows which memories are used.

Counts are collected in memory and written together, outside of any request: a kill loses those of
the last seconds, which no promise covers.
"""

import asyncio
from collections.abc import Iterable

import structlog

from local.errors import StorageError
from local.ledger.door import Upkeep
from local.ledger.upkeep import Access
from local.protocol.envelope import Clock

EVERY = 5.0
"""Seconds for which counts are collected."""
MOST = 10_000
"""Records whose counts are held; recalls of others are not counted until these are written."""
TOGETHER = 500
"""Records of one transaction."""

log = structlog.get_logger()


class AccessLog:
    """One tenant's counts of recalls."""

    def __init__(self, upkeep: Upkeep, clock: Clock) -> None:
        self._upkeep = upkeep
        self._clock = clock
        self._counts: dict[int, int] = {}
        self._some = asyncio.Event()

    def add(self, rows: Iterable[int]) -> None:
        """Count records that were returned to a caller."""
        for row in rows:
            if row in self._counts or len(self._counts) < MOST:
                self._counts[row] = self._counts.get(row, 0) + 1
                self._some.set()

    async def run(self) -> None:
        """Write the counts every few seconds, until cancelled; then the rest."""
        try:
            while True:
                await self._some.wait()
                await asyncio.sleep(EVERY)
                await self.write()
        finally:
            await self.write()

    async def write(self) -> None:
        """Write the counts; what the ledger refuses is lost, and logged."""
        counts, self._counts, now = self._counts, {}, self._clock()
        self._some.clear()
        rows = list(counts)
        for start in range(0, len(rows), TOGETHER):
            part = rows[start : start + TOGETHER]
            accesses = [Access(row=row, times=counts[row], last=now) for row in part]
            try:
                await self._upkeep.add_access(accesses)
            except StorageError as error:
                log.warning("accesses_not_counted", records=len(part), reason=error.logged)
