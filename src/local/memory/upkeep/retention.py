"""Anonymises what was retired long ago: content, identity and vector go, row and references stay.

A new deployment only reports how many that would be, until it is switched on. Each batch is one
transaction, so a kill in between leaves whole records, and the next run continues with the others.
"""

import asyncio
from datetime import datetime, timedelta

import structlog

from local.errors import StorageError
from local.ledger.door import Ledger
from local.memory.changes import Announce
from local.memory.recall.statements import forget_texts
from local.protocol import subjects
from local.protocol.envelope import Clock
from local.protocol.payloads import MemoryChange
from local.settings import MemorySettings

AGENT = "retention"
TOGETHER = 200
"""Records of one transaction, behind which everybody's saves wait."""
EVERY = 3600.0
"""Seconds between two runs; where days count, an hour is not late."""

log = structlog.get_logger()


class Retention:
    """One tenant's retired records."""

    def __init__(
        self,
        ledger: Ledger,
        settings: MemorySettings,
        announce: Announce,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._announce = announce
        self._clock = clock
        self._reported = 0

    async def run(self) -> None:
        """Anonymise what is due, repeatedly, until cancelled."""
        while True:
            try:
                await self.once()
            except StorageError as error:
                log.warning("retention_delayed", reason=error.logged)
            except Exception:
                log.exception("retention_failed")
            await asyncio.sleep(EVERY)

    async def once(self) -> int:
        """Anonymise what is due; return how many records that were. A dry run only logs this."""
        if self._settings.anonymise != "on":
            await self._report()
            return 0
        done = 0
        while changed := await self._ledger.erasures.anonymise(
            before=self._due_before(), limit=TOGETHER, agent=AGENT, at=self._clock()
        ):
            done += len(changed)
            for one in changed:
                change = MemoryChange(id=one.id, kind=one.kind)
                self._announce(subjects.MEMORY_ANONYMIZED, change)
        if done:
            forget_texts()
            log.info("anonymised", records=done)
        return done

    async def due(self) -> int:
        """Return how many records are to be anonymised, or would be if that were on."""
        if self._settings.anonymise == "off":
            return 0
        return await self._ledger.erasures.count_to_anonymise(self._due_before())

    def _due_before(self) -> datetime:
        return self._clock() - timedelta(days=self._settings.anonymise_after_days)

    async def _report(self) -> None:
        due = await self.due()
        if due != self._reported:
            log.info("would_anonymise", records=due, remedy="set `anonymise: on` to do so")
        self._reported = due
